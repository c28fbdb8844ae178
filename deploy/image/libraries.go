package main

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// parts of the C library that NVIDIA's driver library names, too.
var parts = []string{"libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1"}

// libraries returns the C library of the platform's programs: the loader that they name and
// the libraries that they and NVIDIA's driver library need. It is the compiler's, against
// which they were linked, so no symbol version is missing.
//
// The libraries lie in the directory of the triplet, such as /usr/lib/aarch64-linux-gnu,
// where the loader looks without any configuration. The driver library comes later, from
// NVIDIA's container runtime, which mounts it there, or in /usr/lib64 or the directory of the
// host. For the latter it runs the host's ldconfig, which writes /etc/ld.so.cache. Its older
// versions do so only where that file is there, so the image has an empty one, which the
// loader ignores, and a configuration that includes the directories that the runtime names.
func (p *programs) libraries(compiler string) ([]file, error) {
	loader, needed, err := p.linked()
	if err != nil {
		return nil, err
	}
	switch {
	case loader == "" && compiler == "":
		return nil, nil
	case loader == "":
		return nil, errors.New("the programs were built without cgo and need no library: leave out -compiler")
	case compiler == "":
		return nil, fmt.Errorf("the programs need a C library: name the compiler that linked them, such as -compiler %s=gcc", p.platform)
	}
	dir, err := directory(compiler)
	if err != nil {
		return nil, err
	}
	from := map[string]string{strings.TrimPrefix(loader, "/"): path.Base(loader)} // to where in the image, which library
	for _, name := range slices.Concat(parts, needed) {
		if name != path.Base(loader) {
			from[path.Join(dir, name)] = name
		}
	}
	out := []file{{"etc/ld.so.cache", 0o644, nil}, {"etc/ld.so.conf", 0o644, []byte("include /etc/ld.so.conf.d/*.conf\n")}}
	dirs := map[string]bool{}
	for at, name := range from {
		source, err := library(compiler, name)
		if err != nil {
			return nil, err
		}
		data, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		out = append(out, file{at, 0o755, data})
		for d := path.Dir(at); d != "."; d = path.Dir(d) {
			dirs[d+"/"] = true
		}
	}
	for d := range dirs {
		out = append(out, file{d, 0o755, nil})
	}
	slices.SortFunc(out, func(a, b file) int { return strings.Compare(a.path, b.path) }) // a directory before what it holds
	return out, nil
}

// linked returns the loader that the programs name, and the libraries that they need. Both
// are empty for programs that were built without cgo.
func (p *programs) linked() (loader string, needed []string, err error) {
	for _, name := range p.names {
		f, err := elf.Open(filepath.Join(p.folder, name))
		if err != nil {
			return "", nil, err
		}
		defer f.Close()
		section := f.Section(".interp")
		if section == nil {
			continue
		}
		raw, err := section.Data()
		if err != nil {
			return "", nil, err
		}
		libraries, err := f.ImportedLibraries()
		if err != nil {
			return "", nil, err
		}
		loader, needed = strings.TrimRight(string(raw), "\x00"), append(needed, libraries...)
	}
	return loader, needed, nil
}

// directory returns where the loader of the compiler's C library looks for libraries: in
// that of the triplet, or where distributions without triplets have their own libraries.
func directory(compiler string) (string, error) {
	triplet, err := ask(compiler, "-print-multiarch")
	if err != nil || triplet != "" {
		return path.Join("usr/lib", triplet), err
	}
	c, err := library(compiler, "libc.so.6")
	if err != nil {
		return "", err
	}
	dir := strings.TrimPrefix(filepath.Dir(c), "/")
	if dir != "usr/lib" && dir != "usr/lib64" {
		return "", fmt.Errorf("%s has its C library in %s, where its loader may not look: use the cross compiler of Debian or Ubuntu", compiler, filepath.Dir(c))
	}
	return dir, nil
}

// library returns the file of a part of the compiler's C library.
func library(compiler, name string) (string, error) {
	file, err := ask(compiler, "-print-file-name="+name)
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(file) { // a compiler repeats the name of what it does not have
		return "", fmt.Errorf("%s has no %s: is it the compiler that linked the programs?", compiler, name)
	}
	return filepath.EvalSymlinks(file)
}

// ask returns what a compiler prints.
func ask(compiler, question string) (string, error) {
	command := append(strings.Fields(compiler), question)
	out, err := exec.CommandContext(context.Background(), command[0], command[1:]...).Output()
	if err != nil {
		return "", fmt.Errorf("ask the compiler for its C library: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
