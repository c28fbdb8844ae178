package outbound

import "testing"

func TestAllowed(t *testing.T) {
	for address, want := range map[string]bool{
		"10.0.0.1:80":              true,
		"127.0.0.1:9093":           true,
		"[::1]:9093":               true,
		"[2606:4700::1]:443":       true,
		"169.254.169.254:80":       false, // AWS, GCP, Azure
		"[::ffff:169.254.1.1]:80":  false, // the same behind an IPv6 dress
		"[fe80::1%eth0]:80":        false,
		"[fd00:ec2::254]:80":       false,
		"100.100.100.200:80":       false,
		"192.0.0.192:80":           false,
		"224.0.0.1:80":             false,
		"0.0.0.0:80":               false,
		"[::]:80":                  false,
		"metadata.google.internal": false, // not resolved: not an address
	} {
		if err := Allowed(address); (err == nil) != want {
			t.Errorf("%s: %v, want allowed %v", address, err, want)
		}
	}
}
