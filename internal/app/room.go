package app

import (
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/goruntime"
	"github.com/inference-responder/responder/internal/webhook"
)

const (
	roomFor    = 100 * time.Millisecond // how long an answer about room holds
	lookAgain  = 2 * time.Second        // between collections of garbage when memory is short
	memoryPart = 60                     // per cent of the memory limit that may be in use
	volumePart = 8                      // an eighth of journal.min_free must be on the volume: for other files, and long records
)

// room reports whether notifications can be taken in. What is left of memory and of the
// journal's volume is for runs that are under way and for people's decisions.
type room struct {
	limit   uint64 // bytes of memory; 0: there is no limit
	lives   func() uint64
	collect func()
	minFree int64                 // bytes
	free    func() (int64, error) // bytes of the journal's volume
	inFile  func() int64          // bytes of the journal's file that it writes to again
	now     func() time.Time

	mu    sync.Mutex // guards everything below
	until time.Time
	last  error
	spare int64     // bytes that notifications may still take; negative: unknown
	swept time.Time // when garbage was collected last, to look again
}

// newRoom watches the process's memory, and the room in a journal's file and on its volume.
func newRoom(journal *audit.Journal, minFree int64) *room {
	dir := filepath.Dir(journal.Path())
	return &room{
		limit: goruntime.Limit(), lives: goruntime.Lives, collect: runtime.GC, minFree: minFree,
		free: func() (int64, error) { return freeOf(dir) }, inFile: journal.Reusable, now: time.Now,
	}
}

// check returns nil when there is room; else an error that wraps [webhook.ErrMemory] or
// [webhook.ErrDisk].
func (r *room) check() error {
	_, err := r.looked()
	return err
}

// left returns how many bytes notifications may still take of the journal's file and
// volume, and false if that cannot be told.
func (r *room) left() (bytes int64, known bool) {
	spare, _ := r.looked()
	return max(0, spare), spare >= 0
}

func (r *room) looked() (spare int64, short error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.now(); !now.Before(r.until) {
		r.last = r.look(now)
		r.until = now.Add(roomFor)
	}
	return r.spare, r.last
}

func (r *room) look(now time.Time) error {
	free, err := r.free()
	inFile := r.inFile()
	if r.spare = max(0, free+inFile-r.minFree); err != nil {
		r.spare = -1
	}
	most := r.limit / 100 * memoryPart
	lives := r.lives()
	if r.limit > 0 && lives > most && now.Sub(r.swept) >= lookAgain {
		// While everything is refused nothing is allocated, and the runtime would not
		// find out that memory is free again.
		r.swept = now
		r.collect()
		lives = r.lives()
	}
	if r.limit > 0 && lives > most {
		return fmt.Errorf("%w: %d MiB are in use, and the limit is %d MiB", webhook.ErrMemory, lives>>20, r.limit>>20)
	}
	if err != nil {
		return nil // what cannot be told refuses nothing: the journal says itself when it cannot write
	}
	if free+inFile < r.minFree || free < r.minFree/volumePart {
		return fmt.Errorf("%w: %d MiB are free and %d MiB within the journal's file, and journal.min_free is %d MiB, of which %d MiB must be on the volume",
			webhook.ErrDisk, free>>20, inFile>>20, r.minFree>>20, r.minFree/volumePart>>20)
	}
	return nil
}

// sizeOf returns the size of a directory's volume.
func sizeOf(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("size of the volume of %s: %w", dir, err)
	}
	return int64(s.Blocks) * s.Bsize, nil //nolint:gosec // a volume of 8 EiB is none
}

// freeOf returns how many bytes of a directory's volume this user may still write.
func freeOf(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(s.Bavail) * s.Bsize, nil
}
