//go:build e2e

package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// Entry is one entry of the responder's journal, as its API shows it.
type Entry struct {
	Seq    uint64          `json:"seq"`
	Time   time.Time       `json:"time"`
	Stream string          `json:"stream"`
	Kind   string          `json:"kind"`
	Data   json.RawMessage `json:"data"`
}

// Entries asks the service for its whole journal.
func (s *Service) Entries(ctx context.Context) ([]Entry, error) {
	var entries []Entry
	for next, more := uint64(0), true; more; {
		var page struct {
			Entries []Entry
			Next    uint64
			More    bool
		}
		if err := s.get(ctx, fmt.Sprintf("/api/v1/audit?limit=1000&from=%d", next), &page); err != nil {
			return nil, fmt.Errorf("read the journal: %w", err)
		}
		entries = append(entries, page.Entries...)
		next, more = page.Next, page.More
	}
	return entries, nil
}

// get asks the service's API as the person on call.
func (s *Service) get(ctx context.Context, path string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+oncallToken)
	resp, err := probe.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 512)) // only for the message
		return fmt.Errorf("%s: %s", resp.Status, body)
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}

// Run is one run as its journaled events tell it.
type Run struct {
	ID     string
	Start  machine.Start
	Events []machine.Event
	Ending *machine.Ending // nil: it has not ended
}

// Loan reports whether the run gives back what another one kept.
func (r *Run) Loan() bool { return r.Start.Loan != "" }

// RunsOf puts the runs together that a journal tells of, oldest first.
func RunsOf(entries []Entry) ([]*Run, error) {
	byID := map[string]*Run{}
	var runs []*Run
	for _, e := range entries {
		id, ok := strings.CutPrefix(e.Stream, "run/")
		if !ok {
			continue
		}
		var event machine.Event
		if err := json.Unmarshal(e.Data, &event); err != nil {
			return nil, fmt.Errorf("entry %d, %s: %w", e.Seq, e.Kind, err)
		}
		event.Kind = machine.EventKind(e.Kind)
		r := byID[id]
		if r == nil {
			r = &Run{ID: id}
			byID[id] = r
			runs = append(runs, r)
		}
		if event.Start != nil {
			r.Start = *event.Start
		}
		if event.Ending != nil {
			r.Ending = event.Ending
		}
		r.Events = append(r.Events, event)
	}
	return runs, nil
}

// Has counts the events of a kind.
func (r *Run) Has(kind machine.EventKind) int {
	n := 0
	for _, e := range r.Events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// Last is the newest event of a kind, the zero event when there is none.
func (r *Run) Last(kind machine.EventKind) machine.Event {
	for i := len(r.Events) - 1; i >= 0; i-- {
		if r.Events[i].Kind == kind {
			return r.Events[i]
		}
	}
	return machine.Event{}
}

// String returns the run for a test's message, an event a line.
func (r *Run) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "run %s of %s\n", r.ID, r.Start.Service.Name)
	for _, e := range r.Events {
		fmt.Fprintf(&out, "  %s %-20s %s %s", e.At.Format("05.000"), e.Kind, e.State, e.Action)
		if e.To != "" {
			fmt.Fprintf(&out, " -> %s", e.To)
		}
		if e.Reason != "" || e.Message != "" {
			fmt.Fprintf(&out, " %s: %s", e.Reason, e.Message)
		}
		for _, g := range e.Guards {
			if !g.OK {
				fmt.Fprintf(&out, " %s: %s", g.Guard, g.Why)
			}
		}
		if e.Sample != nil {
			fmt.Fprintf(&out, " %s %s %s", e.Sample.Verdict, e.Sample.Reason, e.Sample.Message)
		}
		if e.Ending != nil {
			fmt.Fprintf(&out, " %s %s: %s", e.Ending.Outcome, e.Ending.Reason, e.Ending.Message)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// AwaitRun waits until the only run of the service is as the test wants it,
// and fails when a second one appears. Loans are not counted.
func (s *Service) AwaitRun(t testing.TB, limit time.Duration, what string, wanted func(*Run) bool) *Run {
	t.Helper()
	var found *Run
	Await(t, limit, what, func(ctx context.Context) (bool, string) {
		entries, err := s.Entries(ctx)
		if err != nil {
			return false, err.Error()
		}
		runs, err := RunsOf(entries)
		if err != nil {
			return false, err.Error()
		}
		runs = slices.DeleteFunc(runs, (*Run).Loan)
		switch len(runs) {
		case 0:
			return false, "no run; " + decisions(entries)
		case 1:
			found = runs[0]
			return wanted(found), found.String()
		default:
			t.Fatalf("%d runs; want one:\n%v", len(runs), runs)
			return false, ""
		}
	})
	return found
}

// AwaitEnd waits until the only run has ended in that way.
func (s *Service) AwaitEnd(t testing.TB, limit time.Duration, outcome machine.RunOutcome) *Run {
	t.Helper()
	r := s.AwaitRun(t, limit, "end of the run", func(r *Run) bool { return r.Ending != nil })
	if r.Ending.Outcome != outcome {
		t.Fatalf("the run ended %s; want %s\n%s", r.Ending.Outcome, outcome, r)
	}
	return r
}

// decisions lists what became of the alerts so far.
func decisions(entries []Entry) string {
	var out []string
	for _, e := range entries {
		if e.Stream == "dispatch" || e.Stream == "control" {
			out = append(out, e.Kind+" "+string(e.Data))
		}
	}
	return strings.Join(out, "\n")
}
