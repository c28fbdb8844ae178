package app

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/webhook"
)

func TestRoom(t *testing.T) {
	now, collected := time.Now(), 0
	lives, free, inFile, broken := uint64(100<<20), int64(1<<30), int64(0), error(nil)
	r := &room{
		limit: 512 << 20, lives: func() uint64 { return lives }, collect: func() { collected++ }, minFree: 256 << 20,
		free: func() (int64, error) { return free, broken }, inFile: func() int64 { return inFile }, now: func() time.Time { return now },
	}
	check := func(when string, want error, text string) {
		t.Helper()
		now = now.Add(roomFor)
		if err := r.check(); !errors.Is(err, want) || err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %v with %q", when, err, want, text)
		}
	}
	check("at first", nil, "")
	if left, known := r.left(); left != 768<<20 || !known {
		t.Errorf("%d bytes are left, known: %t", left, known)
	}
	lives = 308 << 20
	check("with much memory in use", webhook.ErrMemory, "308 MiB are in use, and the limit is 512 MiB")
	check("a little later", webhook.ErrMemory, "308 MiB")
	now = now.Add(lookAgain)
	check("much later", webhook.ErrMemory, "308 MiB")
	if collected != 2 {
		t.Errorf("garbage was collected %d times, want 2", collected)
	}
	lives, free = 300<<20, 255<<20
	if err := r.check(); !errors.Is(err, webhook.ErrMemory) {
		t.Errorf("the answer did not hold: %v", err)
	}
	check("with little space", webhook.ErrDisk, "255 MiB are free and 0 MiB within the journal's file, and journal.min_free is 256 MiB")
	free, inFile = 40<<20, 216<<20
	check("with space within the journal's file", nil, "")
	inFile--
	check("with little space on the volume and in the file", webhook.ErrDisk, "40 MiB are free and 215 MiB within")
	free, inFile = 31<<20, 1<<30
	check("with next to no space on the volume", webhook.ErrDisk, "of which 32 MiB must be on the volume")
	broken = errors.New("gone")
	check("with space that cannot be told", nil, "")
	if _, known := r.left(); known {
		t.Error("space that cannot be told is known")
	}
	r.limit, lives = 0, 1<<40
	check("without a limit", nil, "")
	if free, err := freeOf(t.TempDir()); err != nil || free <= 0 {
		t.Errorf("free: %d, %v", free, err)
	}
}
