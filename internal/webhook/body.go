package webhook

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

const (
	firstGrant = 64 << 10  // bytes a sender gets for announcing them; more only for sending them
	keepBuffer = 256 << 10 // larger buffers are not kept for reuse
)

var (
	errTooLarge = errors.New("body is larger than the limit")
	errShed     = errors.New("too many bytes in flight")
)

// budget bounds the bytes of bodies over all senders.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take takes n bytes, or nothing and false.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

// newBudget is a budget of n bytes. One more goes: it is what a body that is as
// large as can be, or larger, is asked for to see that it has ended.
func newBudget(n int64) budget { return budget{limit: n + 1} }

// bodies reads request bodies into buffers it uses again.
type bodies struct {
	max    int64
	flying budget
	pool   sync.Pool // of *body
}

// body is one body in memory. It counts against the budget until it is
// released, its buffer can go earlier.
type body struct {
	owner *bodies
	buf   []byte
	taken int64
}

// read reads the whole body of r. The caller releases what it gets, also
// beside an error.
func (o *bodies) read(r *http.Request) (*body, error) {
	b, _ := o.pool.Get().(*body)
	if b == nil {
		b = &body{owner: o}
	}
	if r.ContentLength > o.max {
		return b, errTooLarge
	}
	// A kept buffer that is large enough costs the budget what it can hold,
	// but no more than the sender could fill.
	want := min(4<<10, o.max+1)
	if r.ContentLength >= 0 {
		want = min(r.ContentLength+1, firstGrant)
	}
	if err := b.grow(want); err != nil {
		return b, err
	}
	for {
		if int64(len(b.buf)) >= b.taken {
			next := min(4*b.taken, o.max+1)
			if r.ContentLength >= 0 {
				next = min(next, r.ContentLength+1)
			}
			if err := b.grow(next); err != nil {
				return b, err
			}
		}
		n, err := r.Body.Read(b.buf[len(b.buf):b.taken])
		b.buf = b.buf[:len(b.buf)+n]
		switch {
		case int64(len(b.buf)) > o.max:
			return b, errTooLarge
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return b, err
		}
	}
}

// grow raises what is taken, and the buffer, to size bytes.
func (b *body) grow(size int64) error {
	if size > b.taken {
		if !b.owner.flying.take(size - b.taken) {
			return errShed
		}
		b.taken = size
	}
	if int64(cap(b.buf)) < size {
		larger := make([]byte, len(b.buf), size)
		copy(larger, b.buf)
		b.buf = larger
	}
	return nil
}

// drop lets go of the bytes, not of their share of the budget: what was
// decoded from them lives on until the notification is admitted.
func (b *body) drop() {
	if cap(b.buf) > keepBuffer {
		b.buf = nil
	}
	b.buf = b.buf[:0]
}

// release returns the body's share of the budget.
func (b *body) release() {
	b.owner.flying.used.Add(-b.taken)
	b.taken = 0
	b.drop()
	b.owner.pool.Put(b)
}
