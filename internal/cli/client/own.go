package client

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// maxLinks is how many symbolic links lead to a file.
const maxLinks = 40

// readOwn reads a file that nobody but this user and root may write or replace: itself, and
// each directory and link of its path, from the root on. What is read is the file that was
// checked.
func readOwn(file string) ([]byte, error) {
	if _, err := os.Stat(file); err != nil { // who has none may have a home directory that others write
		return nil, err
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	if file, err = ownPath(file); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", file)
	}
	if err := ownAlone(file, info, os.Getuid()); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, maxContexts+1)) // more is refused where it is parsed
}

// ownPath follows an absolute path, and returns it without links.
func ownPath(path string) (string, error) {
	at, rest, links := "/", elements(path), 0
	for len(rest) > 0 {
		info, err := os.Lstat(at)
		if err != nil {
			return "", err
		}
		if err := ownAlone(at, info, os.Getuid()); err != nil {
			return "", err
		}
		next := filepath.Join(at, rest[0])
		if info, err = os.Lstat(next); err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at, rest = next, rest[1:]
			continue
		}
		if err := ownedBy(next, info, os.Getuid()); err != nil {
			return "", err
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: too many links lead to it", path)
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(elements(target), rest[1:]...)
	}
	return at, nil
}

// elements returns the names that a path consists of.
func elements(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// ownAlone returns an error if anybody but a user and root may write a file, or replace
// files in a directory. A directory may be written by root's group, as homes of OpenShift
// are, and by the user's private group.
func ownAlone(path string, info fs.FileInfo, user int) error {
	others := info.Mode().Perm() & 0o022
	stat, ok := info.Sys().(*syscall.Stat_t)
	if ok && info.IsDir() && others == 0o020 && (stat.Gid == 0 || isPrivate(int(stat.Gid), user, "/etc/passwd", "/etc/group")) {
		others = 0
	}
	if others != 0 && (!info.IsDir() || info.Mode()&fs.ModeSticky == 0) {
		return fmt.Errorf("others may write %s, and so choose where your token is sent; check the servers in contexts.yaml, then run 'chmod go-w %s'", path, path)
	}
	return ownedBy(path, info, user)
}

// isPrivate reports whether a group is that of one user alone: their primary group, named
// like them, without another member. A user or group that is in none of these files is not
// known well enough.
func isPrivate(group, user int, passwd, groups string) bool {
	name := ""
	for _, of := range entries(passwd, 4) {
		switch isPrimary := of[3] == strconv.Itoa(group); {
		case of[2] == strconv.Itoa(user) && isPrimary && (name == "" || name == of[0]):
			name = of[0]
		case isPrimary:
			return false // somebody else's, too
		}
	}
	known := false
	for _, of := range entries(groups, 4) {
		if of[2] != strconv.Itoa(group) {
			continue
		}
		if of[0] != name || of[3] != "" && of[3] != name {
			return false
		}
		known = true
	}
	return known && name != ""
}

// entries returns the lines of a file like /etc/passwd that have as many fields.
func entries(file string, fields int) (all [][]string) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		if of := strings.Split(strings.TrimSpace(line), ":"); len(of) >= fields {
			all = append(all, of)
		}
	}
	return all
}

// unmapped is the user that the kernel shows for one that a user namespace does not have.
const unmapped = 65534

// ownedBy returns an error if a file belongs to anybody but a user and root.
func ownedBy(path string, info fs.FileInfo, user int) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || stat.Uid == 0 || int(stat.Uid) == user:
		return nil
	case stat.Uid == unmapped:
		return fmt.Errorf("the owner of %s is not known: the user ID %d stands for every user outside this user namespace; name the service by --server and --token-file, or set $XDG_CONFIG_HOME to a directory whose whole path is yours or root's", path, unmapped)
	}
	return fmt.Errorf("%s belongs to the user with ID %d, who so chooses where your token is sent; check the servers in contexts.yaml, then make it your own with chown", path, stat.Uid)
}
