package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// TLS is what the server proves itself with, in PEM files that are read again
// when they change. The zero value serves plain HTTP.
type TLS struct {
	CertFile     string
	KeyFile      string
	ClientCAFile string // authorities that vouch for Auth.Clients; empty: client certificates are not asked for
}

// tlsFiles loads a TLS configuration and keeps it up to date.
type tlsFiles struct {
	o      TLS
	logger *slog.Logger
	every  time.Duration // how often files are looked at, while connections come

	mu      sync.Mutex // guards what follows
	checked time.Time
	stamp   string // sizes and times of the files current was made of
	current *tls.Config
}

// newTLSFiles loads the files; nil without a certificate.
func newTLSFiles(o TLS, clients []Client, logger *slog.Logger) (*tlsFiles, error) {
	switch {
	case o == TLS{} && len(clients) == 0:
		return nil, nil
	case o.CertFile == "" || o.KeyFile == "":
		return nil, errors.New("webhook: TLS needs both a certificate file and a key file")
	case (o.ClientCAFile == "") != (len(clients) == 0):
		return nil, errors.New("webhook: client certificates need both a file of authorities and a list of names")
	}
	f := &tlsFiles{o: o, logger: logger, every: time.Second}
	for _, c := range clients {
		if err := checkGrant(c.Grant); err != nil {
			return nil, err
		}
	}
	config, err := f.load()
	if err != nil {
		return nil, err
	}
	f.current, f.stamp, f.checked = config, f.stat(), time.Now()
	return f, nil
}

// config is for the listener.
func (f *tlsFiles) config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.fresh(), nil },
	}
}

// fresh gives the present configuration. Files that cannot be used leave the
// last good one: half a rotation must not take the receiver down.
func (f *tlsFiles) fresh() *tls.Config {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Sub(f.checked) < f.every {
		return f.current
	}
	f.checked = now
	stamp := f.stat()
	if stamp == f.stamp {
		return f.current
	}
	f.stamp = stamp
	config, err := f.load()
	if err != nil {
		f.logger.Error("tls files cannot be used: the last good ones stay", "err", err)
		return f.current
	}
	f.current = config
	return config
}

func (f *tlsFiles) stat() (stamp string) {
	for _, name := range []string{f.o.CertFile, f.o.KeyFile, f.o.ClientCAFile} {
		if info, err := os.Stat(name); err == nil {
			stamp += fmt.Sprintf("%d %d;", info.Size(), info.ModTime().UnixNano())
		}
	}
	return stamp
}

func (f *tlsFiles) load() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(f.o.CertFile, f.o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("webhook: load certificate %s and key %s: %w", f.o.CertFile, f.o.KeyFile, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, Certificates: []tls.Certificate{cert}}
	if f.o.ClientCAFile == "" {
		return config, nil
	}
	pem, err := os.ReadFile(f.o.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("webhook: load client authorities: %w", err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("webhook: load client authorities: %s holds no PEM certificate", f.o.ClientCAFile)
	}
	// Tokens and probes need no certificate; one that is shown has to be good.
	config.ClientAuth = tls.VerifyClientCertIfGiven
	return config, nil
}
