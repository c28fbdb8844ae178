package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/inbound"
	"github.com/inference-responder/responder/internal/outbound"
	"github.com/inference-responder/responder/internal/rights"
	"github.com/labstack/echo/v4"
)

// Limits of connections that need no option.
const (
	maxHeader    = 32 << 10         // bytes
	headTimeout  = 5 * time.Second  // for the handshake and the headers of a request, while nobody has authenticated
	idleTimeout  = 2 * time.Minute  // between requests of a connection on which somebody has
	writeTimeout = 30 * time.Second // for an answer, and for each write of a stream
	stopTimeout  = 10 * time.Second // for requests under way when the server stops
	maxStreams   = 64               // follow=1 and exports at once

	// Of the listener for probes, which answers and closes.
	maxProbes    = 64
	probeTimeout = 2 * time.Second
)

// Server receives notifications and serves the API.
type Server struct {
	o       Options
	auth    *authenticator
	tls     *outbound.Watched // nil: plain HTTP
	bodies  *bodies
	quotas  *quotas
	metrics *metrics
	echo    *echo.Echo
	log     *slog.Logger

	refusing atomic.Pointer[Problem] // why the last notification was not admitted; nil: it was
	streams  chan struct{}           // one token for each stream that may run
	stopping chan struct{}           // closed when streams have to end
	stop     sync.Once
}

// New returns a server. It reads every credential and certificate file once and
// refuses what is missing or cannot be safe.
func New(o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, log: o.Logger, streams: make(chan struct{}, maxStreams), stopping: make(chan struct{})}
	s.bodies = &bodies{max: o.MaxBody, flying: newBudget(o.InFlightBytes, o.MaxConns)}
	s.quotas = newQuotas(o.Quota)
	s.metrics = newMetrics(s.bodies.flying.held, s.missing)
	if s.auth, err = newAuthenticator(o.Auth, o.Logger, s.metrics); err != nil {
		return nil, err
	}
	if s.tls, err = newTLSFiles(o.TLS, o.Auth.Clients, o.Logger); err != nil {
		return nil, err
	}
	if err := s.metrics.register(o.Registerer); err != nil {
		return nil, fmt.Errorf("webhook: register metrics: %w", err)
	}
	s.routes()
	return s, nil
}

// Handler serves every route. Without credentials and without Insecure it
// answers 401 until [Server.Serve] has seen that the listener is loopback. It
// bounds bodies and authenticates; time limits and the bound on connections
// are Serve's.
func (s *Server) Handler() http.Handler { return s.echo }

// Serve serves connections of ln until ctx is done, then lets requests under
// way finish and returns nil. It closes ln. It is called once. It refuses an
// address others can reach when nobody has to authenticate, unless
// Auth.Insecure is set.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if err := s.admitAnonymous(ln.Addr()); err != nil {
		return errors.Join(err, ln.Close())
	}
	s.auth.oidc.warm()
	var recalling sync.WaitGroup
	defer recalling.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	recalling.Go(func() { s.recallShares(ctx, began) })
	// One address may have them all, while no other one needs them: Alertmanager opens a
	// connection for each notification of a storm.
	bounded := inbound.Listen(ln, inbound.Limits{
		All: s.o.MaxConns, Waiting: 8 * s.o.MaxConns, Address: s.o.MaxConns, Trusted: s.o.MaxConns * 3 / 4, Patience: headTimeout, Cut: s.metrics.cut.Inc,
	})
	server := &http.Server{
		Handler:           s.echo,
		ReadTimeout:       s.o.SlowTimeout, // headers and body together
		ReadHeaderTimeout: min(headTimeout, s.o.SlowTimeout),
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
	}
	bounded.Bind(server)
	ln = bounded
	if s.tls != nil {
		ln = tls.NewListener(ln, s.tls.Listener())
	}
	return s.serve(ctx, server, ln, func() { s.stop.Do(func() { close(s.stopping) }) })
}

// ServeProbes serves /healthz and /readyz on a listener of their own until ctx is
// done, so that nobody who holds the other's connections keeps the kubelet out. It
// closes ln.
func (s *Server) ServeProbes(ctx context.Context, ln net.Listener) error {
	bounded := inbound.Listen(ln, inbound.Limits{All: maxProbes, Address: maxProbes / 2, Cut: s.metrics.cut.Inc})
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", s.echo)
	mux.Handle("GET /readyz", s.echo)
	server := &http.Server{Handler: mux, ReadTimeout: probeTimeout, WriteTimeout: probeTimeout, MaxHeaderBytes: maxHeader}
	server.SetKeepAlivesEnabled(false)
	bounded.Bind(server)
	return s.serve(ctx, server, bounded, func() {})
}

// serve runs a server until ctx is done, and then lets requests under way finish.
func (s *Server) serve(ctx context.Context, server *http.Server, ln net.Listener, stopping func()) error {
	server.ErrorLog = slog.NewLogLogger(s.log.Handler(), slog.LevelDebug) // broken handshakes and the like
	// Requests outlive ctx a little, so that what is being admitted is.
	server.BaseContext = func(net.Listener) context.Context { return context.WithoutCancel(ctx) }
	stopped := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
			stopping()
			stopped <- shutdown(server)
		case <-done:
			stopped <- nil
		}
	}()
	err := server.Serve(ln)
	close(done)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, <-stopped)
}

// admitAnonymous decides whether ln may be served without credentials.
func (s *Server) admitAnonymous(addr net.Addr) error {
	s.auth.local.Store(loopback(addr))
	switch {
	case s.o.Auth.Insecure:
		s.log.Warn("authentication is off: everyone who can reach the address may deliver notifications and decide", "address", addr.String())
	case s.auth.anyone():
	case loopback(addr):
		s.auth.anonymous.Store(true)
		s.log.Info("no credentials are configured: serving this machine only", "address", addr.String())
	default:
		return fmt.Errorf("webhook: refusing to serve %s without authentication: configure auth.tokens, listen on 127.0.0.1, or let everyone in with auth.insecure: true (serve --insecure)", addr)
	}
	return nil
}

// shutdown waits for requests under way and cuts off the rest.
func shutdown(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("webhook: stop: %w", err), server.Close())
	}
	return nil
}

// handler serves one route for someone who authenticated.
type handler func(c echo.Context, id Identity) error

// routes lists every route.
func (s *Server) routes() {
	s.echo = echo.New()
	s.echo.HTTPErrorHandler = func(err error, c echo.Context) { s.answer(c, problemOf(err)) }
	s.echo.Pre(closeUnlessTrusted)

	s.route(http.MethodPost, "/", ScopeIntake, s.intake)
	s.route(http.MethodPost, "/api/v1/alertmanager", ScopeIntake, s.intake)

	s.route(http.MethodGet, "/api/v1/runs", ScopeRead, s.listRuns)
	s.route(http.MethodPost, "/api/v1/runs", Scope(rights.Start), s.startRun)
	s.route(http.MethodGet, "/api/v1/runs/:id", ScopeRead, s.showRun)
	s.route(http.MethodGet, "/api/v1/runs/:id/events", ScopeRead, s.runEvents)
	s.route(http.MethodGet, "/api/v1/runs/:id/budget", ScopeRead, s.runBudget)
	for _, verb := range verbs() {
		s.route(http.MethodPost, "/api/v1/runs/:id/"+verb, Scope(rightOf(verb)), s.decides(verb))
	}

	s.route(http.MethodGet, "/api/v1/alerts", ScopeRead, s.listAlerts)
	s.route(http.MethodGet, "/api/v1/report", ScopeRead, s.report)
	s.route(http.MethodGet, "/api/v1/report/preview", ScopeRead, s.preview)
	s.route(http.MethodGet, "/api/v1/pauses", ScopeRead, s.listPauses)
	s.route(http.MethodPost, "/api/v1/pauses", Scope(rights.Pause), s.setPause)
	s.route(http.MethodDelete, "/api/v1/pauses", Scope(rights.Unpause), s.liftPause)

	s.route(http.MethodGet, "/api/v1/ladder", ScopeRead, s.listLevers)
	s.route(http.MethodPost, "/api/v1/ladder/promote", Scope(rights.Promote), s.promote)
	s.route(http.MethodGet, "/api/v1/last-good", ScopeRead, s.listGood)

	s.route(http.MethodGet, "/api/v1/audit", ScopeRead, s.auditEntries)
	s.route(http.MethodGet, "/api/v1/audit/checkpoint", ScopeRead, s.auditCheckpoint)
	s.route(http.MethodGet, "/api/v1/audit/export", ScopeAdmin, s.auditExport)

	s.route(http.MethodGet, "/api/v1/journal", ScopeRead, s.journalStatus)
	s.route(http.MethodPost, "/api/v1/journal/archive", ScopeAdmin, s.archiveJournal)

	s.route(http.MethodGet, "/api/v1/sessions", ScopeSessions, s.listSessions)
	s.route(http.MethodDelete, "/api/v1/sessions", ScopeSessions, s.endSessions)

	s.route(http.MethodGet, "/api/v1/sandbox", ScopeRead, s.showSandbox)
	s.route(http.MethodPost, "/api/v1/sandbox/fire", Scope(rights.Start), s.fireSandbox)

	s.route(http.MethodGet, "/api/v1/playbooks", ScopeRead, s.listPlaybooks)
	s.route(http.MethodGet, "/api/v1/services", ScopeRead, s.listServices)
	s.route(http.MethodGet, "/api/v1/nodes", ScopeRead, s.listNodes)
	s.route(http.MethodGet, "/api/v1/version", ScopeRead, s.version)

	s.route(http.MethodPost, "/api/v1/slack/interactivity", "", s.slackInteractivity)

	s.route(http.MethodGet, "/healthz", "", s.healthz)
	s.route(http.MethodGet, "/readyz", "", s.readyz)
	s.route(http.MethodGet, "/metrics", ScopeMetrics, s.serveMetrics)

	if s.o.Pages != nil {
		s.pageRoutes()
	}
}

// closeUnlessTrusted lets nobody keep a connection who has not authenticated on it.
func closeUnlessTrusted(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Header().Set("Connection", "close")
		return next(c)
	}
}

// trust lets whoever has authenticated keep the connection.
func trust(c echo.Context) {
	c.Response().Header().Del("Connection")
	inbound.Trust(c.Request().Context())
}

// route serves path: it authenticates before anything of the body is read,
// turns errors and panics into answers, and counts.
func (s *Server) route(method, path string, scope Scope, serve handler, with ...echo.MiddlewareFunc) {
	stream := strings.HasSuffix(path, "/events") || strings.HasSuffix(path, "/export")
	s.echo.Add(method, path, func(c echo.Context) (err error) {
		began := time.Now()
		defer func() {
			if v := recover(); v != nil {
				err = s.recovered(c, v)
			}
			if err != nil {
				s.fail(c, scope, err)
			}
			if !stream {
				s.metrics.observe(path, method, c.Response().Status, began)
			}
			err = nil
		}()
		var id Identity
		if scope != "" {
			page, _ := c.Get(isPage).(bool)
			if id, err = s.auth.authenticate(c.Request(), page); err != nil {
				return unauthorized(err)
			}
			trust(c)
			s.renew(c, id)
			if s.o.Sandbox != nil {
				c.Response().Header().Set(api.SandboxHeader, s.o.Sandbox.Show().Header())
			}
			if !id.Can(scope) {
				return s.lacksScope(id, scope)
			}
		}
		return serve(c, id)
	}, with...)
}

// lacksScope refuses a request that the credential may not be used for, and records
// it if it would have changed something.
func (s *Server) lacksScope(id Identity, scope Scope) error {
	why := "this credential lacks the scope " + string(scope)
	if right := rights.Right(scope); slices.Contains(rights.All(), right) && s.o.Refused != nil {
		s.o.Refused(id.Actor(), right, why)
	}
	return problem(http.StatusForbidden, "forbidden", why, "add it to the credential's scopes under auth of the configuration, or use another")
}

// recovered logs a panic and returns it as an error.
func (s *Server) recovered(c echo.Context, v any) error {
	if v == http.ErrAbortHandler { //nolint:errorlint // net/http compares the same way
		panic(v)
	}
	s.metrics.panics.Inc()
	s.log.Error("request panicked", "route", c.Path(), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	if c.Response().Committed {
		panic(http.ErrAbortHandler) // the peer must not take half an answer for a whole one
	}
	return fmt.Errorf("panic: %v", v)
}

// fail answers err.
func (s *Server) fail(c echo.Context, scope Scope, err error) {
	p := problemOf(err)
	if p.status == http.StatusInternalServerError {
		s.log.Error("request failed", "route", c.Path(), "err", err)
	}
	if scope == ScopeIntake {
		s.metrics.notifications.WithLabelValues(resultOf(p)).Inc()
	}
	if unread(p) || errors.Is(err, errShed) {
		c.Response().Header().Set("Connection", "close") // or net/http would read the rest of the body first
	}
	s.answer(c, p)
}

// unread reports whether p is answered before the body was read whole.
func unread(p *Problem) bool {
	switch p.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return true
	default:
		return slices.Contains([]string{"slow", codeIssuer, codeQuota, codeMemory, codeDisk}, p.Code)
	}
}
