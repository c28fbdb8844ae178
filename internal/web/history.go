package web

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// Limits of the lists of runs.
const (
	pageRuns = 50  // on one page
	readRuns = 500 // looked at for one page
)

// query is what a person searches for.
type query struct {
	Service, Playbook, Outcome, Text string
	Before                           string
}

// historyData is one page of runs, newest first.
type historyData struct {
	query
	Rows   []row
	Read   int
	Older  string // query of the next page; empty: there is none
	Newest string // query of the first page
}

func (s *Site) history(w http.ResponseWriter, r *http.Request, v Visitor) error {
	q, err := queryOf(r.URL.Query())
	if err != nil {
		return err
	}
	p := s.frame(r, v, "History", "history")
	p.Here = "?" + q.values(q.Before).Encode()
	if q.Before == "" { // older pages stay as they are
		p.Tag, p.Live, p.Refresh = tagOf(append(lines(p.Pauses), s.changes())...), true, 30
	}
	if r.Method != http.MethodHead {
		p.Main = historyView(p, s.search(q))
	}
	return s.write(w, r, http.StatusOK, p)
}

func (s *Site) search(q query) *historyData {
	found := s.o.Runs.Search(Search{Passes: q.passes, Text: q.Text, Before: q.Before, Limit: pageRuns, Read: readRuns})
	d := &historyData{query: q, Read: found.Read}
	for i := range found.Runs {
		d.Rows = append(d.Rows, rowOf(&found.Runs[i]))
	}
	if found.Next != "" {
		d.Older = "?" + q.values(found.Next).Encode()
	}
	d.Newest = "?" + q.values("").Encode()
	return d
}

// passes reports whether a run is looked for. Case does not count.
func (q query) passes(run machine.State) bool {
	has := func(s, part string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(part)) }
	return has(run.Start.Service.Name, q.Service) && has(run.Start.Playbook, q.Playbook) && stands(run, q.Outcome)
}

// narrow reports whether the query leaves runs out.
func (q query) narrow() bool { return q.Service+q.Playbook+q.Outcome+q.Text != "" }

// values returns the query as an address has it.
func (q query) values(before string) url.Values {
	out := url.Values{}
	for name, value := range map[string]string{"service": q.Service, "playbook": q.Playbook, "outcome": q.Outcome, "run": q.Text, "before": before} {
		if value != "" {
			out.Set(name, value)
		}
	}
	return out
}

// someRun matches the name of a run, and what could be one.
var someRun = regexp.MustCompile(`^r-[0-9A-Za-z-]{1,64}$`)

// queryOf reads what is searched for from an address.
func queryOf(values url.Values) (query, error) {
	q := query{Before: values.Get("before")}
	var err error
	for _, f := range []struct {
		name string
		to   *string
	}{{"service", &q.Service}, {"playbook", &q.Playbook}, {"outcome", &q.Outcome}, {"run", &q.Text}} {
		if *f.to, err = field(values, f.name); err != nil {
			return q, err
		}
	}
	switch {
	case q.Outcome != "" && !slices.Contains(standings(), q.Outcome):
		return q, fmt.Errorf("%w: outcome: %.64q is none: it is one of %s", ErrInvalid, q.Outcome, strings.Join(standings(), ", "))
	case q.Before != "" && !someRun.MatchString(q.Before):
		return q, fmt.Errorf("%w: before: %.64q is not the name of a run: follow the links Older and Newest", ErrInvalid, q.Before)
	}
	return q, nil
}

// field reads a short text from an address.
func field(values url.Values, name string) (string, error) {
	value := strings.TrimSpace(values.Get(name))
	if n := utf8.RuneCountInString(value); n > maxLine {
		return "", fmt.Errorf("%w: %s: %d characters are too many: at most %d", ErrInvalid, name, n, maxLine)
	}
	return value, nil
}
