package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	g "maragu.dev/gomponents"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rights"
	"github.com/inference-responder/responder/internal/runview"
)

//go:embed assets
var assets embed.FS

// Why a page is not shown. Other errors are internal.
var (
	ErrNotFound = errors.New("not found")       // a page, run, service or playbook does not exist
	ErrInvalid  = errors.New("invalid request") // the address asks for what cannot be
)

// Runs reads runs. Its results are not modified afterwards.
type Runs interface {
	// Changes counts what happens to runs. As long as it stays the same, so do the answers
	// of Open and Search that were asked for after it. It never returns to an earlier number.
	Changes() uint64
	// Open yields every run that has not ended, in no order.
	Open() iter.Seq[*machine.State]
	// Search looks through all runs, newest first.
	Search(q Search) Found
	// Run returns one run; false if it does not exist.
	Run(id string) (machine.State, bool)
	// Events returns a run's events from an index on; the first event is 0.
	Events(id string, from uint64) ([]machine.Event, error)
}

// Search selects runs, open and ended.
type Search struct {
	Passes func(machine.State) bool
	Text   string // part of the ID; empty: any
	Before string // ID; only runs that began before it; empty: all
	Limit  int    // runs that are returned at most
	Read   int    // runs that are looked at, at most
}

// Found is the answer of a search. Next is the Before with which it goes on; empty: no
// older run is left.
type Found struct {
	Runs []machine.State
	Read int
	Next string
}

// Log is the journal.
type Log interface {
	// Size returns the number of entries.
	Size() uint64
	// Entries yields the entries from a sequence number on, ascending. Those of other kinds
	// have neither By nor What.
	Entries(from uint64, kinds func(kind string) bool) iter.Seq2[Entry, error]
	// Stream yields the entries of a stream from an index on, ascending; the first is 0.
	Stream(stream string, from uint64, kinds func(kind string) bool) iter.Seq2[Entry, error]
	// Positions returns the sequence numbers of all of them.
	Positions(stream string) ([]uint64, error)
	// Leaf returns the hash of an entry in the Merkle tree, as text.
	Leaf(seq uint64) (string, error)
	// Checkpoint returns the newest signed checkpoint; empty if there is none.
	Checkpoint() ([]byte, error)
	// Verify checks every entry, until ctx is done, and calls progress now and then.
	Verify(ctx context.Context, progress func(done, total uint64)) (Verification, error)
}

// Entry is one entry of the journal, on one line.
type Entry struct {
	Seq    uint64
	Time   time.Time // zero: it is archived
	Stream string
	Kind   string
	By     string // the person; empty: nobody is named
	What   string
	Bytes  int // that it takes to read it
}

// archived reports whether only the entry's place is known.
func (e Entry) archived() bool { return e.Time.IsZero() }

// Table is a page that is one table.
type Table struct {
	*runview.Table
	Notes []string // below it
}

// TablePage is where a table is shown.
type TablePage struct {
	Path  string // e.g. ladder
	Title string
	Table func() (Table, error)
}

// Options configure a Site. All but Tables, Curve, Links and Simulated are required.
type Options struct {
	Runs   Runs
	Log    Log
	Tables []TablePage    // further pages, in the order of the navigation
	Pauses func() []Pause // in force now
	Health func() []Health

	Services  func() ([]playbook.Service, error) // the error tells people why some may be missing
	Playbooks func() *playbook.Set
	// Nodes returns the nodes of services, and those that were taken out, within seconds.
	Nodes func(context.Context) runview.NodePage
	// Alerts returns alerts that were received, those first that were mentioned last.
	Alerts func(AlertSearch) api.AlertList
	// Tests returns what the tests of a playbook cover, by its digest; false: none are known.
	Tests func(digest string) (Tested, bool)
	// Applies returns what each playbook may do for a service, in the order of their names.
	Applies func(playbook.Service) []Applied
	// Arming returns what tells whether Responder can act on a service, as it is now.
	Arming func() func(playbook.Service) runview.Arming
	// Budgets returns what is left of the error budget of each objective of a service, within
	// seconds.
	Budgets func(context.Context, playbook.Service) []Budget

	// Fleet returns what is left of the error budget of each objective of every service,
	// as far as it was read, at once. The error tells people why services may be missing.
	Fleet func(context.Context) ([]ServiceBudget, error)
	// FleetRead returns when Fleet's budgets were read last.
	FleetRead func() time.Time

	// Curve returns the burn rate around a run, within seconds. Its error tells people
	// why there is none. Nil: there are none.
	Curve func(ctx context.Context, run machine.State) (Curve, error)

	Links Links

	// Simulated tells people on every page that nothing of a moment is real. Nil: it is real.
	Simulated func(at time.Time) string

	Now    func() time.Time
	Logger *slog.Logger
}

// Visitor is the person who views a page.
type Visitor struct {
	Name   string
	Groups []string // as in approval rules, without the prefix group:
	Strong bool     // the credential proves strong authentication
	Person bool     // the configuration declares whose credential it is

	SignedIn bool // on the page, where they can sign out

	// Lacks returns why the visitor does not have a right about a service; empty: they
	// have it. Nil: they have none.
	Lacks func(rights.Right, playbook.Service) string
}

// lacks returns why the visitor may not do something about a run; empty: they may.
func (v Visitor) lacks(right rights.Right, run machine.State) string {
	if v.Lacks == nil {
		return "Your credential is read-only."
	}
	why := v.Lacks(right, run.Start.Service)
	if right == rights.Approve {
		why = ""
		if _, err := v.lacking(run); err != nil {
			why = err.Error()
		}
	}
	if why != "" {
		return why + "."
	}
	return ""
}

// lacking returns the services that the run's lever acts on and about which the visitor
// lacks the right to approve. The error is set if those are all of them.
func (v Visitor) lacking(run machine.State) ([]string, error) {
	return run.Lacks(func(svc playbook.Service) error {
		if v.Lacks == nil {
			return nil // says lacks
		}
		if why := v.Lacks(rights.Approve, svc); why != "" {
			return errors.New(why)
		}
		return nil
	})
}

// decision returns the visitor's decision.
func (v Visitor) decision(approve bool) machine.Decision {
	return machine.Decision{Approve: approve, By: v.by(), Groups: v.Groups, Channel: "web", Strong: v.Strong, Person: v.Person}
}

func (v Visitor) by() string { return "user:" + v.Name }

// Site serves the pages. It is safe for concurrent use.
type Site struct {
	o      Options
	policy string // Content-Security-Policy
	css    string
	clocks string        // the script of every page
	live   string        // the script of a page that can still change
	turns  chan struct{} // one for each page that reads the log now

	verifying verifying
	logged    logSize
}

// New returns a site. It refuses incomplete options.
func New(o Options) (*Site, error) {
	if o.Runs == nil || o.Log == nil || o.Pauses == nil || o.Health == nil || o.Services == nil || o.Nodes == nil || o.Alerts == nil || o.Playbooks == nil || o.Tests == nil || o.Applies == nil || o.Arming == nil || o.Budgets == nil || o.Fleet == nil || o.FleetRead == nil || o.Now == nil || o.Logger == nil {
		return nil, errors.New("web: an option is missing")
	}
	style, err := assets.ReadFile("assets/style.css")
	if err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	clocks, err := assets.ReadFile("assets/clocks.js")
	if err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	live, err := assets.ReadFile("assets/live.js")
	if err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	policy := "default-src 'none'; style-src " + hashSource(style) + "; script-src " + hashSource(clocks) + " " + hashSource(live) +
		"; connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	return &Site{o: o, policy: policy, css: string(style), clocks: string(clocks), live: string(live), turns: make(chan struct{}, pagesAtOnce)}, nil
}

// hashSource returns the source of an inline style or script for a
// Content-Security-Policy.
func hashSource(text []byte) string {
	sum := sha256.Sum256(text)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// page is what the layout shows around the content of a page.
type page struct {
	Title   string
	Root    string // of the site, relative to the page, which also works behind a proxy that adds a prefix
	At      string // the page's part of the navigation
	Name    string // name of the visitor; empty: unknown
	Session bool   // that ends: the visitor signed in
	Parts   []part
	Pauses  []Pause // shown at the top
	Fiction string  // why nothing on the page is real; empty: it is
	Tag     string  // changes with the content of the page
	Live    bool    // it can still change: a script checks the tag
	Refresh int     // seconds until a browser without scripts reloads it; 0: never
	Here    string  // the page's own address, without a result code
	Now     time.Time
	Asks    bool   // a bar at its end has what a person is asked
	Main    g.Node // the page's content; nil if only the headers are requested
}

type part struct{ Path, Name string }

// Page answers GET or HEAD of a page. If there is no such page, it writes
// nothing and returns [ErrNotFound].
func (s *Site) Page(w http.ResponseWriter, r *http.Request, v Visitor) error {
	path := r.URL.Path
	switch id, isRun := strings.CutPrefix(path, "/runs/"); {
	case isRun && !strings.Contains(id, "/"):
		return s.run(w, r, v, id)
	case path == "/":
		return s.now(w, r, v)
	case path == "/history":
		return s.history(w, r, v)
	case path == "/services":
		return s.services(w, r, v)
	case path == "/nodes":
		return s.nodes(w, r, v)
	case path == "/playbooks":
		return s.playbooks(w, r, v)
	case path == "/alerts":
		return s.alerts(w, r, v)
	case path == "/audit":
		return s.audit(w, r, v)
	}
	if i := slices.IndexFunc(s.o.Tables, func(t TablePage) bool { return path == "/"+t.Path }); i >= 0 {
		return s.table(w, r, v, s.o.Tables[i])
	}
	return ErrNotFound
}

// frame fills in what is around a page.
func (s *Site) frame(r *http.Request, v Visitor, title, at string) page {
	p := page{
		Title: title, At: at, Name: v.Name, Session: v.SignedIn, Root: root(r.URL.Path), Here: "?", Now: s.o.Now().UTC(),
		Parts: []part{{"", "Now"}, {"history", "History"}, {"services", "Services"}, {"nodes", "Nodes"}, {"playbooks", "Playbooks"}, {"alerts", "Alerts"}},
	}
	p.Fiction = s.fiction(p.Now)
	for _, t := range s.o.Tables {
		p.Parts = append(p.Parts, part{t.Path, t.Title})
	}
	p.Parts = append(p.Parts, part{"audit", "Audit"})
	if v.Name != "" {
		p.Pauses = s.o.Pauses()
	}
	return p
}

// fiction is why nothing of a moment is real; empty: it is.
func (s *Site) fiction(at time.Time) string {
	if s.o.Simulated == nil {
		return ""
	}
	return s.o.Simulated(at)
}

// root returns the relative path to the site's first page.
func root(path string) string {
	if n := strings.Count(path, "/"); n > 1 {
		return strings.Repeat("../", n-1)
	}
	return "./"
}

// write renders a page completely before it sends the first byte.
func (s *Site) write(w http.ResponseWriter, r *http.Request, status int, p page) error {
	s.secure(w.Header())
	if p.Tag != "" {
		w.Header().Set("ETag", `W/"`+p.Tag+`"`)
	}
	if r.Method == http.MethodHead {
		w.WriteHeader(status)
		return nil
	}
	var out bytes.Buffer
	if err := s.layout(p).Render(&out); err != nil {
		return fmt.Errorf("render page %q: %w", p.Title, err)
	}
	w.WriteHeader(status)
	if _, err := w.Write(bytes.Map(runview.Visible, out.Bytes())); err != nil {
		s.o.Logger.Debug("page not delivered", "route", r.URL.Path, "err", err)
	}
	return nil
}

// secure sets the headers of every page. Referrers go only to pages of this
// service. With no-referrer, browsers would also send Origin: null with our own
// forms.
func (s *Site) secure(h http.Header) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", s.policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// Problem is why a page cannot be shown.
type Problem struct {
	Status  int
	Message string
	Hint    string
}

// nowhere is the part of the navigation of a page that belongs to none.
const nowhere = "-"

// Problem answers with a page that describes p.
func (s *Site) Problem(w http.ResponseWriter, r *http.Request, p Problem) {
	f := s.frame(r, Visitor{}, http.StatusText(p.Status), nowhere)
	f.Main = problemView(f, p)
	if err := s.write(w, r, p.Status, f); err != nil {
		s.o.Logger.Error("page failed", "route", r.URL.Path, "err", err)
		http.Error(w, p.Message, p.Status)
	}
}
