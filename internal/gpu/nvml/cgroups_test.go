package nvml

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/gpu"
)

func TestPodsByCgroup(t *testing.T) {
	const uid = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
	proc := t.TempDir()
	for pid, cgroup := range map[int]string{
		11: "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0f1e2d3c_4b5a_6978_8796_a5b4c3d2e1f0.slice/cri-containerd-aa.scope\n",
		12: "9:cpu:/kubepods/burstable/pod" + uid + "/bb\n0::/\n",
		13: "0::/../../kubepods-pod11111111_2222_3333_4444_555555555555.slice/crio-cc.scope\n", // as another cgroup namespace sees it
		14: "0::/system.slice/nvidia-persistenced.service\n",
		15: "0::/kubepods/pod0123456789abcdef0123456789abcdef/dd\n", // a static pod
	} {
		dir := filepath.Join(proc, strconv.Itoa(pid))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup"), []byte(cgroup), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := gpu.GPU{MIG: gpu.MIG{Instances: []gpu.MIGInstance{{UUID: "MIG-a", GI: 7, CI: 0}}}}
	got := podsOf(proc, g, []process{
		{pid: 11, usedBytes: 5, gi: -1, ci: -1},
		{pid: 12, usedBytes: 6, gi: -1, ci: -1},
		{pid: 13, usedBytes: 7, gi: 7},
		{pid: 14, gi: -1, ci: -1},
		{pid: 15, gi: -1, ci: -1},
	})
	want := []gpu.Pod{
		{UID: uid, PID: 11, UsedBytes: 11},
		{UID: "11111111-2222-3333-4444-555555555555", Instance: "MIG-a", PID: 13, UsedBytes: 7},
		{UID: "0123456789abcdef0123456789abcdef", PID: 15},
	}
	pods, ok := got.Get()
	if diff := cmp.Diff(want, pods); !ok || diff != "" {
		t.Errorf("%v (-want +got)\n%s", got, diff)
	}
	if none, ok := podsOf(proc, g, nil).Get(); !ok || len(none) != 0 {
		t.Errorf("a GPU that nobody uses: %v", none)
	}
	// A process that is not seen may be any pod's.
	if got := podsOf(proc, g, []process{{pid: 11}, {pid: 99}}).Why(); got != gpu.Failed {
		t.Errorf("a process that is not seen: %q", got)
	}
}

func TestGPUsOnTheBus(t *testing.T) {
	dir := t.TempDir()
	for name, d := range map[string][3]string{ // vendor, class, driver
		"0000:18:00.0": {"0x10de", "0x030200", "nvidia"},
		"0000:2a:00.0": {"0x10de", "0x030000", "nvidia"},
		"0000:3a:00.0": {"0x10de", "0x030200", "vfio-pci"}, // a virtual machine's
		"0000:3b:00.0": {"0x10de", "0x068000", "nvidia"},   // a switch
		"0000:00:02.0": {"0x8086", "0x030000", "i915"},
	} {
		at := filepath.Join(dir, name)
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"vendor": d[0], "class": d[1]} {
			if err := os.WriteFile(filepath.Join(at, file), []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("../../bus/pci/drivers/"+d[2], filepath.Join(at, "driver")); err != nil {
			t.Fatal(err)
		}
	}
	if n, ok := onBus(dir).Get(); !ok || n != 2 {
		t.Errorf("%d GPUs (%v), want 2", n, ok)
	}
	if why := onBus(filepath.Join(dir, "none")).Why(); why != gpu.Failed {
		t.Errorf("no bus: %q", why)
	}
}
