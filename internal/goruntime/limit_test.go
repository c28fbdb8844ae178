package goruntime

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// The limit is the least of the process's groups, in both versions, seen from the host
// and from a container.
func TestContainerLimit(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  uint64
	}{
		"none":           {map[string]string{"proc/self/cgroup": "0::/\n"}, 0},
		"no groups":      {nil, 0},
		"version 2":      {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n"}, 512 << 20},
		"no limit":       {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 0},
		"a parent's":     {map[string]string{"proc/self/cgroup": "0::/pod/box\n", "sys/fs/cgroup/pod/memory.max": "1048576\n", "sys/fs/cgroup/pod/box/memory.max": "max\n"}, 1 << 20},
		"version 1":      {map[string]string{"proc/self/cgroup": "5:cpu:/x\n4:memory:/pod/box\n0::/\n", "sys/fs/cgroup/memory/pod/box/memory.limit_in_bytes": "536870912\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 512 << 20},
		"host's path":    {map[string]string{"proc/self/cgroup": "4:memory:/kubepods/x\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n"}, 512 << 20},
		"not understood": {map[string]string{"proc/self/cgroup": "what\n4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "much\n"}, 0},
	} {
		root := t.TempDir()
		for file, text := range c.files {
			file = filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := containerLimit(root); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestLives(t *testing.T) {
	runtime.GC()
	before := Lives()
	kept := make([]byte, 64<<20)
	runtime.GC()
	if more := Lives() - before; more < 60<<20 || more > 70<<20 {
		t.Errorf("64 MiB more live, counted %d", more)
	}
	runtime.KeepAlive(kept)
}
