package webhook

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"

	"github.com/inference-responder/responder/internal/outbound"
)

// TLS is what the server proves itself with, in PEM files that are read again
// when they change. The zero value serves plain HTTP.
type TLS struct {
	CertFile     string
	KeyFile      string
	ClientCAFile string // authorities that vouch for Auth.Clients; empty: client certificates are not asked for
}

// newTLSFiles loads the files; nil without a certificate.
func newTLSFiles(o TLS, clients []Client, logger *slog.Logger) (*outbound.Watched, error) {
	switch {
	case o == TLS{} && len(clients) == 0:
		return nil, nil
	case o.CertFile == "" || o.KeyFile == "":
		return nil, errors.New("webhook: TLS needs both a certificate file and a key file")
	case (o.ClientCAFile == "") != (len(clients) == 0):
		return nil, errors.New("webhook: client certificates need both a file of authorities and a list of names")
	}
	for _, c := range clients {
		if err := checkGrant(c.Grant); err != nil {
			return nil, err
		}
	}
	return outbound.Watch(o.load, logger, o.CertFile, o.KeyFile, o.ClientCAFile)
}

func (o TLS) load() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("webhook: load certificate %s and key %s: %w", o.CertFile, o.KeyFile, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, Certificates: []tls.Certificate{cert}}
	if o.ClientCAFile == "" {
		return config, nil
	}
	if config.ClientCAs, err = outbound.Authorities(o.ClientCAFile); err != nil {
		return nil, fmt.Errorf("webhook: client certificates: %w", err)
	}
	// Tokens and probes need no certificate; one that is shown has to be good.
	config.ClientAuth = tls.VerifyClientCertIfGiven
	return config, nil
}
