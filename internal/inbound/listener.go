// Package inbound bounds the connections of a listener, so that whoever has no
// credential cannot keep out those who have one.
//
// A connection is fresh until a request on it has authenticated ([Trust]); it is unused
// while it is fresh or idle. When there are too many, the next one takes the place of an
// unused one, of the address that has most of them: the oldest fresh one, else the one
// that is idle longest, else a fresh one in the middle of a request. It does so at once if
// that address has more connections than its own, and else when that one had its time ([Limits.Patience]). When all are at work, one
// address keeps no more than its part ([Limits.Trusted]). Whoever has to wait keeps no
// other address waiting.
package inbound

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// Limits bound a listener.
type Limits struct {
	All     int // open connections
	Waiting int // connections that wait for one of them to close; 0: All
	Address int // fresh connections of one address; of IPv6, of one /64
	Trusted int // those of one address that are kept when all are at work; 0: All
	// Patience is how long a connection may be fresh, idle or at work before it makes room for
	// another one of its own address, or of one that has as many. An honest sender opens
	// many at once in a burst, and each is served in turn.
	Patience time.Duration
	Cut      func() // called for each connection that was closed to make room; may be nil
}

// Listener is a bounded listener. Its connections need [Listener.Bind] at their
// http.Server.
type Listener struct {
	net.Listener
	limits Limits
	start  sync.Once // of what accepts

	mu      sync.Mutex // guards everything below, and the state of each connection
	changed *sync.Cond // something is ready, or err is set
	ready   []*conn    // admitted, and not yet returned by Accept
	err     error      // nothing more is accepted
	open    int
	waiting int
	by      map[netip.Prefix]*address
	again   time.Time // when those who wait are looked at again; zero: when something changes
}

// conn is one connection.
type conn struct {
	net.Conn
	listener *Listener
	address  netip.Prefix
	open     bool // admitted, and not closed
	trusted  bool
	idle     bool
	active   bool      // in the middle of a request
	since    time.Time // when it came, was admitted, or became idle
}

// Listen bounds ln.
func Listen(ln net.Listener, limits Limits) *Listener {
	if limits.Trusted == 0 {
		limits.Trusted = limits.All
	}
	if limits.Waiting == 0 {
		limits.Waiting = limits.All
	}
	l := &Listener{Listener: ln, limits: limits, by: map[netip.Prefix]*address{}}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// Bind has the server tell which connections are idle, and which one a request came on.
func (l *Listener) Bind(s *http.Server) {
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if c := of(c); c != nil {
			c.set(state)
		}
	}
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, of(c))
	}
}

type connKey struct{}

// Trust records that a request with that context has authenticated.
func Trust(ctx context.Context) {
	if c, _ := ctx.Value(connKey{}).(*conn); c != nil {
		c.trust()
	}
}

// of returns the connection below a server's, nil if it is not of a Listener.
func of(c net.Conn) *conn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	own, _ := c.(*conn)
	return own
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	l.start.Do(func() { go l.accept() })
	return l.next()
}

// accept accepts connections until the listener fails or is closed.
func (l *Listener) accept() {
	for {
		raw, err := l.Listener.Accept()
		switch {
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
			if !l.shed() {
				time.Sleep(5 * time.Millisecond) // as net/http does: another part of the process has the files
			}
		case errors.Is(err, syscall.ECONNABORTED):
		case err != nil:
			l.fail(err)
			return
		default:
			l.arrive(&conn{Conn: raw, listener: l, address: addressOf(raw.RemoteAddr())})
		}
	}
}

// next returns the next connection that was admitted.
func (l *Listener) next() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.ready) == 0 && l.err == nil {
		l.changed.Wait()
	}
	if l.err != nil {
		return nil, l.err
	}
	c := l.ready[0]
	l.ready = l.ready[1:]
	return c, nil
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.fail(net.ErrClosed)
	return l.Listener.Close()
}

// fail admits nothing more, and closes what no server has seen.
func (l *Listener) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = err
	for _, c := range l.ready {
		l.forget(c)
		_ = c.Conn.Close() // nobody has read from it
	}
	for _, a := range l.by {
		for _, c := range a.waiting {
			_ = c.Conn.Close()
		}
		a.waiting = nil
	}
	l.ready, l.waiting = nil, 0
	l.changed.Broadcast()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	c.listener.forget(c)
	c.listener.admitAll()
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

func (c *conn) trust() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.trusted = true
	c.place()
}

func (c *conn) set(state http.ConnState) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.active = state == http.StateActive
	if c.idle = state == http.StateIdle; c.idle {
		c.since = time.Now()
	}
	c.place()
}

// place counts a connection as what it is now, which may make room.
func (c *conn) place() {
	if !c.open {
		return
	}
	a := c.listener.of(c.address)
	a.leave(c)
	switch {
	case !c.trusted && c.active:
		a.begun[c] = struct{}{}
	case !c.trusted:
		a.fresh[c] = struct{}{}
	case c.idle:
		a.idle[c] = struct{}{}
	default:
		a.busy[c] = struct{}{}
	}
	c.listener.admitAll()
}

// addressOf returns what a connection counts for: its IPv4 address, or its IPv6 network.
func addressOf(a net.Addr) netip.Prefix {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip, bits := t.AddrPort().Addr().Unmap(), 64
	if ip.Is4() {
		bits = 32
	}
	p, err := ip.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{} // unreachable: an address has that many bits
	}
	return p
}
