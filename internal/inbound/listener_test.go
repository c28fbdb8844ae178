package inbound

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// queue is a listener whose connections the test makes.
type queue struct{ net.Listener }

func (queue) Close() error { return nil }

// from is a connection from an address.
type from struct {
	net.Conn
	address net.Addr
	closed  bool
}

func (f *from) RemoteAddr() net.Addr { return f.address }
func (f *from) Close() error         { f.closed = true; return nil }

// rig admits connections at once, each a second after the one before.
type rig struct {
	*Listener
	cut int
}

func newRig(limits Limits) *rig {
	r := &rig{}
	limits.Cut = func() { r.cut++ }
	r.Listener = Listen(queue{}, limits)
	return r
}

func (r *rig) connect(ip string) *conn {
	a := &net.TCPAddr{IP: net.ParseIP(ip), Port: 1}
	c := &conn{Conn: &from{address: a}, listener: r.Listener, address: addressOf(a), since: time.Now()}
	if !r.admit(c) {
		return nil
	}
	time.Sleep(time.Second)
	return c
}

func cut(c *conn) bool { return c.Conn.(*from).closed }

// Who makes room: the oldest that has not authenticated, of the address with most of
// them; else the one that is idle longest.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Limits{All: 4, Address: 4})
		busy, honest := r.connect("192.0.2.1"), r.connect("192.0.2.2")
		busy.trust()
		old, young := r.connect("203.0.113.9"), r.connect("203.0.113.9")
		if r.connect("192.0.2.3"); !cut(old) || cut(young) || cut(honest) || cut(busy) {
			t.Error("the flooding address' oldest connection does not make room")
		}
		if err := old.Close(); err != nil || len(r.open) != 4 {
			t.Errorf("%v, %d open after a cut connection was closed", err, len(r.open))
		}
		r = newRig(Limits{All: 2, Address: 2})
		first, second := r.connect("192.0.2.1"), r.connect("192.0.2.1")
		first.trust()
		second.trust()
		second.set(true)
		time.Sleep(time.Second)
		first.set(true)
		if r.connect("192.0.2.2"); !cut(second) || cut(first) || r.cut != 1 {
			t.Error("the connection that is idle longest does not make room")
		}
	})
}

// One address that authenticates does not hold all connections, however slow its
// requests are.
func TestTrustedPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Limits{All: 8, Address: 4, Trusted: 6})
		honest := r.connect("192.0.2.1")
		honest.trust()
		var slow []*conn
		for range 7 {
			c := r.connect("203.0.113.9")
			c.trust()
			slow = append(slow, c)
		}
		next := r.connect("192.0.2.2")
		if next.trust(); !cut(slow[0]) || cut(slow[1]) || cut(honest) {
			t.Error("the oldest connection of the address with too many does not make room")
		}
		waits := make(chan *conn, 1)
		go func() { waits <- r.connect("192.0.2.3") }()
		synctest.Wait()
		if len(waits) != 0 {
			t.Error("an address within its part made room")
		}
		_ = honest.Close()
		(<-waits).trust()
		for c := range r.open {
			_ = c.Close()
		}
		if len(r.known) != 0 || len(r.fresh) != 0 {
			t.Errorf("%v and %v stay counted", r.known, r.fresh)
		}
	})
}

// When all connections are at work, the next one waits for one of them.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, end := range map[string]func(r *rig, c *conn){
			"closes":             func(_ *rig, c *conn) { _ = c.Close() },
			"is idle":            func(_ *rig, c *conn) { c.set(true) },
			"listener is closed": func(r *rig, _ *conn) { _ = r.Close() },
		} {
			r := newRig(Limits{All: 1, Address: 1})
			c := r.connect("192.0.2.1")
			c.trust()
			next := make(chan *conn, 1)
			go func() { next <- r.connect("192.0.2.2") }()
			synctest.Wait()
			if len(next) != 0 || cut(c) {
				t.Fatal("the only connection, which is at work, made room")
			}
			end(r, c)
			if got := <-next; (got == nil) != (name == "listener is closed") {
				t.Errorf("%s: %v", name, got)
			}
		}
	})
}

// A burst of connections is given a second to authenticate; those that do are not cut.
func TestBurstOfConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Limits{All: 8, Address: 4, Patience: time.Second})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				a := &net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 1}
				c := &conn{Conn: &from{address: a}, listener: r.Listener, address: addressOf(a), since: time.Now()}
				r.admit(c)
				time.Sleep(100 * time.Millisecond)
				c.trust()
				_ = c.Close()
			})
		}
		all.Wait()
		if r.cut != 0 {
			t.Errorf("%d connections of a burst were cut", r.cut)
		}
		time.Sleep(time.Second) // what is left to wake up
	})
}

// One address, or one IPv6 network, holds a part of the connections at most until it
// authenticates.
func TestAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Limits{All: 100, Address: 3})
		v4, v6 := []*conn{}, []*conn{}
		for i := range 10 {
			v4 = append(v4, r.connect("203.0.113.9"))
			v6 = append(v6, r.connect([]string{"2001:db8::1", "2001:db8::2"}[i%2]))
		}
		for i := range 10 {
			if want := i < 7; cut(v4[i]) != want || cut(v6[i]) != want {
				t.Errorf("%d: cut: %v and %v, want %v", i, cut(v4[i]), cut(v6[i]), want)
			}
		}
		for range 10 {
			r.connect("192.0.2.1").trust()
		}
		if len(r.open) != 16 || r.cut != 14 {
			t.Errorf("%d open, %d cut", len(r.open), r.cut)
		}
		for c := range r.open {
			_ = c.Close()
		}
		if len(r.fresh) != 0 {
			t.Errorf("%v stay counted", r.fresh)
		}
	})
}

// A connection of another listener is left alone.
func TestOthers(t *testing.T) {
	server := &http.Server{}
	l := Listen(queue{}, Limits{All: 1, Address: 1})
	l.Bind(server)
	server.ConnState(&net.TCPConn{}, http.StateIdle)
	Trust(server.ConnContext(t.Context(), &net.TCPConn{}))
	if err := errors.Join(l.Close()); err != nil {
		t.Error(err)
	}
}
