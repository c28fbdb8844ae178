package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/runview"
)

// Limits of the page of alerts.
const (
	pageAlerts = 50    // on one page
	readAlerts = 500   // looked at for one page
	skipAlerts = 10000 // before a page

	alertRuns   = 10 // of one alert
	otherAlerts = 10 // that its address selects, too

	alertsEach = 15 * time.Second // an open page shows what is new at most so often
)

// AlertSearch selects received alerts; zero fields select everything.
type AlertSearch struct {
	Episode string // its beginning, such as a fingerprint
	Firing  *bool
	NoRun   bool
	Skip    int // of those, as many are left out that were seen last
	Limit   int // alerts that are returned at most
}

// alertQuery is what a person searches for among alerts.
type alertQuery struct {
	Text   string // part of a label's value, or the beginning of a fingerprint
	Became string
	State  string // firing or resolved
	Skip   int    // alerts that newer pages looked at
}

// receivedList is one page of alerts, the most recently seen ones first.
type receivedList struct {
	alertQuery
	Alerts []api.ReceivedAlert
	Read   int    // alerts that were looked at for those
	Older  string // query of the next page; empty: there is none
	Newest string // query of the first page
}

// receivedData is one firing of one alert.
type receivedData struct {
	api.ReceivedAlert
	Runs    []row               // the newest first
	Silence string              // address of Alertmanager's form for a silence; empty: it is over, or not known
	Others  []api.ReceivedAlert // that the address selects, too
}

// noRun selects alerts that have no run, whatever the reason.
const noRun = "no run"

// becameChoices are what an alert may have become, in words.
func becameChoices() []string {
	return []string{noRun, "run", "joined", "no playbook", "no service", "paused", "suppressed", "released", "quarantined", "resolved"}
}

// The states of alerts.
const (
	stateFiring   = "firing"
	stateResolved = "resolved"
)

func (s *Site) alerts(w http.ResponseWriter, r *http.Request, v Visitor) error {
	values := r.URL.Query()
	if values.Has("alert") {
		return s.oneAlert(w, r, v, values.Get("alert"))
	}
	q, err := alertQueryOf(values)
	if err != nil {
		return err
	}
	p := s.frame(r, v, "Alerts", "alerts")
	p.Here = "?" + q.values(q.Skip).Encode()
	if q.Skip == 0 { // older pages stay as they are
		p.Tag, p.Live, p.Refresh = s.alertsTag(p), true, 30
	}
	if r.Method != http.MethodHead {
		if !s.inTurn(w, r, "the alerts", func() { p.Main = alertsView(p, s.alertsFound(q)) }) {
			return nil
		}
	}
	return s.write(w, r, http.StatusOK, p)
}

// alertsTag changes with the log, where what becomes of alerts is recorded, but at most once
// within alertsEach: while a thousand alerts arrive, no page is loaded again for each.
func (s *Site) alertsTag(p page) string {
	s.logged.mu.Lock()
	defer s.logged.mu.Unlock()
	if now := s.o.Now(); s.logged.at.IsZero() || now.Sub(s.logged.at) >= alertsEach || now.Before(s.logged.at) {
		s.logged.size, s.logged.at = s.o.Log.Size(), now
	}
	return tagOf(append(lines(p.Pauses), strconv.FormatUint(s.logged.size, 10))...)
}

// logSize is how many entries the log had a moment ago.
type logSize struct {
	mu   sync.Mutex // guards the fields below
	size uint64
	at   time.Time
}

func (s *Site) alertsFound(q alertQuery) *receivedList {
	search := AlertSearch{NoRun: q.Became == noRun, Skip: q.Skip, Limit: pageAlerts}
	if q.State != "" {
		firing := q.State == stateFiring
		search.Firing = &firing
	}
	if q.Text != "" || q.Became != "" && q.Became != noRun {
		search.Limit = readAlerts
	}
	list := s.o.Alerts(search)
	d := &receivedList{alertQuery: q, Newest: "?" + q.values(0).Encode()}
	for _, a := range list.Alerts {
		if len(d.Alerts) == pageAlerts {
			break
		}
		if d.Read++; q.passes(a) {
			d.Alerts = append(d.Alerts, a)
		}
	}
	if next := q.Skip + d.Read; (list.More || d.Read < len(list.Alerts)) && next <= skipAlerts {
		d.Older = "?" + q.values(next).Encode()
	}
	return d
}

// passes reports whether an alert is looked for. Case does not count.
func (q alertQuery) passes(a api.ReceivedAlert) bool {
	return (q.Became == "" || q.Became == noRun || q.Became == runview.BecameWord(a.Became)) && q.has(a)
}

func (q alertQuery) has(a api.ReceivedAlert) bool {
	part := strings.ToLower(q.Text)
	if strings.HasPrefix(strings.ToLower(a.Episode), part) {
		return true
	}
	for _, value := range a.Labels {
		if strings.Contains(strings.ToLower(value), part) {
			return true
		}
	}
	return false
}

// narrow reports whether the query leaves alerts out.
func (q alertQuery) narrow() bool { return q.Text+q.Became+q.State != "" }

// values returns the query as an address has it, for the page that so many alerts are before.
func (q alertQuery) values(skip int) url.Values {
	out := url.Values{}
	if skip > 0 {
		out.Set("skip", strconv.Itoa(skip))
	}
	for name, value := range map[string]string{"text": q.Text, "became": q.Became, "state": q.State} {
		if value != "" {
			out.Set(name, value)
		}
	}
	return out
}

// alertQueryOf reads what is searched for from an address.
func alertQueryOf(values url.Values) (alertQuery, error) {
	q := alertQuery{Became: values.Get("became"), State: values.Get("state")}
	var err error
	if q.Text, err = field(values, "text"); err != nil {
		return q, err
	}
	if skip := values.Get("skip"); skip != "" {
		if q.Skip, err = strconv.Atoi(skip); err != nil || q.Skip < 0 || q.Skip > skipAlerts {
			return q, fmt.Errorf("%w: skip: %.64q is no number from 0 to %d: follow the links Older and Newest, or search", ErrInvalid, skip, skipAlerts)
		}
	}
	for name, c := range map[string]struct {
		value string
		of    []string
	}{"became": {q.Became, becameChoices()}, "state": {q.State, []string{stateFiring, stateResolved}}} {
		if c.value != "" && !slices.Contains(c.of, c.value) {
			return q, fmt.Errorf("%w: %s: %.64q is none: it is one of %s", ErrInvalid, name, c.value, strings.Join(c.of, ", "))
		}
	}
	return q, nil
}

// oneAlert serves the newest of the firings whose name begins so.
func (s *Site) oneAlert(w http.ResponseWriter, r *http.Request, v Visitor, name string) error {
	search := AlertSearch{Episode: name, Limit: 1 + otherAlerts}
	if r.Method == http.MethodHead {
		search.Limit = 1
	}
	list := s.o.Alerts(search)
	if name == "" || len(list.Alerts) == 0 {
		return fmt.Errorf("%w: no alert %.64q is known. Those of the last 14 days that had a run are, and the most recent ones that had none: see Alerts", ErrNotFound, name)
	}
	d := &receivedData{ReceivedAlert: list.Alerts[0], Others: list.Alerts[1:]}
	p := s.frame(r, v, runview.AlertName(d.ReceivedAlert), "alerts")
	p.Here = alertAddress(p, name)
	p.Tag, p.Live, p.Refresh = s.alertsTag(p), true, 30
	if r.Method != http.MethodHead {
		d.Runs = s.runsOf(d.ReceivedAlert)
		if d.Firing && d.Entry > 0 {
			d.Silence = s.o.Links.newSilence(d.Entry, d.Labels)
		}
		p.Main = receivedView(p, d)
	}
	return s.write(w, r, http.StatusOK, p)
}

// runsOf returns the newest runs of an alert, the newest first. Of one that is not known any more
// there is only the ID.
func (s *Site) runsOf(a api.ReceivedAlert) (out []row) {
	for _, id := range slices.Backward(a.Runs) {
		if len(out) == alertRuns {
			break
		}
		r := row{ID: id}
		if run, ok := s.o.Runs.Run(id); ok {
			r = rowOf(&run)
		}
		out = append(out, r)
	}
	return out
}
