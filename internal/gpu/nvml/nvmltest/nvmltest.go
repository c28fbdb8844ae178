package nvmltest

import (
	_ "embed" // nvml.c
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

//go:embed testdata/nvml.c
var source []byte

// ScriptVariable is the environment variable that names the script.
const ScriptVariable = "NVML_STUB_SCRIPT"

// Return codes of NVML that scripts use.
const (
	NotSupported     = "3"
	DriverNotLoaded  = "9"
	NoPermission     = "4"
	Lost             = "15"
	ResetRequired    = "16"
	VersionMismatch  = "18"
	Uninitialized    = "1"
	UnknownError     = "999"
	Hang             = "hang" // does not return until the script says otherwise
	EventXID         = "0x8"
	SupportedXIDOnly = "0x8"
)

// Build compiles the library into a directory and gives its path. Functions in
// without are left out, as in the library of an old driver. The test is skipped
// where there is no C compiler.
func Build(t testing.TB, dir string, without ...string) string {
	t.Helper()
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("SKIPPED: no gcc here, so NVIDIA's library cannot be stood in for and nothing of internal/gpu/nvml is tested; install gcc")
	}
	// The header is go-nvml's own, so that structures are as it expects them.
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml").Output()
	if err != nil {
		t.Fatalf("find go-nvml's nvml.h: %v", err)
	}
	file := filepath.Join(dir, "nvml.c")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(dir, "libnvidia-ml.so.1")
	args := []string{"-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-I", filepath.Join(strings.TrimSpace(string(out)), "pkg", "nvml"), "-o", library, file, "-lpthread"}
	for _, function := range without {
		args = append(args, "-DWITHOUT_"+function)
	}
	if out, err := exec.CommandContext(t.Context(), compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("compile the stand-in for NVIDIA's library: %v\n%s", err, out)
	}
	return library
}

// Script is what the library says.
type Script map[string]string

// Healthy is a machine with idle, healthy GPUs of the H100's kind.
func Healthy(gpus int) Script {
	s := Script{"driver": "550.54.15", "nvml": "12.550.54.15", "count": fmt.Sprint(gpus)}
	for i := range gpus {
		for key, value := range map[string]string{
			"uuid": fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", i), "name": "NVIDIA H100 80GB HBM3", "serial": fmt.Sprint(1650000 + i),
			"pci": fmt.Sprintf("00000000:%02X:00.0", 0x18+i), "reasons": "0x1", "reasons_supported": "0x1ff", "pstate": "0",
			"clock.1": "1980", "clock_max.1": "1980", "clock.2": "2619", "clock_max.2": "2619",
			"temperature": "34", "threshold.0": "92", "threshold.1": "89", "threshold.2": "95", "threshold.3": "87",
			"power": "71000", "power_limit": "700000", "power_default": "700000", "utilization": "0", "utilization_memory": "0",
			"memory_total": fmt.Sprint(80 << 30), "memory_used": fmt.Sprint(60 << 30), "memory_reserved": fmt.Sprint(512 << 20),
			"ecc": "1", "ecc_volatile.corrected": "0", "ecc_volatile.uncorrected": "0", "ecc_aggregate.corrected": "3", "ecc_aggregate.uncorrected": "0",
			"ecc_volatile.uncorrected.7": "0", "ecc_aggregate.uncorrected.7": "0", "ecc_volatile.uncorrected.2": "0", "ecc_aggregate.uncorrected.2": "0", "sram_threshold_exceeded": "0",
			"remapped": "0 0 0 0", "banks": "2560 0 0 0 0", "repair": "0 0",
			"pcie_width": "16", "pcie_width_max": "16", "pcie_generation": "5", "pcie_generation_max": "5", "pcie_replays": "0",
			"fabric": "3 0 0x2a 1", "field.74": "0", "field.75": "0", "field.76": "0", "field.251": "0", "field.252": "0", "field.253": "0", "field.82": "41", "field.230": "0",
			"mig": "0", "mig_max": "7", "events_supported": "0xfe1e",
		} {
			s.Set(i, key, value)
		}
		for link := range 18 {
			s.Set(i, fmt.Sprintf("nvlink.%d", link), "1")
			for counter := range 4 {
				s.Set(i, fmt.Sprintf("nvlink_errors.%d.%d", link, counter), "0")
			}
		}
	}
	return s
}

// Blackwell is the same with GPUs of the B200's kind: no thresholds of temperature
// but margins, and the counters of NVLink 5.
func Blackwell(gpus int) Script {
	s := Healthy(gpus)
	s["driver"], s["nvml"] = "580.95.05", "13.580.95.05"
	for i := range gpus {
		for threshold := range 4 {
			s.Unset(i, fmt.Sprintf("threshold.%d", threshold))
		}
		for key, value := range map[string]string{"name": "NVIDIA B200", "margin": "51", "field.193": "-8", "field.194": "-2", "field.195": "0", "field.196": "0"} {
			s.Set(i, key, value)
		}
		for link := range 18 {
			for counter := range 4 {
				s.Unset(i, fmt.Sprintf("nvlink_errors.%d.%d", link, counter))
			}
			for _, id := range []int{208, 211, 213, 214, 215, 219, 221} {
				s.Set(i, fmt.Sprintf("field.%d.%d", id, link), "0")
			}
		}
	}
	return s
}

// Set sets one value of one GPU.
func (s Script) Set(gpu int, key, value string) { s[fmt.Sprintf("gpu.%d.%s", gpu, key)] = value }

// Unset takes back what was said of one GPU.
func (s Script) Unset(gpu int, key string) { delete(s, fmt.Sprintf("gpu.%d.%s", gpu, key)) }

// Happen adds an XID to what happened.
func (s Script) Happen(gpu int, xid uint64) {
	s["events"] = strings.TrimSpace(fmt.Sprintf("%s %d:%s:%d", s["events"], gpu, EventXID, xid))
}

// Write replaces a script at once, so that the library never reads half of it.
func (s Script) Write(t testing.TB, file string) {
	t.Helper()
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&b, "%s %s\n", key, s[key])
	}
	if err := os.WriteFile(file+".next", []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".next", file); err != nil {
		t.Fatal(err)
	}
}
