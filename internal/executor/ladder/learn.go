package ladder

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/audit"
)

// Stream is the journal's stream that the track record is the fold of.
const Stream = "ladder"

// What a caller of Named branches on. Test with errors.Is.
var (
	ErrNoRecord   = errors.New("no record of the lever")
	ErrAmbiguous  = errors.New("the name stands for several levers")
	ErrNotDemoted = errors.New("the lever is not demoted")
)

// nameError is one of these, told to people in full.
type nameError struct {
	kind error
	text string
}

func (e *nameError) Error() string { return e.text }
func (e *nameError) Unwrap() error { return e.kind }

// Additions are what a batch adds to the record of levers: it is appended with the
// batch and folded when that is durable.
type Additions struct {
	Results   []LeverResult
	Demotions []Demotion
	Observed  []ObservedEnd
	Resolved  []string // episodes that resolved
}

// Demotions are those that results ask for, on top of what is known.
func (t *TrackRecord) Demotions(results []LeverResult, at time.Time) []Demotion {
	if len(results) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Demotion
	after := map[LeverID]*leverRecord{}
	for _, r := range results {
		l := after[r.LeverID]
		if l == nil {
			l = &leverRecord{}
			if now := t.levers[r.LeverID]; now != nil {
				*l = *now
				l.last = slices.Clone(now.last)
			}
			after[r.LeverID] = l
		}
		l.add(r, at)
		if d, ok := l.demotion(r.LeverID, t.config); ok {
			l.demoted = &d
			out = append(out, d)
		}
	}
	return out
}

// Recover adds the observe-only outcomes of runs whose last alerts have resolved.
// actedBy returns another run that changed the service since then.
func (t *TrackRecord) Recover(l *Additions, now time.Time, actedBy func(service, except string, since time.Time) string) {
	l.Observed = append(l.Observed, t.recoveries(l.Resolved, now)...)
	for i := range l.Observed {
		if x := &l.Observed[i]; x.Recovered {
			x.Acted = actedBy(x.Service, x.Run, now.Add(-x.After))
		}
	}
}

// Records are what the additions bring to the stream.
func (l Additions) Records(now time.Time) []audit.Record {
	var out []audit.Record
	add := func(kind string, v any) { out = append(out, audit.Record{Kind: kind, Time: now, Data: encode(v)}) }
	for _, r := range l.Results {
		add(KindLeverResult, r)
	}
	for _, d := range l.Demotions {
		add(KindLeverDemoted, d)
	}
	for _, s := range l.Observed {
		add(KindObservedEnded, s)
	}
	return out
}

// Take folds additions that are durable.
func (t *TrackRecord) Take(l Additions, now time.Time) {
	for _, r := range l.Results {
		t.result(r, now)
	}
	for _, d := range l.Demotions {
		t.Demote(d)
	}
	t.resolved(l.Resolved, now)
	for _, s := range l.Observed {
		t.observedEnded(s)
	}
}

// Fold folds a record of the stream.
func (t *TrackRecord) Fold(rec audit.Record) error {
	switch rec.Kind {
	case KindLeverResult:
		r, err := decode[LeverResult](rec)
		if err != nil {
			return err
		}
		t.result(r, rec.Time)
	case KindLeverDemoted:
		d, err := decode[Demotion](rec)
		if err != nil {
			return err
		}
		d.At = rec.Time
		t.Demote(d)
	case KindLeverPromoted:
		p, err := decode[Promotion](rec)
		if err != nil {
			return err
		}
		t.Promote(p, rec.Time)
	case KindRearmed:
		t.Rearm()
	case KindObservedEnded:
		s, err := decode[ObservedEnd](rec)
		if err != nil {
			return err
		}
		t.observedEnded(s)
	}
	return nil
}

// Named finds the demoted levers that a person means: id.State is the name of a
// state or, where only one lever is of it, a kind.
func (t *TrackRecord) Named(id LeverID) ([]LeverID, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var byState, byKind []LeverID
	known := false
	for x, l := range t.levers {
		if x.Playbook != id.Playbook || x.Service != id.Service || (x.State != id.State && x.Lever != id.State) {
			continue
		}
		known = true
		switch {
		case l.demoted == nil:
		case x.State == id.State:
			byState = append(byState, x)
		default:
			byKind = append(byKind, x)
		}
	}
	switch what := fmt.Sprintf("lever %s of playbook %s on service %s", id.State, id.Playbook, id.Service); {
	case !known:
		return nil, &nameError{ErrNoRecord, "there is no record of " + what + "; 'responder ladder' lists them"}
	case len(byState) > 0:
		return byState, nil
	case len(byKind) == 1:
		return byKind, nil
	case len(byKind) > 1:
		var states []string
		for _, x := range byKind {
			states = append(states, x.State)
		}
		slices.Sort(states)
		return nil, &nameError{ErrAmbiguous, what + " stands for several; name one of the states " + strings.Join(states, ", ")}
	default:
		return nil, &nameError{ErrNotDemoted, what + " is not demoted; 'responder ladder -o wide' names what else limits it"}
	}
}

// encode is JSON of this package's own structs.
func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic("ladder: cannot encode: " + err.Error()) // unreachable unless a struct of this package holds NaN or a channel
	}
	return data
}

// decode reads one of this package's own records.
func decode[T any](r audit.Record) (T, error) {
	var v T
	if err := json.Unmarshal(r.Data, &v); err != nil {
		return v, fmt.Errorf("decode %s, entry %d of the journal: %w", r.Kind, r.Seq, err)
	}
	return v, nil
}
