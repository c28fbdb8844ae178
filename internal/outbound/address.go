package outbound

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

// Dialer returns a dialer that connects within the timeout, and to no address
// that [Allowed] refuses. A timeout of 0 leaves the limit to the context.
func Dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, Control: control}
}

// control sees the address after name resolution, so that a name cannot hide it.
func control(_, address string, _ syscall.RawConn) error { return Allowed(address) }

// Refused is the error of an address that is never connected to, whoever wrote it.
type Refused struct {
	Address netip.Addr
	Kind    string // e.g. "a metadata address"
}

// Error names the address and what it is.
func (r *Refused) Error() string {
	return fmt.Sprintf("%s is %s and is never asked", r.Address, r.Kind)
}

// Allowed refuses link-local, multicast, unspecified and metadata addresses
// with a [*Refused]: clouds hand out credentials at some of them. The address is
// an IP and a port.
func Allowed(address string) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %s: %w", address, err)
	}
	ip := ap.Addr().Unmap()
	metadata := []string{"fd00:ec2::254", "100.100.100.200", "192.0.0.192"} // AWS over IPv6, Alibaba, Oracle; the others are link-local
	for _, m := range metadata {
		if ip.WithZone("") == netip.MustParseAddr(m) {
			return &Refused{ip, "a metadata address"}
		}
	}
	if ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || ip.IsMulticast() || ip.IsUnspecified() {
		return &Refused{ip, "a link-local, multicast or unspecified address"}
	}
	return nil
}

// AllowedURL is [Allowed] for a URL whose host is an IP. A dialer does not see
// that address when there is a proxy in between. Names are allowed here; the
// dialer checks what they resolve to.
func AllowedURL(u *url.URL) error {
	ip := net.ParseIP(u.Hostname())
	if ip == nil {
		return nil
	}
	return Allowed(net.JoinHostPort(ip.String(), "1"))
}
