package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rights"
	"github.com/inference-responder/responder/internal/runview"
)

// Limits of the pages of services.
const (
	pageServices = 50
	lastRuns     = 10 // of one service
)

// Applied is what a playbook may do for a service.
type Applied struct {
	Playbook string
	Mode     string // in two words: acts, asks first, only observes, paused, cannot act
	Tone     string // good, wait or bad, as of runs; empty: none
	Why      string // it does no more than that
	Levers   []LeverStanding
}

// LeverStanding is how far a lever may go on a service.
type LeverStanding struct {
	State, Kind       string
	Level, HeldBy     string // and what holds it there; empty: nothing
	Tried, OK, Failed int
	Next              string // what the next level needs; empty: there is none
}

// Budget is what is left of the error budget of an objective.
type Budget struct {
	Objective string
	Value     string        // of the label by which the objective is judged; empty: none
	Left      float64       // share: 1 is all of it, negative is overspent; NaN: unknown
	Burn      float64       // of the last hour, in multiples of what the objective allows; NaN: unknown
	Lasts     time.Duration // at that burn rate; 0: longer than the window, or unknown
	Why       string        // Left is unknown; empty: it is known
}

// servicesData is one page of the catalog.
type servicesData struct {
	Name      string // part of it that is looked for
	Rows      []serviceRow
	All       int
	Page      int // from 1
	Pages     int
	Doubt     string // why services may be missing
	Prev, Nxt string
}

type serviceRow struct {
	playbook.Service
	Arming      runview.Arming
	Open, Waits int
}

// serviceData is one service.
type serviceData struct {
	playbook.Service
	Arming  runview.Arming
	Applied []Applied
	Budgets []Budget
	Open    []row // runs that have not ended
	Last    []row // that ended
	Read    int   // runs that were looked at for them
	Pauses  []Pause
	Doubt   string
	Lacks   string // why the visitor may not pause it; empty: they may
}

func (s *Site) services(w http.ResponseWriter, r *http.Request, v Visitor) error {
	values := r.URL.Query()
	if values.Has("service") {
		return s.oneService(w, r, v, values.Get("service"))
	}
	part, err := field(values, "name")
	if err != nil {
		return err
	}
	number, err := pageOf(values.Get("page"))
	if err != nil {
		return err
	}
	p := s.frame(r, v, "Services", "services")
	p.Here = "?" + r.URL.RawQuery
	changes := s.changes()
	d, found, err := s.servicesFound(part, number)
	if err != nil {
		return err
	}
	p.Tag, p.Live, p.Refresh = tagOf(append(lines(p.Pauses), changes, fmt.Sprint(d.All, d.Doubt != ""))...), true, 30
	if r.Method != http.MethodHead {
		d.Rows = s.serviceRows(found, number)
		p.Main = servicesView(p, d)
	}
	return s.write(w, r, http.StatusOK, p)
}

// pageOf reads the number of a page.
func pageOf(text string) (int, error) {
	if text == "" {
		return 1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%w: page: %.64q is no number of a page: pages are counted from 1", ErrInvalid, text)
	}
	return n, nil
}

// servicesFound returns what is known of a page without its runs, and the services that
// are looked for.
func (s *Site) servicesFound(part string, number int) (*servicesData, []playbook.Service, error) {
	all, err := s.o.Services()
	d := &servicesData{Name: part, Page: number}
	if err != nil {
		d.Doubt = err.Error()
	}
	if part != "" {
		all = slices.DeleteFunc(slices.Clone(all), func(svc playbook.Service) bool {
			return !strings.Contains(strings.ToLower(svc.Name), strings.ToLower(part))
		})
	}
	d.All, d.Pages = len(all), max(1, (len(all)+pageServices-1)/pageServices)
	if number > d.Pages {
		return nil, nil, fmt.Errorf("%w: page: there is no page %d: the last is %d", ErrInvalid, number, d.Pages)
	}
	return d, all, nil
}

// serviceRows returns the rows of a page, those first for which people are waited for, then
// those with most open runs.
func (s *Site) serviceRows(all []playbook.Service, number int) []serviceRow {
	type count struct{ open, waits int }
	counts := map[string]count{}
	for run := range s.o.Runs.Open() {
		c := counts[run.Start.Service.Name]
		c.open++
		if place, _, _ := waits(run); place != "" {
			c.waits++
		}
		counts[run.Start.Service.Name] = c
	}
	order := make([]*playbook.Service, len(all))
	for i := range all {
		order[i] = &all[i]
	}
	slices.SortStableFunc(order, func(a, b *playbook.Service) int {
		x, y := counts[a.Name], counts[b.Name]
		return cmp.Or(y.waits-x.waits, y.open-x.open)
	})
	var out []serviceRow
	arming := s.o.Arming()
	for _, svc := range order[(number-1)*pageServices : min(number*pageServices, len(order))] {
		c := counts[svc.Name]
		out = append(out, serviceRow{Service: *svc, Arming: arming(*svc), Open: c.open, Waits: c.waits})
	}
	return out
}

// service returns a service of the catalog; false: it has none of that name. doubt is why
// services may be missing.
func (s *Site) service(name string) (_ playbook.Service, ok bool, doubt error) {
	all, doubt := s.o.Services()
	i := slices.IndexFunc(all, func(x playbook.Service) bool { return x.Name == name })
	if i < 0 {
		return playbook.Service{}, false, doubt
	}
	return all[i], true, doubt
}

func (s *Site) oneService(w http.ResponseWriter, r *http.Request, v Visitor, name string) error {
	svc, ok, doubt := s.service(name)
	switch {
	case !ok && doubt != nil:
		return fmt.Errorf("%w: whether the catalog has service %.64q is not known: %w", ErrNotFound, name, doubt)
	case !ok:
		return fmt.Errorf("%w: the catalog has no service %.64q: Services lists those that it has", ErrNotFound, name)
	}
	var open []*machine.State
	for run := range s.o.Runs.Open() {
		if run.Start.Service.Name == name {
			open = append(open, run)
		}
	}
	slices.SortFunc(open, newestFirst)
	p := s.frame(r, v, name, "services")
	p.Here = serviceAddress(p, name)
	parts := lines(p.Pauses)
	for _, run := range open {
		parts = append(parts, changesOf(run))
	}
	p.Tag, p.Live, p.Refresh = tagOf(parts...), true, 30
	if r.Method != http.MethodHead {
		p.Main = serviceView(p, s.serviceData(r, v, svc, open, doubt))
	}
	return s.write(w, r, http.StatusOK, p)
}

func (s *Site) serviceData(r *http.Request, v Visitor, svc playbook.Service, open []*machine.State, doubt error) *serviceData {
	d := &serviceData{Service: svc, Arming: s.o.Arming()(svc), Applied: s.o.Applies(svc), Budgets: s.o.Budgets(r.Context(), svc), Lacks: v.lacksOf(rights.Pause, svc)}
	if doubt != nil {
		d.Doubt = doubt.Error()
	}
	for _, x := range s.o.Pauses() {
		if x.Service == svc.Name {
			d.Pauses = append(d.Pauses, x)
		}
	}
	for _, run := range open[:min(len(open), maxShown)] {
		d.Open = append(d.Open, rowOf(run))
	}
	found := s.o.Runs.Search(Search{Limit: lastRuns, Read: readRuns, Passes: func(run machine.State) bool {
		return run.Start.Service.Name == svc.Name && run.Phase == machine.PhaseEnded
	}})
	d.Read = found.Read
	for i := range found.Runs {
		d.Last = append(d.Last, rowOf(&found.Runs[i]))
	}
	return d
}
