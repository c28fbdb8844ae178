package config

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/inference-responder/responder/internal/credential"
)

// QuotedURL repeats what should be a URL, unless it may hold a password or a token.
func QuotedURL(raw string) string {
	if strings.ContainsAny(raw, "@?#%") {
		return credential.Redacted
	}
	return strconv.Quote(raw)
}

// IsHTTP reports whether raw is an http or https URL with a host.
func IsHTTP(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// InTheClear tells of a URL over which what is sent can be read on the network:
// plain http to anything but this machine.
func InTheClear(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return !strings.EqualFold(u.Hostname(), "localhost") && (ip == nil || !ip.IsLoopback())
}

// ReadAtMost reads a file that must not be larger than limit.
func ReadAtMost(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("more than %d bytes", limit)
	}
	return data, nil
}
