package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/runview"
)

// Limits of the page of alerts.
const (
	pageAlerts = 50  // on one page
	readAlerts = 500 // looked at for one page
	alertRuns  = 10  // of one alert
)

// AlertSearch selects received alerts; zero fields select everything.
type AlertSearch struct {
	Episode string // its beginning, such as a fingerprint
	Firing  *bool
	NoRun   bool
	Limit   int // alerts that are returned at most
}

// alertQuery is what a person searches for among alerts.
type alertQuery struct {
	Text   string // part of a label's value, or the beginning of a fingerprint
	Became string
	State  string // firing or resolved
}

// receivedList is one page of alerts, the most recently mentioned ones first.
type receivedList struct {
	alertQuery
	Alerts []api.ReceivedAlert
	Read   int
	More   bool // older ones were not looked at, or not shown
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
	p.Here = "?" + q.values().Encode()
	p.Tag, p.Live, p.Refresh = s.alertsTag(p), true, 30
	if r.Method != http.MethodHead {
		if !s.inTurn(w, r, "the alerts", func() { p.Main = alertsView(p, s.alertsFound(q)) }) {
			return nil
		}
	}
	return s.write(w, r, http.StatusOK, p)
}

// alertsTag changes with every entry of the log: what becomes of alerts is recorded there.
func (s *Site) alertsTag(p page) string {
	return tagOf(append(lines(p.Pauses), strconv.FormatUint(s.o.Log.Size(), 10))...)
}

func (s *Site) alertsFound(q alertQuery) *receivedList {
	search := AlertSearch{NoRun: q.Became == noRun, Limit: pageAlerts}
	if q.State != "" {
		firing := q.State == stateFiring
		search.Firing = &firing
	}
	if q.Text != "" || q.Became != "" && q.Became != noRun {
		search.Limit = readAlerts
	}
	list := s.o.Alerts(search)
	d := &receivedList{alertQuery: q, Read: len(list.Alerts), More: list.More}
	for _, a := range list.Alerts {
		switch {
		case !q.passes(a):
		case len(d.Alerts) == pageAlerts:
			d.More = true
		default:
			d.Alerts = append(d.Alerts, a)
		}
	}
	return d
}

// passes reports whether an alert is looked for. Case does not count.
func (q alertQuery) passes(a api.ReceivedAlert) bool {
	return (q.Became == "" || q.Became == noRun || q.Became == runview.BecameWord(a.Became)) && q.has(a)
}

func (q alertQuery) has(a api.ReceivedAlert) bool {
	part := strings.ToLower(q.Text)
	if strings.HasPrefix(a.Episode, part) {
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
func (q alertQuery) narrow() bool { return q != alertQuery{} }

// values returns the query as an address has it.
func (q alertQuery) values() url.Values {
	out := url.Values{}
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
	list := s.o.Alerts(AlertSearch{Episode: name, Limit: pageAlerts})
	if name == "" || len(list.Alerts) == 0 {
		return fmt.Errorf("%w: no alert %.64q is known: Alerts lists those that are", ErrNotFound, name)
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
