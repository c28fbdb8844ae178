package webhook

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

const (
	firstGrant = 64 << 10  // bytes a sender gets for announcing them; more only for sending them
	keepBuffer = 256 << 10 // larger buffers are not kept for reuse
)

var (
	errTooLarge = errors.New("body is larger than the limit")
	errShed     = errors.New("too many bytes in flight")
)

// budget bounds the bytes of bodies, and how many are being read: over all senders, and
// of one sender to half of that.
type budget struct {
	limit   int64 // bytes over all senders
	each    int64 // bytes of one sender
	reading int   // bodies of one sender that are being read

	mu      sync.Mutex // guards used and senders
	used    int64
	senders map[string]*holding // those that hold something
}

// holding is what the bodies of one sender hold.
type holding struct {
	bytes   int64
	bodies  int // not released
	reading int // not read whole
}

// newBudget is a budget of n bytes, and of so many connections. Of each half one byte more
// goes: it is what a body that is as large as can be, or larger, is asked for to see that it
// has ended.
func newBudget(n int64, connections int) *budget {
	return &budget{limit: n + 2, each: n/2 + 1, reading: max(1, connections/2), senders: map[string]*holding{}}
}

// begin counts one more body of a sender, or returns false: it has half of them already.
func (b *budget) begin(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.senders[name]
	if h == nil {
		h = &holding{}
		b.senders[name] = h
	}
	if h.reading >= b.reading {
		return false
	}
	h.bodies++
	h.reading++
	return true
}

// ended records that a body of a sender is not read any more.
func (b *budget) ended(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.senders[name].reading--
}

// take takes n bytes for a sender, or nothing and false.
func (b *budget) take(name string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.senders[name]
	if b.used+n > b.limit || h.bytes+n > b.each {
		return false
	}
	b.used += n
	h.bytes += n
	return true
}

// release returns what a body of a sender held.
func (b *budget) release(name string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.senders[name]
	b.used -= n
	h.bytes -= n
	if h.bodies--; h.bodies == 0 {
		delete(b.senders, name)
	}
}

// held returns the bytes that are taken.
func (b *budget) held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// largest returns the sender that holds most, its bytes, and how many of its bodies are
// being read; an empty name: none holds anything.
func (b *budget) largest() (name string, bytes int64, reading int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for n, h := range b.senders {
		if name == "" || h.bytes > bytes {
			name, bytes, reading = n, h.bytes, h.reading
		}
	}
	return name, bytes, reading
}

// bodies reads request bodies into buffers it uses again.
type bodies struct {
	max    int64
	flying *budget
	pool   sync.Pool // of *body
}

// body is one body in memory. It counts against the budget until it is
// released, its buffer can go earlier.
type body struct {
	owner  *bodies
	sender string
	begun  bool // counts as one of its sender's
	buf    []byte
	taken  int64
}

// read reads the whole body of a sender's r. The caller releases what it gets, also
// beside an error.
func (o *bodies) read(r *http.Request, sender string) (*body, error) {
	b, _ := o.pool.Get().(*body)
	if b == nil {
		b = &body{owner: o}
	}
	if r.ContentLength > o.max {
		return b, errTooLarge
	}
	if b.sender, b.begun = sender, o.flying.begin(sender); !b.begun {
		return b, errShed
	}
	defer o.flying.ended(sender)
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
		if !b.owner.flying.take(b.sender, size-b.taken) {
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
	if b.begun {
		b.owner.flying.release(b.sender, b.taken)
	}
	b.sender, b.begun, b.taken = "", false, 0
	b.drop()
	b.owner.pool.Put(b)
}
