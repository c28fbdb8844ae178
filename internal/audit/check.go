package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// A Checker runs Check on a file in another process. On a damaged file bbolt can
// panic in a goroutine of its own, which no recover in this process catches.
type Checker func(ctx context.Context, path string) error

// checkTimeout is the deadline of a child that checks a file of this size: a
// check reads it about twice, at worst a few seconds per GiB.
func checkTimeout(size int64) time.Duration {
	return 30*time.Second + time.Duration(size>>30)*30*time.Second
}

// errCheckTimeout distinguishes the deadline of a check from its caller's.
var errCheckTimeout = errors.New("check timed out")

// lockTimeout is how long an open waits for another process to release the file.
const lockTimeout = time.Second

// Check examines the structure of the journal's file: header, every page,
// buckets, format. It opens read-only and repairs nothing. Call it in a
// process that may die (see Checker).
func Check(path string) (err error) {
	if _, _, err := readHeader(path); err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			err = corrupt(path, "%v", p)
		}
	}()
	db, err := bolt.Open(path, 0, &bolt.Options{
		Timeout: lockTimeout, ReadOnly: true, FreelistType: bolt.FreelistMapType,
	})
	if err != nil {
		return openError(path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.View(func(tx *bolt.Tx) error {
		var first error
		for e := range tx.Check() {
			if first == nil {
				first = corrupt(path, "%v", e)
			}
		}
		if first != nil {
			return first
		}
		_, err := readMeta(tx, path)
		return err
	})
}

// openError explains why bbolt did not open the file.
func openError(path string, err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("%s: %w by another responder or tool; stop it, or work on a copy (`responder audit export`)", path, ErrLocked)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch):
		return foreign(path, "%v", err)
	case errors.Is(err, bolterrors.ErrChecksum):
		return corrupt(path, "%v", err)
	}
	return fileError(path, err)
}

// metaInfo is the content of the meta bucket.
type metaInfo struct {
	origin, public, created string
	tree                    tree
}

// readMeta checks that tx is on a journal of this format and reads its header.
func readMeta(tx *bolt.Tx, path string) (metaInfo, error) {
	meta := tx.Bucket(bucketMeta)
	if meta == nil || meta.Get(keyFormat) == nil {
		return metaInfo{}, foreign(path, "it is a bbolt file of another program")
	}
	if got := string(meta.Get(keyFormat)); got != format {
		return metaInfo{}, foreign(path, "it has format %q, this responder knows %q", got, format)
	}
	for _, name := range allBuckets() {
		if tx.Bucket(name) == nil {
			return metaInfo{}, corrupt(path, "bucket %q is missing", name)
		}
	}
	t, err := parseTree(tx.Bucket(bucketLog).Get(keyTree))
	if err != nil {
		return metaInfo{}, corrupt(path, "%v", err)
	}
	return metaInfo{
		origin:  string(meta.Get(keyOrigin)),
		public:  string(meta.Get(keyPublic)),
		created: string(meta.Get(keyCreated)),
		tree:    t,
	}, nil
}

// Exit codes of a checking process.
const (
	exitDamaged = 3
	exitForeign = 4
	exitLocked  = 5
	exitOther   = 6
)

// CheckMain is the body of the checking process: it runs Check, prints the
// error and returns the exit code that CheckerCommand understands.
func CheckMain(path string, stderr io.Writer) int {
	err := Check(path)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, err)
	switch {
	case errors.Is(err, ErrForeign):
		return exitForeign
	case errors.Is(err, ErrLocked):
		return exitLocked
	case errors.Is(err, ErrCorrupt):
		return exitDamaged
	}
	return exitOther
}

// CheckerCommand returns a Checker that runs exe with args and the file's path
// appended. The process must end in os.Exit(CheckMain(path, os.Stderr)).
func CheckerCommand(exe string, args ...string) Checker {
	return func(ctx context.Context, path string) error {
		_, size, err := readHeader(path)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, checkTimeout(size), errCheckTimeout)
		defer cancel()
		var out firstLines
		cmd := exec.CommandContext(ctx, exe, append(append([]string(nil), args...), path)...)
		cmd.Stderr = &out
		cmd.WaitDelay = time.Second
		if err := cmd.Run(); err != nil {
			return childError(ctx, path, err, out.String())
		}
		return nil
	}
}

// childError turns the end of a checking process into the error it stands for.
func childError(ctx context.Context, path string, err error, output string) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return fmt.Errorf("%s: check in a child process: %w", path, err)
	}
	switch exit.ExitCode() {
	case exitForeign:
		return &childVerdict{ErrForeign, output}
	case exitLocked:
		return &childVerdict{ErrLocked, output}
	case exitDamaged:
		return &childVerdict{ErrCorrupt, output}
	case exitOther:
		return fmt.Errorf("%s: check in a child process: %s", path, output)
	}
	switch {
	case errors.Is(context.Cause(ctx), errCheckTimeout):
		return corrupt(path, "the check did not end in time")
	case ctx.Err() != nil || !exit.Exited():
		// Killed by the caller or for memory: no verdict on the file.
		return fmt.Errorf("%s: check in a child process: %w", path, errors.Join(ctx.Err(), err))
	}
	// bbolt panicked where nothing recovers.
	return corrupt(path, "the check died (%v): %s", err, output)
}

// A childVerdict is an error of Check that crossed a process boundary.
type childVerdict struct {
	kind error
	text string
}

func (v *childVerdict) Error() string { return v.text }
func (v *childVerdict) Unwrap() error { return v.kind }

// firstLines keeps the beginning of what a dying child prints: a panic's
// message comes first, its goroutines are of no use.
type firstLines struct{ b bytes.Buffer }

const maxFirstLines = 2048

func (t *firstLines) Write(p []byte) (int, error) {
	if room := maxFirstLines - t.b.Len(); room > 0 {
		t.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (t *firstLines) String() string {
	s, _, _ := bytes.Cut(t.b.Bytes(), []byte("\n\ngoroutine "))
	return string(bytes.TrimSpace(s))
}
