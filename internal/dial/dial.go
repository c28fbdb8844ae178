// Package dial says which addresses may be connected to on behalf of somebody
// who wrote a URL: a service's endpoint in the catalog, a webhook. Clouds hand
// out credentials at link-local and metadata addresses, so those never are.
package dial

import (
	"fmt"
	"net/netip"
	"syscall"
)

// Control is for [net.Dialer]: it sees the address after name resolution, so a
// name cannot smuggle one in.
func Control(_, address string, _ syscall.RawConn) error { return Allowed(address) }

// Refused reports that an address is never asked, whoever wrote it.
type Refused struct {
	Address netip.Addr
	Kind    string // e.g. "a metadata address"
}

// Error names the address and what it is.
func (r *Refused) Error() string {
	return fmt.Sprintf("%s is %s and is never asked", r.Address, r.Kind)
}

// Allowed refuses link-local, multicast, unspecified and metadata addresses
// with a [*Refused]. The address is an IP and a port.
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
