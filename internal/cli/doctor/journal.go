package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/audit"
)

// Room in the journal's directory, in bytes: below the first the journal will be full
// within days, below the second it may be now.
const (
	littleRoom = 1 << 30
	noRoom     = 64 << 20
)

// journal checks its directory, and the header of a journal that is there. A service
// that has it open is not disturbed.
func (e *exam) journal(context.Context) []Finding {
	dir := e.c.Journal.Dir
	out := []Finding{writable("directory", dir)}
	file := filepath.Join(dir, app.JournalFile)
	switch bytes, err := audit.CheckHeader(file); {
	case errors.Is(err, fs.ErrNotExist):
		out = append(out, ok("file", "there is none yet: it begins with the first start"))
	case err != nil:
		out = append(out, failed("file", err.Error(), "restore it, as docs/how-to/back-up-and-restore.md has it; 'responder audit verify' tells more"))
	default:
		out = append(out, ok("file", fmt.Sprintf("%s: its header is sound, %d MiB", file, bytes>>20)))
	}
	if e.c.Journal.Archive == "" {
		return append(out, notAsked("archive", "none is configured: the journal keeps everything and grows"))
	}
	return append(out, writable("archive", e.c.Journal.Archive))
}

// writable checks that a directory can be written and has room.
func writable(check, dir string) Finding {
	probe, err := os.CreateTemp(dir, ".doctor-")
	if errors.Is(err, fs.ErrNotExist) && check == "directory" {
		parent := writable(check, filepath.Dir(filepath.Clean(dir)))
		if parent.Result == OK {
			parent.Detail = dir + " is not there yet and can be made; " + parent.Detail
		}
		return parent
	}
	if err == nil {
		err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	}
	if err != nil {
		return failed(check, err.Error(), "name a directory in journal."+map[string]string{"directory": "dir", "archive": "archive"}[check]+" that this user may write")
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return warning(check, fmt.Sprintf("%s can be written; its room is not known: %v", dir, err), "see that it has room: a full journal takes no alerts")
	}
	free := fs.Bavail * uint64(fs.Bsize)
	detail := fmt.Sprintf("%s can be written, %.1f GiB are free", dir, float64(free)/(1<<30))
	switch {
	case free < noRoom:
		return failed(check, detail, "make room: a full journal takes no alerts")
	case free < littleRoom:
		return warning(check, detail, "make room, or archive what is old (journal.archive): a full journal takes no alerts")
	}
	return ok(check, detail)
}
