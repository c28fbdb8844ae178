// Package inbound bounds the connections of a listener, so that whoever has no
// credential cannot keep out those who have one.
//
// A connection is fresh until a request on it has authenticated ([Trust]). When there
// are too many connections, a fresh one makes room: the oldest of the address that has
// most of them. When none is fresh, the one that has been idle longest does. When all
// are at work, one address keeps no more than its part ([Limits.Trusted]): its oldest
// makes room. None does before its time ([Limits.Patience]): the new one waits.
package inbound

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Limits bound a listener.
type Limits struct {
	All     int // open connections
	Address int // fresh connections of one address; of IPv6, of one /64
	Trusted int // those of one address that are kept when all are at work; 0: All
	// Patience is how long a connection may be fresh, idle or at work before it makes room for
	// another. An honest sender opens many at once in a burst, and each is served in turn.
	Patience time.Duration
	Cut      func() // called for each connection that was closed to make room; may be nil
}

// Listener is a bounded listener. Its connections need [Listener.Bind] at their
// http.Server.
type Listener struct {
	net.Listener
	limits Limits

	mu     sync.Mutex // guards everything below, and the state of each connection
	freed  *sync.Cond // a connection closed or became idle, or the listener closed
	closed bool
	open   map[*conn]struct{}
	fresh  map[netip.Prefix]int
	known  map[netip.Prefix]int // trusted ones by address
}

// conn is one connection.
type conn struct {
	net.Conn
	listener *Listener
	address  netip.Prefix
	trusted  bool
	idle     bool
	since    time.Time // when it was accepted, or became idle
}

// Listen bounds ln.
func Listen(ln net.Listener, limits Limits) *Listener {
	if limits.Trusted == 0 {
		limits.Trusted = limits.All
	}
	l := &Listener{Listener: ln, limits: limits, open: map[*conn]struct{}{}, fresh: map[netip.Prefix]int{}, known: map[netip.Prefix]int{}}
	l.freed = sync.NewCond(&l.mu)
	return l
}

// Bind has the server tell which connections are idle, and which one a request came on.
func (l *Listener) Bind(s *http.Server) {
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if c := of(c); c != nil {
			c.set(state == http.StateIdle)
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
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, listener: l, address: addressOf(raw.RemoteAddr()), since: time.Now()}
	if !l.admit(c) {
		_ = raw.Close() // nobody has read from it
		return nil, net.ErrClosed
	}
	return c, nil
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.freed.Broadcast()
	l.mu.Unlock()
	return l.Listener.Close()
}

// admit counts a connection once there is room for it; false: the listener closed.
func (l *Listener) admit(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fresh[c.address] >= l.limits.Address {
		if o := l.oldest(func(o *conn) bool { return !o.trusted && o.address == c.address }); time.Since(o.since) >= l.limits.Patience {
			l.cut(o)
		}
	}
	for len(l.open) >= l.limits.All && !l.closed {
		if !l.makeRoom() {
			l.freed.Wait()
		}
	}
	if l.closed {
		return false
	}
	l.open[c] = struct{}{}
	l.fresh[c.address]++
	return true
}

// makeRoom closes the connection that is worth least, and reports whether there was one.
func (l *Listener) makeRoom() bool {
	most := largest(l.fresh)
	c := l.oldest(func(o *conn) bool { return !o.trusted && o.address == most })
	if c == nil { // whoever has just been answered may be about to ask again
		c = l.oldest(func(o *conn) bool { return o.idle })
	}
	if most = largest(l.known); c == nil && l.known[most] > l.limits.Trusted {
		c = l.oldest(func(o *conn) bool { return o.address == most })
	}
	if c == nil {
		return false
	}
	if left := l.limits.Patience - time.Since(c.since); left > 0 {
		time.AfterFunc(left, l.freed.Broadcast)
		return false
	}
	l.cut(c)
	return true
}

// largest returns the address with most connections.
func largest(by map[netip.Prefix]int) (most netip.Prefix) {
	for address, n := range by {
		if n > by[most] {
			most = address
		}
	}
	return most
}

// oldest returns the oldest connection of those, nil if there is none.
func (l *Listener) oldest(which func(*conn) bool) *conn {
	var found *conn
	for c := range l.open {
		if which(c) && (found == nil || c.since.Before(found.since)) {
			found = c
		}
	}
	return found
}

// cut closes a connection to make room. Its server finds out when it reads or writes.
func (l *Listener) cut(c *conn) {
	l.forget(c)
	_ = c.Conn.Close() // whoever sent nothing yet is told nothing
	if l.limits.Cut != nil {
		l.limits.Cut()
	}
}

// forget counts a connection no more.
func (l *Listener) forget(c *conn) {
	if _, ok := l.open[c]; !ok {
		return
	}
	delete(l.open, c)
	l.leave(c)
	l.freed.Signal()
}

// leave takes a connection out of its address' count.
func (l *Listener) leave(c *conn) {
	by := l.fresh
	if c.trusted {
		by = l.known
	}
	if by[c.address]--; by[c.address] == 0 {
		delete(by, c.address)
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	c.listener.forget(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

func (c *conn) trust() {
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.open[c]; ok && !c.trusted {
		l.leave(c)
		l.known[c.address]++
		l.freed.Signal() // it may be one too many of its address
	}
	c.trusted = true
}

func (c *conn) set(idle bool) {
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.idle = idle; idle {
		c.since = time.Now()
		l.freed.Signal()
	}
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
