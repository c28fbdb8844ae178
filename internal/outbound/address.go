package outbound

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"
)

// Dialer returns a dialer that connects within the timeout, and to no address
// that [Allowed] refuses. A timeout of 0 leaves the limit to the context.
func Dialer(timeout time.Duration) *net.Dialer {
	// Control sees the address after name resolution, so that a name cannot hide it.
	return &net.Dialer{Timeout: timeout, Control: func(_, address string, _ syscall.RawConn) error { return Allowed(address) }}
}

// Refused is the error of an address that is never connected to, whoever wrote it.
type Refused struct {
	Address netip.Addr
	Kind    string // e.g. "a metadata address"
}

// Error names the address and what it is.
func (r *Refused) Error() string {
	return fmt.Sprintf("%s is %s and is never asked", r.Address, r.Kind)
}

// never lists the networks that are never connected to, each with what it is. Clouds
// hand out credentials at metadata addresses; the forms of IPv6 that contain an IPv4
// address lead to it where a gateway translates them.
var never = []struct {
	network netip.Prefix
	kind    string
}{
	{netip.MustParsePrefix("fd00:ec2::/32"), "a metadata address"},          // AWS: instances ::254, pods of EKS ::23, DNS ::253, time ::123
	{netip.MustParsePrefix("fd20:ce::254/128"), "a metadata address"},       // Google
	{netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), "a metadata address"}, // Oracle
	{netip.MustParsePrefix("fd00:42::42/128"), "a metadata address"},        // Scaleway
	{netip.MustParsePrefix("168.63.129.16/32"), "a metadata address"},       // Azure's host
	{netip.MustParsePrefix("100.100.100.200/32"), "a metadata address"},     // Alibaba
	{netip.MustParsePrefix("192.0.0.192/32"), "a metadata address"},         // Oracle's older one
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address"},       // metadata of most clouds
	{netip.MustParsePrefix("fe80::/10"), "a link-local address"},
	{netip.MustParsePrefix("fec0::/10"), "a site-local address"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
	{netip.MustParsePrefix("255.255.255.255/32"), "a broadcast address"},
	{netip.MustParsePrefix("0.0.0.0/8"), "an unspecified address"}, // 0.0.0.0 is this machine
	{netip.MustParsePrefix("::/128"), "an unspecified address"},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), "a translated IPv4 address"}, // SIIT
	{netip.MustParsePrefix("64:ff9b:1::/48"), "a translated IPv4 address"},  // NAT64 of one network
	{netip.MustParsePrefix("2001::/32"), "a tunneled IPv4 address"},         // Teredo
	{netip.MustParsePrefix("2002::/16"), "a tunneled IPv4 address"},         // 6to4
}

// Prefixes of IPv6 addresses that end in an IPv4 address. That address is judged in their place:
// in a cluster without IPv4, DNS64 answers with NAT64's for every host that has only IPv4.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	compatible = netip.MustParsePrefix("::/96")
)

// Allowed refuses the addresses of [never] with a [*Refused]: link-local, multicast,
// unspecified and metadata addresses. The address is an IP and a port.
func Allowed(address string) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %s: %w", address, err)
	}
	return allowed(ap.Addr())
}

func allowed(shown netip.Addr) error {
	ip := plain(shown)
	for _, n := range never {
		if n.network.Contains(ip) {
			return &Refused{shown.Unmap(), n.kind}
		}
	}
	return nil
}

// plain returns an address without a zone, which no network contains, and the
// IPv4 address where an IPv6 address only wraps one.
func plain(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	if nat64.Contains(ip) || compatible.Contains(ip) && !ip.IsLoopback() && !ip.IsUnspecified() {
		b := ip.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return ip
}

// AllowedURL is [Allowed] for a URL whose host is an IP. A dialer does not see
// that address when there is a proxy in between. Names are allowed here; the
// dialer checks what they resolve to.
func AllowedURL(u *url.URL) error {
	ip, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil
	}
	return allowed(ip)
}

// guarded returns a dial function for endpoints of services: [Options.Guarded].
func (o Options) guarded() func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		_, notIP := netip.ParseAddr(host)
		local := notIP == nil || host == "localhost"
		dialer := net.Dialer{Timeout: o.Connect, Control: func(_, resolved string, _ syscall.RawConn) error {
			return o.reaches(resolved, local)
		}}
		return dialer.DialContext(ctx, network, address)
	}
}

// reaches refuses what a guarded client must not connect to. local permits this machine.
func (o Options) reaches(address string, local bool) error {
	if err := Allowed(address); err != nil {
		return err
	}
	shown := netip.MustParseAddrPort(address).Addr() // unreachable unless Allowed accepts what it cannot parse
	ip := plain(shown)
	if ip.IsLoopback() && !local {
		return &Refused{shown.Unmap(), "this machine, to which a name of a service must not resolve,"}
	}
	within := func(n netip.Prefix) bool { return n.Contains(ip) }
	if len(o.Networks) > 0 && !slices.ContainsFunc(o.Networks, within) {
		return &Refused{shown.Unmap(), "in none of probes.networks"}
	}
	return nil
}
