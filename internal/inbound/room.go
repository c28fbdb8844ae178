package inbound

import (
	"cmp"
	"net/netip"
	"time"
)

// address is one that has connections.
type address struct {
	prefix  netip.Prefix
	fresh   map[*conn]struct{}
	idle    map[*conn]struct{} // trusted
	busy    map[*conn]struct{} // trusted
	waiting []*conn            // accepted, and not admitted yet; oldest first
}

// open returns how many connections of an address are admitted.
func (a *address) open() int { return len(a.fresh) + len(a.idle) + len(a.busy) }

// of returns what is known of an address.
func (l *Listener) of(p netip.Prefix) *address {
	a := l.by[p]
	if a == nil {
		a = &address{prefix: p, fresh: map[*conn]struct{}{}, idle: map[*conn]struct{}{}, busy: map[*conn]struct{}{}}
		l.by[p] = a
	}
	return a
}

// arrive admits a connection, or has it wait. When too many wait, the newest of the
// address with most of them is closed.
func (l *Listener) arrive(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		_ = c.Conn.Close()
		return
	}
	a := l.of(c.address)
	a.waiting = append(a.waiting, c)
	l.waiting++
	if !l.admit(a) && l.waiting > l.limits.Waiting {
		most := a
		for _, o := range l.by {
			if len(o.waiting) > len(most.waiting) {
				most = o
			}
		}
		last := len(most.waiting) - 1
		l.cut(most.waiting[last])
		most.waiting, l.waiting = most.waiting[:last], l.waiting-1
		l.drop(most)
	}
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
	if len(a.fresh) < l.limits.Address {
		return false
	}
	return !l.due(oldest(a.fresh))
}

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
	if len(a.fresh) >= l.limits.Address {
		l.cut(oldest(a.fresh))
	}
	if l.open < l.limits.All {
		return true
	}
	unused := []*conn{l.most(isFresh), l.most(isIdle)}
	for _, c := range unused {
		if c != nil && l.by[c.address].open() > a.open()+1 {
			l.cut(c)
			return true
		}
	}
	if c := cmp.Or(unused...); c != nil {
		return l.expire(c)
	}
	c := l.most(isBusy)
	return c != nil && len(l.by[c.address].busy) > l.limits.Trusted && l.expire(c)
}

func isFresh(a *address) map[*conn]struct{} { return a.fresh }
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
	c := cmp.Or(l.most(isFresh), l.most(isIdle))
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
	delete(a.fresh, c)
	delete(a.idle, c)
	delete(a.busy, c)
	l.drop(a)
}

// drop forgets an address that has no connections.
func (l *Listener) drop(a *address) {
	if a.open() == 0 && len(a.waiting) == 0 {
		delete(l.by, a.prefix)
	}
}
