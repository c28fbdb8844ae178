//go:build cgo

package nvml

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	nvidia "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/inference-responder/responder/internal/gpu"
)

const defaultLibrary = "libnvidia-ml.so.1"

// library is NVIDIA's driver library.
type library struct {
	name string
	lib  nvidia.Interface

	mu   sync.Mutex      // guards have
	have map[string]bool // which functions there are
}

func newDriver(name string) driver {
	if name == "" {
		name = defaultLibrary
	}
	return &library{name: name, lib: nvidia.New(nvidia.WithLibraryPath(name)), have: map[string]bool{}}
}

// open loads and initializes the library. It is never unloaded, because hanging
// calls are still in it.
func (l *library) open() error {
	// go-nvml reports only that it was not found; the loader knows why.
	if err := loadable(l.name); err != nil {
		return &Unavailable{
			Why:    gpu.Failed,
			Reason: fmt.Sprintf("the NVIDIA driver library cannot be loaded: %v", err),
			Hint: "on a GPU node the NVIDIA container runtime mounts it: set runtimeClassName: nvidia on the pod, with " +
				"NVIDIA_VISIBLE_DEVICES=all and NVIDIA_DRIVER_CAPABILITIES=utility in its environment; without that runtime, " +
				"mount the host's " + defaultLibrary + " and /dev/nvidia* and name the library with --library",
		}
	}
	return l.begin()
}

// begin initializes the library and explains a failure.
func (l *library) begin() error {
	switch r := l.lib.Init(); r {
	case nvidia.SUCCESS:
		return nil
	case nvidia.ERROR_DRIVER_NOT_LOADED:
		return &Unavailable{
			Why: gpu.Failed, Reason: "the NVIDIA kernel driver is not loaded on this node",
			Hint: "look at the node's driver (lsmod, dmesg), or at the GPU operator's driver pod",
		}
	case nvidia.ERROR_LIB_RM_VERSION_MISMATCH:
		return &Unavailable{
			Why: gpu.Failed, Reason: "the driver library and the kernel driver are of different versions: the driver was upgraded", Restart: true,
			Hint: "restart this pod to mount the new library; if it stays, reboot the node, which still runs the old kernel driver",
		}
	case nvidia.ERROR_NO_PERMISSION:
		return &Unavailable{
			Why: gpu.Denied, Reason: "this process may not use the NVIDIA driver",
			Hint: "it needs /dev/nvidiactl and /dev/nvidia*: set runtimeClassName: nvidia on the pod",
		}
	default:
		return &Unavailable{Why: absence(r), Reason: "nvmlInit: " + words(r), Hint: "see the node's kernel log (dmesg | grep NVRM)"}
	}
}

// loadable returns why the library cannot be loaded.
func loadable(name string) error {
	lib := dl.New(name, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
	if err := lib.Open(); err != nil {
		return err
	}
	if err := lib.Lookup("nvmlInit_v2"); err != nil {
		return fmt.Errorf("%s is not NVIDIA's driver library: %w", name, err)
	}
	return nil
}

func (l *library) versions() (driver, lib string) {
	if v, r := l.lib.SystemGetDriverVersion(); r == nvidia.SUCCESS {
		driver = printable(v)
	}
	if v, r := l.lib.SystemGetNVMLVersion(); r == nvidia.SUCCESS {
		lib = printable(v)
	}
	return driver, lib
}

func (l *library) count() (int, error) {
	n, r := l.lib.DeviceGetCount()
	if r != nvidia.SUCCESS {
		return 0, failed("nvmlDeviceGetCount", r)
	}
	return n, nil
}

func (l *library) card(index int) card {
	return &device{library: l, index: index, links: -1}
}

// has reports whether the library has a function. Calling a missing one would end
// the process.
func (l *library) has(function string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	have, looked := l.have[function]
	if !looked {
		have = l.lib.Extensions().LookupSymbol(function) == nil
		l.have[function] = have
	}
	return have
}

// failed returns the error of a call, or errClosed.
func failed(call string, r nvidia.Return) error {
	if closed(r) {
		return errClosed
	}
	return &callError{call: call, why: absence(r), text: words(r)}
}

// closed reports whether the driver must be opened again.
func closed(r nvidia.Return) bool {
	return r == nvidia.ERROR_UNINITIALIZED || r == nvidia.ERROR_DRIVER_NOT_LOADED
}

// words returns the driver's text for a return code.
func words(r nvidia.Return) string { return fmt.Sprintf("%s (%d)", printable(r.Error()), int(r)) }

// absence returns why a call that returned r has no value.
func absence(r nvidia.Return) gpu.Absence {
	switch r {
	case nvidia.ERROR_NOT_SUPPORTED:
		return gpu.NotSupported
	case nvidia.ERROR_FUNCTION_NOT_FOUND, nvidia.ERROR_ARGUMENT_VERSION_MISMATCH, nvidia.ERROR_INVALID_ARGUMENT, nvidia.ERROR_DEPRECATED:
		return gpu.OldDriver // or a newer one that gave it up: this driver does not know the question
	case nvidia.ERROR_GPU_IS_LOST, nvidia.ERROR_GPU_NOT_FOUND:
		return gpu.Lost
	case nvidia.ERROR_RESET_REQUIRED:
		return gpu.NeedsReset
	case nvidia.ERROR_TIMEOUT:
		return gpu.Timeout
	case nvidia.ERROR_NO_PERMISSION:
		return gpu.Denied
	default:
		return gpu.Failed
	}
}

// number returns a field as a whole number; false if it is none.
func number(f nvidia.FieldValue) (uint64, bool) {
	switch nvidia.ValueType(f.ValueType) {
	case nvidia.VALUE_TYPE_UNSIGNED_INT, nvidia.VALUE_TYPE_SIGNED_INT:
		v := binary.NativeEndian.Uint32(f.Value[:4])
		return uint64(v), nvidia.ValueType(f.ValueType) == nvidia.VALUE_TYPE_UNSIGNED_INT || v <= math.MaxInt32
	case nvidia.VALUE_TYPE_UNSIGNED_LONG, nvidia.VALUE_TYPE_UNSIGNED_LONG_LONG:
		return binary.NativeEndian.Uint64(f.Value[:]), true
	case nvidia.VALUE_TYPE_SIGNED_LONG_LONG:
		v := binary.NativeEndian.Uint64(f.Value[:])
		return v, v <= math.MaxInt64
	default:
		return 0, false
	}
}

// signed returns a field that may be negative. The driver labels some of them
// unsigned.
func signed(f nvidia.FieldValue) (int64, bool) {
	switch nvidia.ValueType(f.ValueType) {
	case nvidia.VALUE_TYPE_UNSIGNED_INT, nvidia.VALUE_TYPE_SIGNED_INT:
		return int64(int32(binary.NativeEndian.Uint32(f.Value[:4]))), true
	case nvidia.VALUE_TYPE_UNSIGNED_LONG, nvidia.VALUE_TYPE_UNSIGNED_LONG_LONG, nvidia.VALUE_TYPE_SIGNED_LONG_LONG:
		return int64(binary.NativeEndian.Uint64(f.Value[:])), true
	default:
		return 0, false
	}
}

// printable returns text of the driver without control characters, and shortened.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), 200)]
}
