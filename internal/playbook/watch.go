package playbook

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Times of [Watch].
const (
	settleTime = 250 * time.Millisecond // quiet time before a change is read, and between its two readings: editors and kubelets write in several steps
	mostDelay  = 2 * time.Second        // longest delay of a change that does not become quiet, and of a directory that was missing
	pollTime   = 30 * time.Second       // for network file systems and lost events
)

// Watch loads a library and calls fn with the result, and again whenever the
// content of the playbook files of its directory changes, until ctx ends; then it returns
// nil. It supports ConfigMap mounts, whose files change by the swap of one
// link. A change counts once two readings are equal, because half of a file
// that is being written may be valid. If files are invalid, fn gets the error
// and no set; the caller keeps the last valid set. A missing directory is
// reported like an invalid file, and is found when it appears. fn is called
// from one goroutine, never concurrently. Watch returns an error only if
// nothing can be watched at all.
func Watch(ctx context.Context, library Library, kinds []Kind, fn func(*Set, error)) error {
	dir := library.Dir
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch playbook directory: %w", err)
	}
	defer w.Close()
	quiet, latest, missing := stopped(), stopped(), stopped()
	if w.Add(dir) != nil {
		missing.Reset(mostDelay)
	}
	v := view{library: library, kinds: kinds, fn: fn}
	v.look()
	poll := time.NewTicker(pollTime)
	defer poll.Stop()
	pending := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.Errors: //nolint:errcheck // events were lost: the content is compared anyway
		case <-w.Events:
			quiet.Reset(settleTime)
			if !pending {
				latest.Reset(mostDelay)
				pending = true
			}
			continue
		case <-quiet.C:
		case <-latest.C:
		case <-missing.C:
		case <-poll.C:
		}
		// A replaced directory loses its watch. Adding the watch again is
		// harmless if it still exists.
		if w.Add(dir) != nil {
			missing.Reset(mostDelay)
		}
		if pending = !v.look(); pending {
			quiet.Reset(settleTime)
			latest.Reset(mostDelay)
			continue
		}
		latest.Stop()
	}
}

// stopped returns a timer that has not been started.
func stopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// view is the last reported state of a directory.
type view struct {
	library Library
	kinds   []Kind
	fn      func(*Set, error)
	told    bool
	last    [sha256.Size]byte // reported
	read    [sha256.Size]byte // from the previous reading
}

// look reads the directory and calls fn if its content, or the reason why it
// cannot be read, differs from the last report. After the first report two
// equal readings are needed; false: another reading is needed.
func (v *view) look() (settled bool) {
	files, err := ReadDir(v.library.Dir)
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%s %d\n", f.Name, len(f.Data))
		h.Write(f.Data)
	}
	if err != nil {
		fmt.Fprintf(h, "error %s", err)
	}
	sum := [sha256.Size]byte(h.Sum(nil))
	again := sum == v.read
	v.read = sum
	switch {
	case v.told && sum == v.last:
		return true
	case v.told && !again:
		return false
	}
	v.told, v.last = true, sum
	if err != nil {
		v.fn(nil, err)
		return true
	}
	v.fn(v.library.load(files, v.kinds))
	return true
}
