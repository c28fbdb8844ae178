package outbound

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"
)

// Options configure the connections of a client. The zero value verifies
// servers against the system's certificate authorities.
type Options struct {
	Connect time.Duration // limit for connecting, and for the TLS handshake; 0: 5s

	CAFile     string // authorities that vouch for the server, read once; empty: the system's
	CertFile   string // our own certificate and key, read again for every connection; empty: none is shown
	KeyFile    string
	ServerName string // in the server's certificate; empty: the URL's host
	SkipVerify bool   // do not verify the server: only when an operator asks for it by name

	NoProxy    bool // ignore the proxies of the environment
	AnyAddress bool // connect even to addresses that [Allowed] refuses: the operator alone wrote the URL

	// Guarded is for endpoints of services, whose names their owners control: a name
	// must not resolve to this machine, and only Networks are connected to; none: all
	// that [Allowed] permits.
	Guarded  bool
	Networks []netip.Prefix
}

// TLS returns the TLS side of the options. It reads all files once, so that a
// wrong path is found at the start.
func (o Options) TLS() (*tls.Config, error) {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         o.ServerName,
		InsecureSkipVerify: o.SkipVerify, //nolint:gosec // only when an operator asks for it by name
	}
	if o.CAFile != "" {
		var err error
		if config.RootCAs, err = Authorities(o.CAFile); err != nil {
			return nil, err
		}
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return nil, errors.New("a client certificate needs both the certificate and the key file")
	}
	if o.CertFile == "" {
		return config, nil
	}
	load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		cert, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read certificate %s and key %s: %w", o.CertFile, o.KeyFile, err)
		}
		return &cert, nil
	}
	if _, err := load(nil); err != nil {
		return nil, err
	}
	config.GetClientCertificate = load // whichever authorities the server names: it then reports what is wrong
	return config, nil
}

// Transport returns a transport with the options. The caller may change its
// limits before the first request.
func (o Options) Transport() (*http.Transport, error) {
	config, err := o.TLS()
	if err != nil {
		return nil, err
	}
	if o.Connect <= 0 {
		o.Connect = 5 * time.Second
	}
	dial := Dialer(o.Connect).DialContext
	switch {
	case o.Guarded:
		dial = o.guarded()
	case o.AnyAddress:
		dial = (&net.Dialer{Timeout: o.Connect}).DialContext
	}
	t := &http.Transport{
		DialContext:            dial,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    o.Connect,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
	if !o.NoProxy {
		t.Proxy = http.ProxyFromEnvironment
	}
	return t, nil
}

// Client returns a client that follows no redirect: one would carry the
// credentials, and what is sent, to wherever it points.
func Client(t http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// SetBody makes the answer be read from r, such as an [io.LimitReader] or a
// [Limit] of its body. Closing it still closes the connection.
func SetBody(resp *http.Response, r io.Reader) {
	resp.Body = struct {
		io.Reader
		io.Closer
	}{r, resp.Body}
}

// Authorities reads a file of PEM certificates.
func Authorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read CA certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read CA certificates: %s holds no PEM certificate", file)
	}
	return pool, nil
}

// Limit returns a reader that fails with tooLarge if there is more than n bytes:
// cut data must not look complete.
func Limit(r io.Reader, n int64, tooLarge error) io.Reader { return &limited{r, n, tooLarge} }

type limited struct {
	r        io.Reader
	left     int64
	tooLarge error
}

// Read implements [io.Reader].
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		var one [1]byte
		if n, err := l.r.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, l.tooLarge
	}
	if int64(len(p)) > l.left {
		p = p[:l.left]
	}
	n, err := l.r.Read(p)
	l.left -= int64(n)
	return n, err
}
