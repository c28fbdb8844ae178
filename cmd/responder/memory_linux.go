package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// letGoOfProgram gives the pages of the program's file back to the system's page
// cache: most of them only the start needed. What is needed again comes from
// there. It leaves out what was written to, also by a loader.
func letGoOfProgram() error {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("find the program's file: %w", err)
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("read what is mapped: %w", err)
	}
	defer maps.Close()
	var unwritten []mapping
	var now mapping
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		line := lines.Text()
		if m, ok := parseMapping(line); ok {
			now = m
		} else if strings.HasPrefix(line, "Anonymous:") && strings.Join(strings.Fields(line), " ") == "Anonymous: 0 kB" && now.file == exe && !now.writable {
			unwritten = append(unwritten, now)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read what is mapped: %w", err)
	}
	for _, m := range unwritten {
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, m.from, m.to-m.from, syscall.MADV_DONTNEED); errno != 0 {
			return os.NewSyscallError("madvise", errno)
		}
	}
	return nil
}

// mapping is a stretch of memory that shows a file.
type mapping struct {
	from, to uintptr
	writable bool
	file     string
}

// parseMapping reads the line that begins a mapping in smaps:
// 00400000-01f8e000 r-xp 00000000 fe:00 123 /usr/bin/responder
func parseMapping(line string) (m mapping, ok bool) {
	var rights, offset, device, inode string
	if n, _ := fmt.Sscanf(line, "%x-%x %s %s %s %s", &m.from, &m.to, &rights, &offset, &device, &inode); n < 6 {
		return mapping{}, false
	}
	_, m.file, _ = strings.Cut(line, " "+inode+" ")
	m.file = strings.TrimSpace(m.file)
	m.writable = strings.Contains(rights, "w")
	return m, true
}
