package inbound

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// address is one that has connections.
type address struct {
	prefix  netip.Prefix
	fresh   map[*conn]struct{} // not trusted, and no request has begun
	begun   map[*conn]struct{} // not trusted, and in the middle of a request
	idle    map[*conn]struct{} // trusted
	busy    map[*conn]struct{} // trusted
	waiting []*conn            // accepted, and not admitted yet; oldest first
}

// open returns how many connections of an address are admitted.
func (a *address) open() int { return a.untrusted() + len(a.idle) + len(a.busy) }

// untrusted returns how many of them have not authenticated.
func (a *address) untrusted() int { return len(a.fresh) + len(a.begun) }

// of returns what is known of an address.
func (l *Listener) of(p netip.Prefix) *address {
	a := l.by[p]
	if a == nil {
		a = &address{prefix: p, fresh: map[*conn]struct{}{}, begun: map[*conn]struct{}{}, idle: map[*conn]struct{}{}, busy: map[*conn]struct{}{}}
		l.by[p] = a
	}
	return a
}

// arrive admits a connection, or has it wait.
func (l *Listener) arrive(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		_ = c.Conn.Close()
		return
	}
	a := l.of(c.address)
	c.since = time.Now()
	a.waiting = append(a.waiting, c)
	l.waiting++
	if !l.admit(a) && l.waiting > l.limits.Waiting {
		l.overflow(a)
	}
}

// overflow has one less wait when too many do, because one of an address came. The newest
// of the address with most of them is closed. Where several have as many, the newcomer is
// not the one: else whoever has many addresses keeps all others out. An address that has no
// connection takes the place of an unused one, else the one that waits longest is closed.
func (l *Listener) overflow(a *address) {
	most, first, tied := a, a, 0
	for _, o := range l.by {
		switch {
		case len(o.waiting) > len(most.waiting):
			most, first, tied = o, o, 1
		case len(o.waiting) == len(most.waiting):
			tied++
			if o.waiting[0].since.Before(first.waiting[0].since) {
				first = o
			}
		}
	}
	at := len(most.waiting) - 1
	if most == a && tied > 1 {
		if c := cmp.Or(l.most(isFresh), l.most(isIdle)); c != nil && a.open() == 0 {
			l.cut(c)
			l.admit(a)
			return
		}
		most, at = first, 0
	}
	l.cut(most.waiting[at])
	most.waiting, l.waiting = slices.Delete(most.waiting, at, at+1), l.waiting-1
	l.drop(most)
}

// admitAll admits those who wait, the address with the fewest connections first. If there
// is no room for that one, there is none for an address with more.
func (l *Listener) admitAll() {
	for l.waiting > 0 && l.err == nil {
		var next *address
		for _, a := range l.by {
			if len(a.waiting) > 0 && (next == nil || a.open() < next.open()) && !l.full(a) {
				next = a
			}
		}
		if next == nil || !l.admit(next) {
			return
		}
	}
}

// full reports whether an address has as many fresh connections as it may, and none that
// had its time. Then those who wait are looked at again in time.
func (l *Listener) full(a *address) bool {
	return a.untrusted() >= l.limits.Address && !l.due(a.first())
}

// first returns the connection of an address that makes room for another one that has not
// authenticated: the oldest without a request, else the oldest.
func (a *address) first() *conn { return cmp.Or(oldest(a.fresh), oldest(a.begun)) }

// admit admits the oldest connection of an address that waits, and reports whether there
// was room for it.
func (l *Listener) admit(a *address) bool {
	if !l.roomFor(a) {
		return false
	}
	c := a.waiting[0]
	a.waiting = a.waiting[1:]
	l.waiting--
	c.open, c.since = true, time.Now()
	a.fresh[c] = struct{}{}
	l.open++
	l.ready = append(l.ready, c)
	l.changed.Signal()
	return true
}

// roomFor reports whether another connection of an address may be open, and makes room
// for it if it has to. If it cannot, it has those who wait looked at again in time.
func (l *Listener) roomFor(a *address) bool {
	if l.full(a) {
		return false
	}
	if a.untrusted() >= l.limits.Address {
		l.cut(a.first())
	}
	if l.open < l.limits.All {
		return true
	}
	fresh, idle, begun := l.most(isFresh), l.most(isIdle), l.most(isBegun)
	for _, c := range []*conn{fresh, idle, begun} {
		if c != nil && l.by[c.address].open() > a.open()+1 {
			if c == begun { // no request is cut while there is a connection without one
				c = cmp.Or(idle, l.silent(), begun)
			}
			l.cut(c)
			return true
		}
	}
	if c := cmp.Or(fresh, idle, begun); c != nil {
		return l.expire(c)
	}
	c := l.most(isBusy)
	return c != nil && len(l.by[c.address].busy) > l.limits.Trusted && l.expire(c)
}

// silent returns the oldest connection that began no request in its time, nil if there is
// none. One that came just now is about to begin one.
func (l *Listener) silent() (found *conn) {
	for _, a := range l.by {
		if c := oldest(a.fresh); c != nil && (found == nil || c.since.Before(found.since)) {
			found = c
		}
	}
	if found == nil || time.Since(found.since) < l.limits.Patience {
		return nil
	}
	return found
}

func isFresh(a *address) map[*conn]struct{} { return a.fresh }
func isBegun(a *address) map[*conn]struct{} { return a.begun }
func isIdle(a *address) map[*conn]struct{}  { return a.idle }
func isBusy(a *address) map[*conn]struct{}  { return a.busy }

// expire closes a connection if it had its time.
func (l *Listener) expire(c *conn) bool {
	if !l.due(c) {
		return false
	}
	l.cut(c)
	return true
}

// due reports whether a connection had its time, and else has those who wait looked at
// again when it has.
func (l *Listener) due(c *conn) bool {
	at := c.since.Add(l.limits.Patience)
	left := time.Until(at)
	if left <= 0 {
		return true
	}
	if l.again.IsZero() || at.Before(l.again) {
		l.again = at
		time.AfterFunc(left, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.again.Equal(at) {
				l.again = time.Time{}
				l.admitAll()
			}
		})
	}
	return false
}

// shed closes an unused connection because the process has no file left for another one,
// and reports whether there was one.
func (l *Listener) shed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := cmp.Or(l.most(isFresh), l.most(isIdle), l.most(isBegun))
	if c != nil {
		l.cut(c)
	}
	return c != nil
}

// most returns the oldest connection of those that an address has most of, nil if there
// are none.
func (l *Listener) most(of func(*address) map[*conn]struct{}) (found *conn) {
	n := 0
	for _, a := range l.by {
		switch all := of(a); {
		case len(all) == 0 || len(all) < n:
		case len(all) > n:
			n, found = len(all), oldest(all)
		default:
			if c := oldest(all); c.since.Before(found.since) {
				found = c
			}
		}
	}
	return found
}

// oldest returns the oldest of those connections, nil if there is none.
func oldest(of map[*conn]struct{}) (found *conn) {
	for c := range of {
		if found == nil || c.since.Before(found.since) {
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
	if !c.open {
		return
	}
	c.open = false
	l.open--
	a := l.of(c.address)
	a.leave(c)
	l.drop(a)
}

// leave counts a connection as nothing.
func (a *address) leave(c *conn) {
	delete(a.fresh, c)
	delete(a.begun, c)
	delete(a.idle, c)
	delete(a.busy, c)
}

// drop forgets an address that has no connections.
func (l *Listener) drop(a *address) {
	if a.open() == 0 && len(a.waiting) == 0 {
		delete(l.by, a.prefix)
	}
}
