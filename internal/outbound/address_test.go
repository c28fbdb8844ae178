package outbound

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func TestAllowed(t *testing.T) {
	for address, want := range map[string]bool{
		"10.0.0.1:80":                   true,
		"127.0.0.1:9093":                true,
		"[::1]:9093":                    true,
		"[2606:4700::1]:443":            true,
		"[fd12:3456::1]:443":            true, // a pod
		"[64:ff9b::8c52:7904]:443":      true, // NAT64 of a public address
		"240.0.0.1:80":                  true, // pods of some clusters
		"169.254.169.254:80":            false,
		"169.254.170.23:80":             false, // EKS pod identity
		"[::ffff:169.254.1.1]:80":       false, // the same as a mapped IPv6 address
		"[64:ff9b::a9fe:a9fe]:80":       false, // the same behind NAT64
		"[64:ff9b::169.254.169.254]:80": false,
		"[64:ff9b:1::a9fe:a9fe]:80":     false,
		"[::169.254.169.254]:80":        false,
		"[::ffff:0:169.254.169.254]:80": false,
		"[2002:a9fe:a9fe::1]:80":        false,
		"[2001:0:a9fe:a9fe::1]:80":      false,
		"[fe80::1%eth0]:80":             false,
		"[fec0::1]:80":                  false,
		"[fd00:ec2::254]:80":            false, // AWS
		"[fd00:ec2::254%lo]:80":         false,
		"[fd00:ec2::23]:80":             false, // EKS pod identity
		"[fd20:ce::254]:80":             false, // Google
		"[fd00:c1::a9fe:a9fe]:80":       false, // Oracle
		"[fd00:42::42]:80":              false, // Scaleway
		"168.63.129.16:80":              false, // Azure
		"[64:ff9b::a83f:8110]:80":       false,
		"100.100.100.200:80":            false, // Alibaba
		"192.0.0.192:80":                false,
		"224.0.0.1:80":                  false,
		"255.255.255.255:80":            false,
		"[ff02::1%eth0]:80":             false,
		"0.0.0.0:80":                    false,
		"0.1.2.3:80":                    false,
		"[::]:80":                       false,
		"metadata.google.internal":      false, // not resolved: not an address
	} {
		if err := Allowed(address); (err == nil) != want {
			t.Errorf("%s: %v, want allowed %v", address, err, want)
		}
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			continue
		}
		u := &url.URL{Scheme: "http", Host: address}
		if strings.Contains(host, "%") {
			u.Host = "[" + strings.Replace(host, "%", "%25", 1) + "]:80"
			if u, err = url.Parse("http://" + u.Host + "/"); err != nil {
				t.Fatal(err)
			}
		}
		if err := AllowedURL(u); (err == nil) != want {
			t.Errorf("URL %s: %v, want allowed %v", u, err, want)
		}
	}
}

// What is refused stays refused in every form of the same address.
func FuzzAllowed(f *testing.F) {
	for _, ip := range []string{"169.254.169.254", "10.0.0.1", "fd00:ec2::254", "64:ff9b::a83f:8110", "::1"} {
		f.Add(netip.MustParseAddr(ip).AsSlice(), "eth0")
	}
	f.Fuzz(func(t *testing.T, raw []byte, zone string) {
		ip, ok := netip.AddrFromSlice(raw)
		if !ok {
			return
		}
		refused := allowed(ip) != nil
		forms := []netip.Addr{ip.Unmap()}
		if u := ip.Unmap(); u.Is4() {
			b := u.As4()
			forms = append(forms, netip.AddrFrom16(u.As16()), embed("64:ff9b::", b), embed("::ffff:0:0:0", b))
		} else {
			forms = append(forms, u.WithZone(zone))
		}
		for _, form := range forms {
			if refused && allowed(form) == nil {
				t.Errorf("%s is refused, and %s is not", ip, form)
			}
		}
	})
}

// embed returns the address of a prefix of 96 bits that ends in an IPv4 address.
func embed(prefix string, v4 [4]byte) netip.Addr {
	b := netip.MustParseAddr(prefix).As16()
	copy(b[12:], v4[:])
	return netip.AddrFrom16(b)
}

// A name leads a guarded client neither to this machine nor out of its networks.
func TestGuarded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	port := server.Listener.Addr().(*net.TCPAddr).Port
	for _, c := range []struct {
		what, address string
		local         bool
		networks      []string
		want          bool
	}{
		{"any network", "10.1.2.3:80", false, nil, true},
		{"its network", "10.1.2.3:80", false, []string{"10.1.0.0/16"}, true},
		{"mapped", "[::ffff:10.1.2.3]:80", false, []string{"10.1.0.0/16"}, true},
		{"another network", "10.2.2.3:80", false, []string{"10.1.0.0/16", "fd00::/8"}, false},
		{"public", "140.82.121.4:80", false, []string{"10.1.0.0/16"}, false},
		{"metadata in a permitted network", "169.254.169.254:80", false, []string{"0.0.0.0/0"}, false},
		{"a name of loopback", "127.0.0.1:80", false, nil, false},
		{"a name of loopback over IPv6", "[::1]:80", false, nil, false},
		{"loopback itself", "127.0.0.1:80", true, nil, true},
		{"loopback outside the networks", "127.0.0.1:80", true, []string{"10.0.0.0/8"}, false},
	} {
		o := Options{Guarded: true}
		for _, n := range c.networks {
			o.Networks = append(o.Networks, netip.MustParsePrefix(n))
		}
		if err := o.reaches(c.address, c.local); (err == nil) != c.want {
			t.Errorf("%s: %s in %v: %v, want allowed %v", c.what, c.address, c.networks, err, c.want)
		}
	}
	transport, err := Options{Guarded: true, NoProxy: true}.Transport()
	if err != nil {
		t.Fatal(err)
	}
	get := func(url string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := Client(transport).Do(req)
		if err == nil {
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
		}
		return err
	}
	if err := get(server.URL); err != nil {
		t.Errorf("a literal of this machine: %v", err)
	}
	var refused *Refused
	_, err = transport.DialContext(context.Background(), "tcp", net.JoinHostPort("localhost.localdomain", "80"))
	var dns *net.DNSError
	if !errors.As(err, &refused) && !errors.As(err, &dns) {
		t.Errorf("another name of this machine (port %d): %v", port, err)
	}
}
