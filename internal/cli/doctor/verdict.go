package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
)

// State is what a playbook can do for a service.
type State string

// The states of playbooks.
const (
	Armed    State = "armed"    // it can act, and prove that it helped
	Disarmed State = "disarmed" // it cannot
	Observes State = "observes" // it may only observe
)

// Verdict is what a playbook can do for a service, as far as was asked.
type Verdict struct {
	Playbook string   `json:"playbook"`
	Service  string   `json:"service"`
	State    State    `json:"state"`
	Why      string   `json:"why,omitempty"`     // why it is disarmed
	Without  []Barred `json:"without,omitempty"` // checks and levers that it has to do without
}

// Barred is a kind of check or lever that cannot be done, and why.
type Barred struct {
	Step string `json:"step"`
	Why  string `json:"why"`
}

// bar is why steps cannot be done for a service.
type bar struct {
	service string // empty: for none
	step    string // kind of check or lever, or what kinds begin with, up to the dot; empty: nothing can be proven
	why     string
}

// bar records why steps cannot be done for a service.
func (e *exam) bar(service, step, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bars = append(e.bars, bar{service, step, why})
}

// barred returns why a step cannot be done for a service; empty: nothing is known
// against it.
func (e *exam) barred(service, step string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var why []string
	for _, b := range e.bars {
		of := b.service == "" || b.service == service
		this := b.step == step || strings.HasSuffix(b.step, ".") && strings.HasPrefix(step, b.step)
		if of && this {
			why = append(why, b.why)
		}
	}
	slices.Sort(why) // subjects finish in any order
	return strings.Join(slices.Compact(why), "; ")
}

// verdicts judges each playbook for each service that it serves. It needs to know of
// Prometheus and of the cluster.
func (e *exam) verdicts() []Verdict {
	for _, needed := range []string{"prometheus", "kubernetes"} {
		if len(e.only) > 0 && !slices.Contains(e.only, needed) {
			return []Verdict{}
		}
	}
	out := []Verdict{}
	for _, p := range e.playbooks.All() {
		for _, s := range e.services {
			if p.Serves(s.Name) {
				out = append(out, e.verdict(p, s))
			}
		}
	}
	return out
}

func (e *exam) verdict(p *playbook.Playbook, s playbook.Service) Verdict {
	v := Verdict{Playbook: p.Name, Service: s.Name, State: Armed}
	levers, may, acts := 0, 0, playbook.Observe
	var first string
	for _, step := range e.stepsOf(p, s) {
		why := e.barred(s.Name, step.kind)
		if why != "" {
			v.Without = append(v.Without, Barred{step.kind, why})
		}
		if !step.lever {
			continue
		}
		if levers++; why == "" {
			may++
		} else if first == "" {
			first = why
		}
		acts = max(acts, step.level)
	}
	acts = min(acts, e.c.Autonomy)
	unproven, blind := e.barred(s.Name, ""), e.barred(s.Name, "gpu.health")
	switch {
	case unproven != "":
		v.State, v.Why = Disarmed, unproven
	case p.Hardware() && blind != "":
		v.State, v.Why = Disarmed, blind
	case levers > 0 && may == 0:
		v.State, v.Why = Disarmed, "no lever can act: "+first
	case acts == playbook.Observe:
		v.State = Observes
	}
	return v
}

// stepOf is a kind of check or lever that a playbook uses.
type stepOf struct {
	kind  string
	lever bool
	level playbook.Autonomy // of a lever: the highest of its states, by service, playbook and configuration
}

// stepsOf returns the kinds that a playbook uses for a service, each once, in
// document order.
func (e *exam) stepsOf(p *playbook.Playbook, s playbook.Service) []stepOf {
	override := e.playbooks.Override(p.Name, s.Name)
	var out []stepOf
	add := func(kind string, lever bool, level playbook.Autonomy) {
		if i := slices.IndexFunc(out, func(s stepOf) bool { return s.kind == kind }); i >= 0 {
			out[i].level = max(out[i].level, level)
			return
		}
		out = append(out, stepOf{kind, lever, level})
	}
	for _, st := range p.States {
		for _, g := range st.Gather {
			add(g.Step, false, 0)
		}
		if st.Step != "" {
			level := playbook.Observe
			if st.Kind == playbook.StateLever {
				level = p.Allowed(st, s.Autonomy, override)
			}
			add(st.Step, st.Kind == playbook.StateLever, level)
		}
	}
	return out
}

// writeVerdicts prints the verdicts, and below them what playbooks have to do without.
// Services with the same verdict share a row.
func writeVerdicts(w io.Writer, all []Verdict, wide bool) error {
	if len(all) == 0 {
		return nil
	}
	type row struct {
		Verdict
		services []string
	}
	var rows []*row
	for _, v := range all {
		i := slices.IndexFunc(rows, func(r *row) bool {
			return r.Playbook == v.Playbook && r.State == v.State && r.Why == v.Why && slices.Equal(r.Without, v.Without)
		})
		if i < 0 {
			rows, i = append(rows, &row{Verdict: v}), len(rows)
		}
		rows[i].services = append(rows[i].services, v.Service)
	}
	t := runview.Table{Columns: []runview.Column{{Head: "PLAYBOOK"}, {Head: "STATE"}, {Head: "SERVICES", Flex: true}, {Head: "WHY", Flex: true}}}
	for _, r := range rows {
		why := r.Why
		if why == "" && len(r.Without) > 0 {
			var steps []string
			for _, b := range r.Without {
				steps = append(steps, b.Step)
			}
			why = "without " + strings.Join(steps, ", ")
		}
		t.Add(r.Playbook, string(r.State), runview.Printable(some(r.services, 3)), runview.Printable(why))
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	if err := t.Write(w, wide); err != nil {
		return err
	}
	for _, line := range lacks(all) {
		if _, err := fmt.Fprintf(w, "\n%s\n", strings.Join(runview.Wrap(runview.Printable(line), runview.Width), "\n")); err != nil {
			return err
		}
	}
	return nil
}

// lacks returns a line for each reason why steps cannot be done, with the steps and the
// services.
func lacks(all []Verdict) []string {
	type lack struct{ steps, services []string }
	var reasons []string
	by := map[string]*lack{}
	add := func(list *[]string, text string) {
		if !slices.Contains(*list, text) {
			*list = append(*list, text)
		}
	}
	for _, v := range all {
		for _, b := range v.Without {
			if by[b.Why] == nil {
				by[b.Why] = &lack{}
				reasons = append(reasons, b.Why)
			}
			add(&by[b.Why].steps, b.Step)
			add(&by[b.Why].services, v.Service)
		}
	}
	var out []string
	for _, why := range reasons {
		l := by[why]
		slices.Sort(l.steps)
		out = append(out, fmt.Sprintf("without %s for %s: %s", strings.Join(l.steps, ", "), some(l.services, 5), why))
	}
	return out
}
