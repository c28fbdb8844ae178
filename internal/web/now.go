package web

import (
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rights"
)

// maxShown is how many runs each part of the start page shows.
const maxShown = 50

// Pause keeps runs from acting. Without a service and a playbook it is for everything.
type Pause struct {
	Scope             string // in words: global, intake, service:NAME or playbook:NAME
	Service, Playbook string
	Intake            bool // notifications are refused
	By, Reason        string
	Since             time.Time
}

func (p Pause) String() string {
	return fmt.Sprintf("%s by %s since %s: %s", p.Scope, p.By, stamp(p.Since), p.Reason)
}

func lines(pauses []Pause) []string {
	var out []string
	for _, p := range pauses {
		out = append(out, p.String())
	}
	return out
}

// Health is what is known of one thing that the service depends on.
type Health struct {
	Name  string
	State HealthState
	Text  string
}

// HealthState is how something is, as far as is known.
type HealthState string

// The states of health.
const (
	Healthy       HealthState = "good"
	Failing       HealthState = "failing"
	Unknown       HealthState = "unknown" // it was not asked, or not lately
	NotConfigured HealthState = "not configured"
)

// nowData is what one look must show at night.
type nowData struct {
	Waiting, Working, Loans []row // the first of each, most urgent first
	Waits, Works, Owed      int
	Pauses                  []Pause
	Health                  []Health
	Fleet                   fleetBurn
	Lacks                   func(rights.Right, string) string // why the visitor lacks a right about a service; empty: they have it
}

func (s *Site) now(w http.ResponseWriter, r *http.Request, v Visitor) error {
	health := s.o.Health()
	p := s.frame(r, v, "Now", "")
	pauses := p.Pauses
	p.Tag, p.Live, p.Refresh, p.Pauses = tagOf(append(lines(pauses), s.changes(), healthTag(health), s.o.FleetRead().String())...), true, 30, nil
	if r.Method != http.MethodHead {
		d := nowOf(s.o.Runs.Open())
		d.Pauses, d.Health, d.Lacks, d.Fleet = pauses, health, s.lacksAbout(v), burningOf(s.o.Fleet(r.Context()))
		if d.Waits > 0 {
			p.Title = fmt.Sprintf("(%d) Now", d.Waits)
		}
		p.Main = nowView(p, d)
	}
	return s.write(w, r, http.StatusOK, p)
}

// healthTag changes when the state of something does. Texts may change with every look.
func healthTag(all []Health) string {
	var out string
	for _, x := range all {
		out += x.Name + " " + string(x.State) + "\n"
	}
	return out
}

// nowOf looks at every open run, and describes only those that are shown.
func nowOf(open iter.Seq[*machine.State]) *nowData {
	waiting, working, loans := first{order: urgent}, first{order: newestFirst}, first{order: newestFirst}
	for run := range open {
		switch place, _, _ := waits(run); {
		case place != "":
			waiting.add(run)
		case run.Start.Loan != "" && run.Start.Alert.Labels["change"] != "":
			loans.add(run)
		default:
			working.add(run)
		}
	}
	return &nowData{
		Waiting: waiting.rows(), Working: working.rows(), Loans: loans.rows(),
		Waits: waiting.all, Works: working.all, Owed: loans.all,
	}
}

// lacksAbout returns why a visitor may not do something about a service, by its name, or
// about everything; empty: they may.
func (s *Site) lacksAbout(v Visitor) func(rights.Right, string) string {
	return func(right rights.Right, name string) string {
		about := playbook.Service{Name: name}
		if svc, ok, _ := s.service(name); ok { // of one that is not known nobody is the owner
			about = svc
		}
		return v.lacksOf(right, about)
	}
}

// lacksOf returns why the visitor lacks a right about a service; empty: they have it.
func (v Visitor) lacksOf(right rights.Right, service playbook.Service) string {
	if v.Lacks == nil {
		return "Your credential is read-only."
	}
	if why := v.Lacks(right, service); why != "" {
		return why + "."
	}
	return ""
}
