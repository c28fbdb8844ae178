package config

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/catalog"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/setting"
)

// Discovery finds services in the cluster.
type Discovery struct {
	Enabled    bool          `yaml:"enabled" doc:"Look for services in the cluster."`
	Interval   time.Duration `yaml:"interval" doc:"How often."`
	Namespaces []string      `yaml:"namespaces" doc:"Namespaces in which services are looked for. Each is listed by itself, so that the right to list workloads there suffices. Empty: all, which needs the role responder-discovery on the whole cluster."`
}

// check finds what is wrong with it.
func (d Discovery) check(bad setting.Report) {
	if d.Interval < time.Second {
		bad("discovery.interval", "", "must be at least 1s")
	}
	for i, n := range d.Namespaces {
		switch at := fmt.Sprintf("discovery.namespaces[%d]", i); {
		case !catalog.IsNamespace(n):
			bad(at, "write its name, like serving; patterns are not supported", "%q is no namespace", runview.Cut(n, 100))
		case slices.Contains(d.Namespaces[:i], n):
			bad(at, "names are unique", "duplicate namespace %q", n)
		}
	}
}

// Probes bounds what the endpoints of services may be.
type Probes struct {
	Networks []string `yaml:"networks" doc:"Networks in which the endpoints of services are asked, like 10.96.0.0/12, whatever their names resolve to: those of the cluster's Services and of gateways. Empty: all, but never link-local and metadata addresses, nor this machine by a name other than localhost."`
}

// Prefixes returns the networks of a configuration that was checked.
func (p Probes) Prefixes() []netip.Prefix {
	var out []netip.Prefix
	for _, n := range p.Networks {
		if prefix, err := netip.ParsePrefix(n); err == nil {
			out = append(out, prefix)
		}
	}
	return out
}

// check finds what is wrong with it.
func (p Probes) check(bad setting.Report) {
	for i, n := range p.Networks {
		prefix, err := netip.ParsePrefix(n)
		switch at := fmt.Sprintf("probes.networks[%d]", i); {
		case err != nil:
			bad(at, "write it like 10.96.0.0/12", "%q is no network", runview.Cut(n, 100))
		case prefix != prefix.Masked():
			bad(at, "write "+prefix.Masked().String(), "%s has bits beyond its length", n)
		case wrapped(prefix):
			b := prefix.Addr().As16()
			ipv4 := netip.PrefixFrom(netip.AddrFrom4([4]byte(b[12:])), prefix.Bits()-96)
			bad(at, "write "+ipv4.String(), "%s wraps IPv4 addresses, which are compared as such: nothing is in it", n)
		}
	}
}

// wrapped reports whether all addresses of a network are forms of IPv4 addresses, which
// are compared with networks in their plain form.
func wrapped(p netip.Prefix) bool {
	nat64 := netip.MustParsePrefix("64:ff9b::/96")
	return p.Bits() >= 96 && (p.Addr().Is4In6() || nat64.Contains(p.Addr()))
}
