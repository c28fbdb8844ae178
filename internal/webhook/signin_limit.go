package webhook

import (
	"hash/maphash"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits of failed sign-ins, of one name and from one address. A name recovers slowly:
// it is what a password is guessed for.
const (
	failuresOfName    = 10
	nameRecovers      = 15 * time.Second // by one
	failuresOfAddress = 30
	addressRecovers   = 2 * time.Second
)

// failures bounds how often a sign-in may fail. Memory is constant: names share
// buckets by a hash that nobody outside can compute, so no name, whether it exists or
// not, is told apart from another.
type failures struct {
	seed maphash.Seed

	mu        sync.Mutex // guards everything below
	names     [1024]*rate.Limiter
	addresses [1024]*rate.Limiter
}

func newFailures() *failures {
	f := &failures{seed: maphash.MakeSeed()}
	for i := range f.names {
		f.names[i] = rate.NewLimiter(rate.Every(nameRecovers), failuresOfName)
		f.addresses[i] = rate.NewLimiter(rate.Every(addressRecovers), failuresOfAddress)
	}
	return f
}

// check calls proven, and counts its failure. After too many failures it does not call
// it, and returns how long to wait. It calls one at a time, so that no number of
// attempts at once exceeds the limits.
func (f *failures) check(name, remote string, now time.Time, proven func() error) (wait time.Duration, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	limits := []*rate.Limiter{f.of(&f.addresses, network(remote)), f.of(&f.names, fold(name))}
	for _, l := range limits {
		if missing := 1 - l.TokensAt(now); missing > 0 {
			wait = max(wait, time.Duration(missing/float64(l.Limit())*float64(time.Second)))
		}
	}
	if wait > 0 {
		return wait, nil
	}
	if err := proven(); err != nil {
		for _, l := range limits {
			l.AllowN(now, 1)
		}
		return 0, err
	}
	return 0, nil
}

// allow counts a request to the issuer from an address, whatever comes of it, and
// reports whether there were not too many.
func (f *failures) allow(remote string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of(&f.addresses, "issuer "+network(remote)).AllowN(now, 1)
}

func (f *failures) of(buckets *[1024]*rate.Limiter, key string) *rate.Limiter {
	return buckets[maphash.String(f.seed, key)%uint64(len(buckets))]
}

// network is the address that a connection comes from; of IPv6, where one customer has
// a whole one, the /64.
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
