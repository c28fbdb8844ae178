package inbound

import (
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
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

// arrive is a connection that is accepted.
func (r *rig) arrive(ip string) *conn {
	a := &net.TCPAddr{IP: net.ParseIP(ip), Port: 1}
	c := &conn{Conn: &from{address: a}, listener: r.Listener, address: addressOf(a)}
	r.Listener.arrive(c)
	return c
}

// connect is one that is admitted at once.
func (r *rig) connect(t *testing.T, ip string) *conn {
	t.Helper()
	c := r.arrive(ip)
	if got, err := r.next(); got != c || err != nil {
		t.Errorf("a connection of %s is not admitted: %v, %v", ip, got, err)
	}
	time.Sleep(time.Second)
	return c
}

func cut(c *conn) bool { return c.Conn.(*from).closed }

// Who makes room: the oldest that has not authenticated, of the address with most of
// them; else the one that is idle longest.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Limits{All: 4, Address: 4, Patience: time.Hour})
		busy, honest := r.connect(t, "192.0.2.1"), r.connect(t, "192.0.2.2")
		busy.trust()
		old, young := r.connect(t, "203.0.113.9"), r.connect(t, "203.0.113.9")
		if r.connect(t, "192.0.2.3"); !cut(old) || cut(young) || cut(honest) || cut(busy) {
			t.Error("the flooding address' oldest connection does not make room at once")
		}
		if err := old.Close(); err != nil || r.open != 4 {
			t.Errorf("%v, %d open after a cut connection was closed", err, r.open)
		}
		r = newRig(Limits{All: 2, Address: 2, Patience: time.Hour})
		first, second := r.connect(t, "192.0.2.1"), r.connect(t, "192.0.2.1")
		first.trust()
		second.trust()
		second.set(http.StateIdle)
		time.Sleep(time.Second)
		first.set(http.StateIdle)
		if r.connect(t, "192.0.2.2"); !cut(second) || cut(first) || r.cut != 1 {
			t.Error("the connection that is idle longest does not make room at once")
		}
	})
}

// A request under way is not cut while any address has a connection without one, neither
// before it authenticated nor after.
func TestRequestsAreNotCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Limits{All: 4, Address: 4, Patience: time.Hour})
		var begun []*conn
		for range 3 {
			c := r.connect(t, "203.0.113.9")
			c.set(http.StateActive)
			begun = append(begun, c)
		}
		idle := r.connect(t, "192.0.2.1")
		idle.trust()
		idle.set(http.StateIdle)
		fresh := r.connect(t, "192.0.2.2")
		if !cut(idle) || r.cut != 1 {
			t.Fatalf("a request is cut although a connection is idle (%d cut)", r.cut)
		}
		r.connect(t, "192.0.2.3").set(http.StateActive)
		if cut(fresh) || !cut(begun[0]) || cut(begun[1]) {
			t.Error("one that came just now makes room for another, or not the oldest request of the address with most")
		}
		time.Sleep(time.Hour)
		if r.connect(t, "192.0.2.4"); !cut(fresh) || cut(begun[1]) || r.cut != 3 {
			t.Errorf("a request is cut although a connection began none in its time (%d cut)", r.cut)
		}
	})
}

// Whoever has many addresses, each with as much as anybody, keeps no newcomer out: when too
// many wait, the newcomer takes the place of the oldest connection without a request, and
// where all are at work, of the one that waits longest.
func TestManyAddresses(t *testing.T) {
	ip := func(i int) string { return net.IPv4(203, 0, 113, byte(i)).String() }
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Limits{All: 4, Waiting: 4, Address: 4, Patience: time.Hour})
		var flood []*conn
		for i := range 8 {
			flood = append(flood, r.arrive(ip(i)))
			time.Sleep(time.Second)
		}
		honest := r.arrive("192.0.2.1")
		if !honest.open || cut(honest) || !cut(flood[0]) || r.cut != 1 {
			t.Errorf("a newcomer is admitted: %t, closed: %t, %d cut", honest.open, cut(honest), r.cut)
		}
		r = newRig(Limits{All: 4, Waiting: 4, Address: 4, Patience: time.Hour})
		flood = nil
		for i := range 8 {
			c := r.arrive(ip(i))
			c.trust()
			flood = append(flood, c)
			time.Sleep(time.Second)
		}
		honest = r.arrive("192.0.2.1")
		if cut(honest) || !cut(flood[4]) || r.cut != 1 || r.waiting != 4 {
			t.Errorf("where all are at work a newcomer is closed: %t, the first that waits: %t, %d wait", cut(honest), cut(flood[4]), r.waiting)
		}
	})
}

// Of addresses that have as many connections none makes room for another one before its
// time.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Limits{All: 2, Address: 2, Patience: time.Minute})
		first, second := r.connect(t, "192.0.2.1"), r.connect(t, "192.0.2.2")
		next := r.arrive("192.0.2.3")
		if next.open || cut(first) || cut(second) {
			t.Error("a connection made room before its time")
		}
		was := time.Now()
		got, err := r.next()
		if waited := time.Since(was); got != next || err != nil || waited != 58*time.Second || !cut(first) || cut(second) {
			t.Error("the oldest connection did not make room when it had its time")
		}
	})
}

// One address that authenticates does not hold all connections, however slow its
// requests are.
func TestTrustedPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Limits{All: 8, Address: 4, Trusted: 6})
		honest := r.connect(t, "192.0.2.1")
		honest.trust()
		var slow []*conn
		for range 7 {
			c := r.connect(t, "203.0.113.9")
			c.trust()
			slow = append(slow, c)
		}
		next := r.connect(t, "192.0.2.2")
		if next.trust(); !cut(slow[0]) || cut(slow[1]) || cut(honest) {
			t.Error("the oldest connection of the address with too many does not make room")
		}
		last := r.arrive("192.0.2.3")
		if last.open {
			t.Error("an address within its part made room")
		}
		if _ = honest.Close(); !last.open {
			t.Error("who waited is not admitted")
		}
		for _, a := range r.by {
			for _, all := range []map[*conn]struct{}{a.fresh, a.busy} {
				for c := range all {
					_ = c.Close()
				}
			}
		}
		if len(r.by) != 0 || r.open != 0 {
			t.Errorf("%v stay counted", r.by)
		}
	})
}

// When all connections are at work, the next one waits for one of them.
func TestWaits(t *testing.T) {
	for name, end := range map[string]func(r *rig, c *conn){
		"closes":             func(_ *rig, c *conn) { _ = c.Close() },
		"is idle":            func(_ *rig, c *conn) { c.set(http.StateIdle) },
		"listener is closed": func(r *rig, _ *conn) { _ = r.Close() },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(Limits{All: 1, Address: 1})
			c := r.connect(t, "192.0.2.1")
			c.trust()
			next := r.arrive("192.0.2.2")
			if next.open || cut(c) {
				t.Fatal("the only connection, which is at work, made room")
			}
			end(r, c)
			if closed := name == "listener is closed"; next.open == closed || cut(next) != closed {
				t.Errorf("%s: admitted: %t", name, next.open)
			}
		})
	}
}

// Whoever waits behind many connections of its own address keeps no other one waiting,
// and no more wait than may be open.
func TestOthersDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Limits{All: 8, Address: 2, Patience: time.Hour})
		var flood []*conn
		for range 20 {
			flood = append(flood, r.arrive("203.0.113.9"))
		}
		honest := r.arrive("192.0.2.1")
		if !honest.open || r.waiting != 8 || !flood[1].open || flood[2].open {
			t.Errorf("%d wait, an honest one is admitted: %t", r.waiting, honest.open)
		}
		for i, c := range flood {
			if cut(c) != (i >= 10) {
				t.Errorf("connection %d is closed: %t", i, cut(c))
			}
		}
	})
}

// Those at work of several addresses can hold all connections: none makes room before it
// ends.
func TestBusyOfSeveralAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Limits{All: 8, Address: 4, Trusted: 6, Patience: time.Second})
		var busy []*conn
		for i := range 8 {
			c := r.connect(t, []string{"203.0.113.8", "203.0.113.9"}[i%2])
			c.trust()
			busy = append(busy, c)
		}
		next := r.arrive("192.0.2.1")
		time.Sleep(time.Hour)
		if next.open {
			t.Error("a connection at work made room")
		}
		if _ = busy[0].Close(); !next.open {
			t.Error("who waited is not admitted")
		}
	})
}

// Whoever shares the address of a flood waits behind it, until the oldest of the flood has
// had its time.
func TestSharedAddressWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Limits{All: 8, Address: 2, Patience: 5 * time.Second})
		r.arrive("203.0.113.9")
		r.arrive("203.0.113.9")
		honest := r.arrive("203.0.113.9")
		was := time.Now()
		for {
			c, err := r.next()
			if err != nil {
				t.Fatal(err)
			}
			if c == honest {
				break
			}
		}
		if waited := time.Since(was); waited != 5*time.Second {
			t.Errorf("it waited %s", waited)
		}
	})
}

// A burst of connections is given a second to authenticate; those that do are not cut.
func TestBurstOfConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Limits{All: 20, Waiting: 100, Address: 20, Patience: time.Second})
		for range 120 {
			r.arrive("192.0.2.1")
		}
		var all sync.WaitGroup
		for range 120 {
			c, err := r.next()
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				time.Sleep(100 * time.Millisecond)
				c.(*conn).trust()
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
			v4 = append(v4, r.connect(t, "203.0.113.9"))
			v6 = append(v6, r.connect(t, []string{"2001:db8::1", "2001:db8::2"}[i%2]))
		}
		for i := range 10 {
			if want := i < 7; cut(v4[i]) != want || cut(v6[i]) != want {
				t.Errorf("%d: cut: %v and %v, want %v", i, cut(v4[i]), cut(v6[i]), want)
			}
		}
		for range 10 {
			r.connect(t, "192.0.2.1").trust()
		}
		if r.open != 16 || r.cut != 14 {
			t.Errorf("%d open, %d cut", r.open, r.cut)
		}
	})
}

// failing is a listener that has a connection, then no file for another one, and then
// fails.
type failing struct {
	queue
	answers chan func() (net.Conn, error)
}

func (f failing) Accept() (net.Conn, error) { return (<-f.answers)() }

// When the process has no file left, an unused connection makes room, and the listener
// goes on.
func TestNoFileLeft(t *testing.T) {
	f := failing{answers: make(chan func() (net.Conn, error), 4)}
	first, broken := &from{address: &net.TCPAddr{IP: net.ParseIP("192.0.2.1")}}, errors.New("broken")
	f.answers <- func() (net.Conn, error) { return first, nil }
	f.answers <- func() (net.Conn, error) {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	f.answers <- func() (net.Conn, error) { return nil, broken }
	cuts := 0
	l := Listen(f, Limits{All: 4, Address: 4, Cut: func() { cuts++ }})
	for {
		if _, err := l.Accept(); err != nil {
			if !errors.Is(err, broken) || !first.closed || cuts != 1 {
				t.Errorf("%v, %d cut", err, cuts)
			}
			return
		}
	}
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
