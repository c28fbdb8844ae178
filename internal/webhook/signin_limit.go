package webhook

import (
	"hash/maphash"
	"net"
	"net/netip"
	"sync"
	"time"
)

// failLimit is how many sign-ins may fail at once, and how fast one of them is forgotten.
type failLimit struct {
	most  int
	every time.Duration
}

// Limits of failed sign-ins. Failures with one name from one address are forgotten slowly,
// because whoever guesses causes them. All addresses together may fail much more often with
// a name, so that strangers do not keep its person out.
var (
	limitOfPair    = failLimit{10, 15 * time.Second} // a name from one address, or a known browser
	limitOfName    = failLimit{300, 5 * time.Second}
	limitOfAddress = failLimit{30, 2 * time.Second}
)

// bucket counts failures, which are forgotten one after another.
type bucket struct {
	failed float64
	at     time.Time
}

// wait returns how long it takes until one more may fail; 0: now.
func (b *bucket) wait(l failLimit, now time.Time) time.Duration {
	if passed := now.Sub(b.at); passed > 0 {
		b.failed, b.at = max(0, b.failed-passed.Seconds()/l.every.Seconds()), now
	}
	over := b.failed + 1 - float64(l.most)
	return max(0, time.Duration(over*float64(l.every)))
}

// failures bounds how often passwords may be wrong. Memory is constant: names share
// buckets by a hash that nobody outside can compute. A name that does not exist is counted
// like one that does.
type failures struct {
	seed maphash.Seed

	mu        sync.Mutex // guards everything below
	pairs     [8192]bucket
	names     [4096]bucket
	addresses [4096]bucket
	basics    [4096]bucket // of wrong passwords by Authorization: Basic, by address
}

func newFailures() *failures { return &failures{seed: maphash.MakeSeed()} }

// limited is one bucket and its limit.
type limited struct {
	*bucket
	failLimit
}

// check calls proven, and counts its failure. After too many failures it does not call
// it, and returns how long to wait. It calls one at a time, so that many attempts at once
// do not exceed the limits. A device is a browser that signed in with the name before, whose
// failures are counted apart; empty: the browser is not known.
func (f *failures) check(name, remote, device string, now time.Time, proven func() error) (wait time.Duration, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name = fold(name)
	limits := []limited{
		f.of(f.pairs[:], limitOfPair, network(remote)+" "+name), f.of(f.names[:], limitOfName, name), f.of(f.addresses[:], limitOfAddress, network(remote)),
	}
	if device != "" {
		if own := f.of(f.pairs[:], limitOfPair, "device "+device); own.wait(own.failLimit, now) == 0 {
			limits = []limited{own}
		}
	}
	for _, l := range limits {
		wait = max(wait, l.wait(l.failLimit, now))
	}
	if wait > 0 {
		return wait, nil
	}
	if err := proven(); err != nil {
		for _, l := range limits {
			l.failed++
		}
		return 0, err
	}
	return 0, nil
}

// begin reports whether an answer of the issuer may be looked at. Looking takes a while, so
// the answer counts as failed from the beginning; good takes that back.
func (f *failures) begin(remote, device string, now time.Time) (good func(), ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.of(f.addresses[:], limitOfAddress, "issuer "+network(remote))
	if device != "" {
		if own := f.of(f.pairs[:], limitOfPair, "device "+device); own.wait(own.failLimit, now) == 0 {
			l = own
		}
	}
	if l.wait(l.failLimit, now) > 0 {
		return nil, false
	}
	l.failed++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		l.failed = max(0, l.failed-1)
	}, true
}

// basic counts a password by Authorization: Basic if it is wrong, and returns how long to
// wait; 0: what it proved may be told. It is asked after the password was compared, whether
// it is right or wrong: that takes the same time, and however many come at once, no more
// than the limit are told to be right or wrong.
func (f *failures) basic(remote string, wrong bool, now time.Time) (wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.of(f.basics[:], limitOfAddress, network(remote))
	if wait = l.wait(l.failLimit, now); wait == 0 && wrong {
		l.failed++
	}
	return wait
}

func (f *failures) of(buckets []bucket, l failLimit, key string) limited {
	return limited{&buckets[maphash.String(f.seed, key)%uint64(len(buckets))], l}
}

// network is the address that a connection comes from. For IPv6 it is the /64, because one
// customer has at least that many addresses.
func network(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap(); ip.Is6() {
		if p, err := ip.Prefix(64); err == nil {
			return p.Masked().String()
		}
	}
	return ip.String()
}
