//go:build cgo

package nvml

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	nvidia "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/judge"
)

// processIn is a process that uses an instance.
func processIn(pid, gi int) nvidia.ProcessInfo {
	return nvidia.ProcessInfo{Pid: uint32(pid), UsedGpuMemory: 1 << 30, GpuInstanceId: uint32(gi)}
}

// A divided GPU has one verdict, that of the physical GPU, and pods for each of
// its instances.
func TestDividedGPUs(t *testing.T) {
	proc := t.TempDir()
	for pid, pod := range map[string]string{"11": "11111111-1111-1111-1111-111111111111", "12": "22222222-2222-2222-2222-222222222222"} {
		if err := os.Mkdir(filepath.Join(proc, pid), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, pid, "cgroup"), []byte("0::/kubepods/pod"+pod+"/c\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := newDGX(4)
	d.gpus[0].divide(t, slices.Repeat([]int{nvidia.GPU_INSTANCE_PROFILE_1_SLICE}, 7)...)
	d.gpus[1].divide(t, nvidia.GPU_INSTANCE_PROFILE_3_SLICE, nvidia.GPU_INSTANCE_PROFILE_2_SLICE, nvidia.GPU_INSTANCE_PROFILE_2_SLICE)
	d.gpus[0].GetComputeRunningProcessesFunc = func() ([]nvidia.ProcessInfo, nvidia.Return) {
		return []nvidia.ProcessInfo{processIn(11, 3), processIn(12, 6), processIn(11, 3)}, nvidia.SUCCESS
	}
	d.run(t, proc, func(t *testing.T, c *Collector) {
		s := c.Snapshot()
		profiles := func(g gpu.GPU) (out []string) {
			for _, m := range g.MIG.Instances {
				out = append(out, m.Profile)
			}
			return out
		}
		for i, want := range [][]string{slices.Repeat([]string{"1g.5gb"}, 7), {"3g.20gb", "2g.10gb", "2g.10gb"}, nil, nil} {
			if got := profiles(s.GPUs[i]); !slices.Equal(got, want) {
				t.Errorf("GPU %d is divided into %v, want %v", i, got, want)
			}
		}
		pods, _ := s.GPUs[0].Pods.Get()
		if diff := cmp.Diff([]gpu.Pod{
			{UID: "11111111-1111-1111-1111-111111111111", Instance: "MIG-GPU-0-3", PID: 11, UsedBytes: 2 << 30},
			{UID: "22222222-2222-2222-2222-222222222222", Instance: "MIG-GPU-0-6", PID: 12, UsedBytes: 1 << 30},
		}, pods); diff != "" {
			t.Errorf("pods (-want +got)\n%s", diff)
		}
		if got := verdicts(t, c); !slices.Equal(got, slices.Repeat([]judge.Verdict{judge.Healthy}, 4)) {
			t.Errorf("verdicts: %v: %+v", got, judge.Nodes(time.Now(), s)[0])
		}

		d.gpus[1].happen(95) // uncontained: it takes every instance with it
		d.gpus[0].divide(t, nvidia.GPU_INSTANCE_PROFILE_7_SLICE)
		time.Sleep(slowEvery + time.Second)
		if got := verdicts(t, c); !slices.Equal(got, []judge.Verdict{judge.Healthy, judge.Failing, judge.Healthy, judge.Healthy}) {
			t.Errorf("after XID 95: %v", got)
		}
		if got := profiles(c.Snapshot().GPUs[0]); !slices.Equal(got, []string{"7g.40gb"}) {
			t.Errorf("divided anew: %v", got)
		}
	})
}

// What cannot be read of how a GPU is divided is said, and its verdict stays.
func TestDivisionThatCannotBeRead(t *testing.T) {
	fail := func(r nvidia.Return) func(*dgxGPU) {
		return func(g *dgxGPU) {
			whole := g.GetMigDeviceHandleByIndexFunc
			g.GetMigDeviceHandleByIndexFunc = func(i int) (nvidia.Device, nvidia.Return) {
				if i == 1 {
					return nil, r
				}
				return whole(i)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*dgxGPU)
		on     string // how MIG mode reads
		parts  int
		errors int
		want   judge.Verdict
	}{
		"one less":      {fail(nvidia.ERROR_NOT_FOUND), "true", 2, 0, judge.Healthy},
		"one not given": {fail(nvidia.ERROR_UNKNOWN), "true", 2, 1, judge.Healthy},
		"no permission": {fail(nvidia.ERROR_NO_PERMISSION), "true", 2, 1, judge.Healthy},
		"how many unsaid": {func(g *dgxGPU) {
			g.GetMaxMigDeviceCountFunc = func() (int, nvidia.Return) { return 0, nvidia.ERROR_UNKNOWN }
		}, "[failed]", 0, 1, judge.Uncertain},
		"no such thing": {func(g *dgxGPU) {
			g.GetMigModeFunc = func() (int, int, nvidia.Return) { return 0, 0, nvidia.ERROR_NOT_SUPPORTED }
		}, "false", 0, 0, judge.Healthy},
		"mode unsaid": {func(g *dgxGPU) {
			g.GetMigModeFunc = func() (int, int, nvidia.Return) { return 0, 0, nvidia.ERROR_TIMEOUT }
		}, "[timeout]", 0, 0, judge.Uncertain},
		"lost": {func(g *dgxGPU) {
			g.GetMigModeFunc = func() (int, int, nvidia.Return) { return 0, 0, nvidia.ERROR_GPU_IS_LOST }
		}, "[lost]", 0, 0, judge.Failing},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDGX(1)
			d.gpus[0].divide(t, slices.Repeat([]int{nvidia.GPU_INSTANCE_PROFILE_2_SLICE}, 3)...)
			c.change(d.gpus[0])
			d.run(t, "", func(t *testing.T, collector *Collector) {
				g := collector.Snapshot().GPUs[0]
				if g.MIG.Enabled.String() != c.on || len(g.MIG.Instances) != c.parts || len(g.Errors) != c.errors {
					t.Errorf("MIG %+v, errors %+v", g.MIG, g.Errors)
				}
				if got := verdicts(t, collector); got[0] != c.want {
					t.Errorf("verdict %v, want %s: %+v", got, c.want, judge.Nodes(time.Now(), collector.Snapshot())[0].GPUs[0].Reasons)
				}
			})
		})
	}
}
