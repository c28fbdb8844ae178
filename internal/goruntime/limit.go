package goruntime

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
)

// Limit returns how many bytes of memory the process may have: the runtime's own limit,
// or that of the container; 0: there is none.
func Limit() uint64 {
	if set := debug.SetMemoryLimit(-1); set != math.MaxInt64 {
		return uint64(set)
	}
	return containerLimit("/")
}

// KeepLimit has the runtime collect garbage more often before the memory of the
// container is used up. It leaves a part of it to what is not Go's: pages of files that
// are written, the kernel's buffers of connections. It returns the limit it set, 0 if
// there is none.
func KeepLimit() uint64 {
	limit := containerLimit("/")
	if limit == 0 {
		return 0
	}
	limit -= limit / 5
	debug.SetMemoryLimit(int64(min(limit, math.MaxInt64)))
	return limit
}

// Lives returns the size of what the last collection of garbage found to be in use, and
// of what the runtime has beside its heap.
func Lives() uint64 {
	read := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/memory/classes/metadata/mcache/inuse:bytes"},
		{Name: "/memory/classes/metadata/mspan/inuse:bytes"},
		{Name: "/memory/classes/metadata/other:bytes"},
		{Name: "/memory/classes/other:bytes"},
	}
	metrics.Read(read)
	var sum uint64
	for _, s := range read {
		sum += s.Value.Uint64()
	}
	return sum
}

// containerLimit returns the least limit of the process's control groups below root, of
// either version; 0: there is none.
func containerLimit(root string) uint64 {
	data, err := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0
	}
	var least uint64
	for line := range strings.Lines(string(data)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, ok := strings.Cut(rest, ":")
		base, file := path.Join(root, "sys/fs/cgroup"), "memory.max"
		switch {
		case !ok:
			continue
		case controllers == "memory":
			base, file = path.Join(base, "memory"), "memory.limit_in_bytes"
		case controllers != "":
			continue
		}
		// In a container the group's path may be the host's, and its root is the container's.
		for group = path.Clean("/" + group); ; group = path.Dir(group) {
			if limit := readLimit(path.Join(base, group, file)); limit > 0 && (least == 0 || limit < least) {
				least = limit
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}

// readLimit reads a file with a limit; 0: it says that there is none, or does not exist.
func readLimit(file string) uint64 {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	if err != nil || n > 1<<60 { // max, or version 1's number for it
		return 0
	}
	return n
}
