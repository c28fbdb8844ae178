package trace

import (
	"fmt"
	"time"

	proto "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// The attributes that are set in several places.
const (
	attrAlert    = "responder.alertname"
	attrState    = "responder.state"
	attrStep     = "responder.step"
	attrAction   = "responder.action"
	attrAttempt  = "responder.attempt"
	attrVerdict  = "responder.verdict"
	attrReason   = "responder.reason"
	attrResult   = "responder.result"
	attrBy       = "responder.by"
	attrDecision = "responder.decision"
)

// fold makes the trace of a run that has ended from its events: the root span, then
// the others in the order in which they began. An event that is older than the one
// before it, because a clock was corrected, gets the time of that one. Events after the
// end are left out. It returns nil for a run that has not ended.
//
// The playbook is that of the run. Events that the machine does not accept make it
// panic, as in [machine.Evolve].
func fold(p *playbook.Playbook, events []machine.Event) []span {
	f := folding{state: machine.State{Playbook: p}}
	for _, e := range events {
		f.event(e)
		if e.Kind == machine.RunEnded {
			return f.finish()
		}
	}
	return nil
}

// folding is the state of fold. Spans are referred to by their index; -1 is none.
type folding struct {
	state  machine.State
	now    time.Time
	spans  []span
	keys   map[string]int // how often a key was used
	visit  int            // the state
	effect int            // the open effect
	gate   int            // the open question
	held   int
	proof  int // the latest verification of this visit
	alerts int // that belong to the run

	effectSpans map[string]int // by key
}

// event folds one event.
func (f *folding) event(e machine.Event) {
	if e.At.Before(f.now) {
		e.At = f.now
	}
	f.now = e.At
	before := f.state
	f.state = machine.Evolve(f.state, e)
	if e.Kind == machine.RunStarted {
		f.begin(e)
		return
	}
	f.effects(before, e)
	f.questions(before, e)
	f.holds(before, e)
	switch e.Kind {
	case machine.StateEntered:
		f.enter(e)
	case machine.EdgeTaken:
		if f.visit > 0 {
			f.spans[f.visit].set("responder.next", e.To)
		}
		f.close(&f.visit)
	case machine.RunEnded:
		f.ended(e)
	case machine.EpisodeJoined:
		f.alerts++
	case machine.PauseSeen, machine.PauseLifted, machine.CancelRequested:
		f.spans[0].happened(string(e.Kind), e.At, by(e.Decision)...)
	case machine.GuardsWaiting, machine.WaitEnded, machine.WouldApply, machine.NoticeShared:
		f.spans[f.here()].happened(string(e.Kind), e.At, by(e.Decision)...)
	case machine.Verified, machine.VerifyEnded, machine.Kept:
		f.judged(e)
	}
}

// here returns the span of the open state, else the root.
func (f *folding) here() int { return max(f.visit, 0) }

func (f *folding) open(parent int, key, name string) int {
	run := f.state.Start.Run
	if n := f.keys[key]; n > 0 {
		f.keys[key]++
		key = fmt.Sprintf("%s\x00%d", key, n+1)
	} else {
		f.keys[key] = 1
	}
	s := span{&proto.Span{
		TraceId: traceOf(run), SpanId: spanOf(run, key), Name: name, Kind: proto.Span_SPAN_KIND_INTERNAL, Flags: spanFlags, StartTimeUnixNano: nanos(f.now),
	}}
	if parent >= 0 {
		s.ParentSpanId = f.spans[parent].SpanId
	}
	s.set("responder.run", run)
	f.spans = append(f.spans, s)
	return len(f.spans) - 1
}

// close ends a span. finish ends the root.
func (f *folding) close(i *int) {
	if *i > 0 {
		f.end(*i)
	}
	*i = -1
}

func (f *folding) end(i int) {
	if s := f.spans[i]; s.EndTimeUnixNano == 0 {
		s.EndTimeUnixNano = nanos(f.now)
	}
}

func (f *folding) begin(e machine.Event) {
	f.keys, f.effectSpans = map[string]int{}, map[string]int{}
	f.visit, f.effect, f.gate, f.held, f.proof = -1, -1, -1, -1, -1
	st := e.Start
	s := f.spans[f.open(-1, rootKey, "run "+st.Playbook)]
	s.set("responder.playbook", st.Playbook)
	s.set("responder.service", st.Service.Name)
	s.set(attrAlert, st.Alert.Labels["alertname"])
	s.set("responder.autonomy", st.Autonomy.String())
	s.set("responder.loan", st.Loan)
	s.set(attrBy, st.By)
	s.set("k8s.namespace.name", st.Service.Namespace)
	switch w := st.Service.Workload; w.Kind {
	case "Deployment":
		s.set("k8s.deployment.name", w.Name)
	case "StatefulSet":
		s.set("k8s.statefulset.name", w.Name)
	}
	if st.DivertedFrom != "" {
		s.link(st.DivertedFrom, "diverted_from")
	}
	if !st.ByHand() {
		f.alerts = 1
	}
}

// enter opens the span of a state.
func (f *folding) enter(e machine.Event) {
	f.close(&f.visit)
	f.proof = -1
	f.visit = f.open(0, fmt.Sprintf("%s#%d", e.State, e.Visit), e.State)
	s := f.spans[f.visit]
	s.set(attrState, e.State)
	s.count("responder.visit", e.Visit)
	if st := f.playbookState(); st != nil {
		s.set("responder.state.kind", string(st.Kind))
		s.set(attrStep, st.Step)
	}
}

func (f *folding) playbookState() *playbook.State {
	if f.state.Playbook == nil || f.state.Current == "" {
		return nil
	}
	return f.state.Playbook.State(f.state.Current)
}

// judged records a verdict with the state and with the proof.
func (f *folding) judged(e machine.Event) {
	verdict := e.Verdict
	if e.Kind == machine.Verified {
		verdict = machine.VerdictVerified
	}
	for _, i := range []int{f.here(), f.proof} {
		if i <= 0 {
			continue
		}
		s := f.spans[i]
		s.set(attrVerdict, string(verdict))
		s.set("responder.consequence", string(e.Then))
		s.set(attrReason, string(e.Reason))
	}
}

// ended records how the run ended.
func (f *folding) ended(e machine.Event) {
	s := f.spans[0]
	s.count("responder.levers", f.state.Levers)
	s.count("responder.alerts", f.alerts)
	if e.Ending == nil {
		return
	}
	s.set("responder.outcome", string(e.Ending.Outcome))
	s.set(attrReason, string(e.Ending.Reason))
	if e.Ending.Outcome.WithPeople() {
		s.fail(e.Ending.Reason, string(e.Ending.Outcome))
	}
	if into := e.Ending.Into; into != "" {
		s.link(into, "diverted_into")
	}
}

// finish ends what is open at the end of the run.
func (f *folding) finish() []span {
	for i := range f.spans {
		f.end(i)
	}
	return f.spans
}
