package agent

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/time/rate"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/inbound"
	"github.com/inference-responder/responder/internal/outbound"
)

// IdentityHeader carries the agent's own token in an answer.
const IdentityHeader = "Responder-Agent-Identity"

// Limits of connections and requests. Whoever asks does so every few seconds.
const (
	maxConns     = 64
	maxHeader    = 32 << 10 // bytes; a token is 1 to 2 KiB
	readTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second
	idleTimeout  = 2 * time.Minute
	stopTimeout  = 2 * time.Second
	perSecond    = 20 // answers of /v1/health, over all callers
	atOnce       = 40
)

// Source provides snapshots.
type Source interface {
	// Snapshot returns the current state. It never waits for a driver.
	Snapshot() gpu.Snapshot
}

// Options configure a Server. Without ClientNames and Accounts it serves loopback
// only, to everybody there. With MetricsAccounts, only these may then read
// /metrics.
type Options struct {
	Source Source
	Alive  func() error // why this process can never read its GPUs but one that starts now can; nil: it can

	CertFile, KeyFile string   // of the server; empty: plain HTTP, on loopback only
	ClientCAFile      string   // authorities that vouch for ClientNames
	ClientNames       []string // names of the certificates that may ask: NAME (common name), or KIND:NAME with common_name, dns, email or uri
	Accounts          []string // service accounts that may ask, as NAMESPACE/NAME
	Reviewer          Reviewer // needed with Accounts
	MetricsAccounts   []string // service accounts that may read /metrics and nothing else, as NAMESPACE/NAME
	MetricsReviewer   Reviewer // needed with MetricsAccounts
	MetricsOpen       bool     // /metrics is for everybody
	IdentityFile      string   // token that proves who this agent is; read again when it changes; empty: none is given

	Registry *prometheus.Registry // gets the server's metrics, and is what /metrics shows
	Log      *slog.Logger
}

// Server answers for one node.
type Server struct {
	o       Options
	tls     *outbound.Watched // nil: plain HTTP
	callers *callers          // of /v1/health
	readers *callers          // of /metrics
	bucket  *rate.Limiter
	metrics *metrics
	mux     *http.ServeMux
}

// New returns a server. It loads every certificate once.
func New(o Options) (*Server, error) {
	s := &Server{o: o, bucket: rate.NewLimiter(perSecond, atOnce), mux: http.NewServeMux()}
	var err error
	if s.callers, err = newCallers(o); err != nil {
		return nil, err
	}
	if s.readers, err = newReaders(o); err != nil {
		return nil, err
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return nil, errors.New("agent: TLS needs both a certificate file and a key file")
	}
	if o.CertFile == "" && o.ClientCAFile != "" {
		return nil, errors.New("agent: client certificates need TLS: give a certificate file and a key file")
	}
	if o.CertFile != "" {
		if s.tls, err = outbound.Watch(o.load, o.Log, o.CertFile, o.KeyFile, o.ClientCAFile); err != nil {
			return nil, err
		}
	}
	if s.metrics, err = newMetrics(o.Registry, o.Source); err != nil {
		return nil, err
	}
	s.mux.HandleFunc("GET /v1/health", s.health)
	s.mux.HandleFunc("GET /healthz", s.alive)
	s.mux.Handle("GET /metrics", s.forReaders(promhttp.HandlerFor(o.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelError)})))
	return s, nil
}

// forReaders protects the metrics, because they name the pods that hold GPUs.
func (s *Server) forReaders(metrics http.Handler) http.Handler {
	if s.o.MetricsOpen || s.callers.anyone() && s.readers.anyone() {
		return metrics
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.readers.admit(r); err != nil {
			s.refuse(w, err)
			return
		}
		trust(w, r)
		metrics.ServeHTTP(w, r)
	})
}

func (o Options) load() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("agent: load certificate %s and key %s: %w", o.CertFile, o.KeyFile, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, Certificates: []tls.Certificate{cert}}
	if o.ClientCAFile == "" {
		return config, nil
	}
	if config.ClientCAs, err = outbound.Authorities(o.ClientCAFile); err != nil {
		return nil, fmt.Errorf("agent: client certificates: %w", err)
	}
	// The kubelet's probe has no certificate. One that is presented must be valid.
	config.ClientAuth = tls.VerifyClientCertIfGiven
	return config, nil
}

// Serve serves connections of ln until ctx is done, then completes running
// requests and returns nil. It closes ln. It refuses a non-loopback address if
// callers need no credentials.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if !loopback(ln.Addr()) {
		switch {
		case s.tls == nil:
			return errors.Join(fmt.Errorf("agent: refusing to serve %s without TLS: give --cert-file and --key-file, or listen on 127.0.0.1", ln.Addr()), ln.Close())
		case s.callers.anyone():
			return errors.Join(fmt.Errorf("agent: refusing to serve %s to everybody: give --allow-account or --client-ca-file with --allow-client, or listen on 127.0.0.1", ln.Addr()), ln.Close())
		}
	}
	bounded := inbound.Listen(ln, inbound.Limits{All: maxConns, Address: maxConns / 4})
	server := &http.Server{
		Handler: closeUnlessTrusted(s.mux), ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog:    slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug), // broken handshakes and the like
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	bounded.Bind(server)
	ln = bounded
	if s.tls != nil {
		ln = tls.NewListener(ln, s.tls.Listener())
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err := server.Shutdown(limit)
		if err != nil {
			err = errors.Join(fmt.Errorf("agent: stop: %w", err), server.Close())
		}
		stopped <- err
	})
	err := server.Serve(ln)
	if stop() { // it ended by itself
		return err
	}
	return <-stopped
}

// closeUnlessTrusted lets nobody keep a connection who has not authenticated on it.
func closeUnlessTrusted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		next.ServeHTTP(w, r)
	})
}

// trust lets whoever has authenticated keep the connection.
func trust(w http.ResponseWriter, r *http.Request) {
	w.Header().Del("Connection")
	inbound.Trust(r.Context())
}

func loopback(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}

// health answers with the snapshot.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	if !s.callers.anyone() {
		if err := s.callers.admit(r); err != nil {
			s.refuse(w, err)
			return
		}
	}
	trust(w, r)
	if !s.bucket.Allow() {
		w.Header().Set("Retry-After", "1")
		s.refuse(w, &refusal{http.StatusTooManyRequests, "busy", "too many requests; ask again in a second"})
		return
	}
	minutes, err := minutesAsked(r)
	if err != nil {
		s.refuse(w, err)
		return
	}
	body, err := gpu.Encode(s.o.Source.Snapshot().Shorter(minutes))
	if err != nil {
		// The driver returned something impossible: do not pass on a part of it.
		s.o.Log.Error("the driver's readings are invalid", "err", err)
		s.refuse(w, &refusal{http.StatusInternalServerError, "implausible", err.Error()})
		return
	}
	if s.o.IdentityFile != "" {
		token, err := os.ReadFile(s.o.IdentityFile)
		if err != nil {
			s.o.Log.Error("the agent's own token cannot be read", "err", err)
			s.refuse(w, &refusal{http.StatusInternalServerError, "identity", "the agent cannot read its own token; see its log"})
			return
		}
		w.Header().Set(IdentityHeader, strings.TrimSpace(string(token)))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	s.metrics.requests.WithLabelValues("ok").Inc()
	_, _ = w.Write(body) // who asked has gone
}

// minutesAsked returns how many minutes of history the caller wants; by default
// ten, which is what a verdict needs.
func minutesAsked(r *http.Request) (int, error) {
	const usual = 10
	values, ok := r.URL.Query()["minutes"]
	if !ok {
		return usual, nil
	}
	n, err := strconv.Atoi(values[0])
	if err != nil || n < 1 || n > gpu.MaxMinutes {
		return 0, &refusal{http.StatusBadRequest, "minutes", fmt.Sprintf("minutes must be a whole number from 1 to %d", gpu.MaxMinutes)}
	}
	return n, nil
}

// refuse answers a request with a refusal.
func (s *Server) refuse(w http.ResponseWriter, err error) {
	no := &refusal{http.StatusInternalServerError, "error", "the agent failed; see its log"}
	if !errors.As(err, &no) {
		s.o.Log.Error("request failed", "err", err)
	}
	s.metrics.requests.WithLabelValues(no.Code).Inc()
	if no.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(no.status)
	_ = json.NewEncoder(w).Encode(no) // who asked has gone
}

// refusal is any answer other than the snapshot.
type refusal struct {
	status  int
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error returns the message.
func (r *refusal) Error() string { return r.Message }

// alive answers the kubelet's probe. It fails only if a restart would help.
func (s *Server) alive(w http.ResponseWriter, _ *http.Request) {
	if s.o.Alive != nil {
		if err := s.o.Alive(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	_, _ = w.Write([]byte("ok\n")) // who asked has gone
}
