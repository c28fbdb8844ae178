package policy

import (
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// maxCases limits a table.
const maxCases = 5000

// tableReader reads a table of tests.
type tableReader struct {
	d      *yamldoc.Document
	table  *Table
	levers []string // kinds
	names  []string // of cases
}

func (r *tableReader) document() {
	m := r.d.Mapping(r.d.Root, "", "apiVersion", "kind", "policy", "cases")
	if m == nil {
		return
	}
	m.Constant("apiVersion", playbook.APIVersion)
	m.Constant("kind", "PolicyTest")
	m.Need("policy", "path of the policy file, relative to this one")
	r.table.Policy = m.Text("policy")
	cases := m.Need("cases", "a list of cases")
	switch {
	case cases == nil:
	case cases.Kind != yaml.SequenceNode || len(cases.Content) == 0:
		r.d.Report(cases, "cases", "want a list with at least one case, got "+yamldoc.Describe(cases), "")
	case len(cases.Content) > maxCases:
		r.d.Report(cases, "cases", fmt.Sprintf("%d cases, at most %d allowed", len(cases.Content), maxCases), "")
	default:
		for i, n := range cases.Content {
			if cm := r.d.Mapping(n, fmt.Sprintf("cases[%d]", i), "name", "given", "want"); cm != nil {
				r.oneCase(cm)
			}
		}
	}
}

func (r *tableReader) oneCase(m *yamldoc.Mapping) {
	c := tableCase{line: r.d.Line + m.Node.Line, in: harmless()}
	m.Need("name", "what the case shows")
	c.name = m.Text("name")
	if slices.Contains(r.names, c.name) && c.name != "" {
		r.d.Report(m.Get("name"), m.At("name"), fmt.Sprintf("duplicate case %q", yamldoc.Clip(c.name)), "")
	}
	r.names = append(r.names, c.name)
	if n := m.Get("given"); n != nil {
		if gm := r.d.Mapping(n, m.At("given"), "time", "service", "playbook", "state", "lever", "plan", "run", "actor", "done", "tokens_per_second"); gm != nil {
			r.given(gm, &c.in)
		}
	}
	if n := m.Need("want", "{} if the lever is allowed without conditions"); n != nil {
		if wm := r.d.Mapping(n, m.At("want"), "deny", "why", "needs", "autonomy", "merge"); wm != nil {
			c.want = r.want(wm)
		}
	}
	r.table.cases = append(r.table.cases, c)
}

// part reads a nested mapping; nil if it is absent or not a mapping.
func (r *tableReader) part(m *yamldoc.Mapping, key string, allowed ...string) *yamldoc.Mapping {
	n := m.Get(key)
	if n == nil {
		return nil
	}
	return r.d.Mapping(n, m.At(key), allowed...)
}

func (r *tableReader) given(m *yamldoc.Mapping, in *Input) {
	if m.Has("time") {
		in.Now = moment(m, "time")
		in.Run.Began = in.Now
	}
	if sm := r.part(m, "service", "name", "namespace", "workload", "container", "engine", "model", "endpoint", "owners", "autonomy", "min_ready", "max_scale", "selector"); sm != nil {
		r.service(sm, &in.Service)
	}
	if pm := r.part(m, "playbook", "name", "title", "runbook", "autonomy"); pm != nil {
		in.Playbook = &playbook.Playbook{Name: pm.Text("name"), Title: pm.Text("title"), Runbook: pm.Text("runbook"), Autonomy: r.level(pm, in.Playbook.Autonomy)}
	}
	if sm := r.part(m, "state", "name", "title", "kind", "autonomy", "always_asks"); sm != nil {
		r.stateKind(sm, in)
		in.State.Name, in.State.Title = sm.Text("name"), sm.Text("title")
		in.State.Approve = &playbook.Approve{Always: sm.Boolean("always_asks")}
		in.Autonomy = r.level(sm, in.Autonomy)
	}
	if lm := r.part(m, "lever", "kind", "with"); lm != nil {
		in.State.Step = lm.Text("kind")
		if kind := in.State.Step; kind != "" && !slices.Contains(r.levers, kind) {
			r.d.Report(lm.Get("kind"), lm.At("kind"), fmt.Sprintf("unknown lever %q", yamldoc.Clip(kind)), yamldoc.DidYouMean(kind, r.levers))
		}
		if n := lm.Get("with"); n != nil {
			if err := n.Decode(&in.With); err != nil {
				r.d.Report(n, lm.At("with"), "want a mapping, got "+yamldoc.Describe(n), "")
			}
		}
	}
	if pm := r.part(m, "plan", "risk", "summary", "why", "undo", "target", "changes", "locks", "unrepeatable", "pull_request", "capacity", "shares"); pm != nil {
		r.plan(pm, in.Plan)
	}
	if rm := r.part(m, "run", "id", "by", "age", "levers", "kept", "asked", "alerts"); rm != nil {
		r.run(rm, in)
	}
	if am := r.part(m, "actor", "name", "groups", "door"); am != nil {
		in.Actor = Actor{Name: am.Text("name"), Groups: r.list(am, "groups"), Channel: am.Text("door")}
	}
	if dm := r.part(m, "done", "levers", "runs"); dm != nil {
		levers, _ := dm.Integer("levers", 0, maxCount)
		runs, _ := dm.Integer("runs", 0, maxCount)
		in.Count = func(c Count) (int, bool) { return map[string]int{"levers": levers, "runs": runs}[c.What], true }
	}
	if tokens, ok := m.Number("tokens_per_second"); ok {
		in.Plan.Capacity.TokensPerSecond = &tokens
	}
}

// stateKind reads whether the case is about a lever (the default) or a gate.
func (r *tableReader) stateKind(m *yamldoc.Mapping, in *Input) {
	if !m.Has("kind") {
		return
	}
	words := []string{string(playbook.StateLever), string(playbook.StateGate)}
	text := m.Text("kind")
	if text != "" && !slices.Contains(words, text) {
		r.d.Report(m.Get("kind"), m.At("kind"), fmt.Sprintf("rules do not apply to a state of kind %q", yamldoc.Clip(text)), yamldoc.DidYouMean(text, words))
	}
	in.State.Kind = playbook.StateKind(text)
}

// level reads a level of autonomy; otherwise is its default.
func (r *tableReader) level(m *yamldoc.Mapping, otherwise playbook.Autonomy) playbook.Autonomy {
	if !m.Has("autonomy") {
		return otherwise
	}
	text := m.Text("autonomy")
	level, err := playbook.ParseAutonomy(text)
	if err != nil && text != "" {
		r.d.Report(m.Get("autonomy"), m.At("autonomy"), fmt.Sprintf("unknown autonomy level %q", yamldoc.Clip(text)), yamldoc.DidYouMean(text, []string{"observe", "suggest", "auto"}))
	}
	return level
}

func (r *tableReader) list(m *yamldoc.Mapping, key string) []string {
	n := m.Get(key)
	if n == nil {
		return nil
	}
	words, _ := r.d.Texts(n, m.At(key))
	return words
}

func (r *tableReader) service(m *yamldoc.Mapping, s *playbook.Service) {
	*s = playbook.Service{
		Name: m.Text("name"), Namespace: m.Text("namespace"), Container: m.Text("container"), Engine: m.Text("engine"), Model: m.Text("model"),
		Endpoint: m.Text("endpoint"), Owners: r.list(m, "owners"), Autonomy: r.level(m, s.Autonomy), Selector: m.Text("selector"),
	}
	s.MinReady, _ = m.Integer("min_ready", 0, maxCount)
	s.MaxScale, _ = m.Integer("max_scale", 0, maxCount)
	if wm := r.part(m, "workload", "kind", "name"); wm != nil {
		s.Workload = playbook.Workload{Kind: wm.Text("kind"), Name: wm.Text("name")}
	}
}

func (r *tableReader) plan(m *yamldoc.Mapping, p *machine.Plan) {
	p.Summary, p.Why, p.Undo, p.Locks, p.Unrepeatable = m.Text("summary"), m.Text("why"), m.Text("undo"), r.list(m, "locks"), m.Boolean("unrepeatable")
	if m.Boolean("pull_request") {
		p.MergeWithin = time.Hour
	}
	if n := m.Get("risk"); n != nil {
		words := []string{string(machine.RiskLow), string(machine.RiskMedium), string(machine.RiskHigh)}
		text := m.Text("risk")
		if text != "" && !slices.Contains(words, text) {
			r.d.Report(n, m.At("risk"), fmt.Sprintf("unknown risk %q", yamldoc.Clip(text)), yamldoc.DidYouMean(text, words))
		}
		p.Risk = machine.Risk(text)
	}
	if tm := r.part(m, "target", "api_version", "kind", "namespace", "name"); tm != nil {
		p.Target = machine.Target{APIVersion: tm.Text("api_version"), Kind: tm.Text("kind"), Namespace: tm.Text("namespace"), Name: tm.Text("name")}
	}
	each(m, "changes", func(cm *yamldoc.Mapping) {
		p.Diff = append(p.Diff, machine.FieldChange{Path: cm.Text("path"), From: cm.Text("from"), To: cm.Text("to")})
	}, "path", "from", "to")
	each(m, "shares", func(sm *yamldoc.Mapping) {
		s := machine.Share{Namespace: sm.Text("namespace"), Unknown: sm.Text("unknown")}
		s.Wanted, _ = sm.Integer("wanted", 0, maxCount)
		s.Missing, _ = sm.Integer("missing", 0, maxCount)
		s.Lost, _ = sm.Integer("lost", 0, maxCount)
		p.Shares = append(p.Shares, s)
	}, "namespace", "unknown", "wanted", "missing", "lost")
	cm := r.part(m, "capacity", "unknown", "ready_now", "lowest_ready", "ready_after")
	if cm == nil {
		return
	}
	c := machine.Capacity{Unknown: cm.Boolean("unknown")}
	c.ReadyNow, _ = cm.Integer("ready_now", 0, maxCount)
	c.LowestReady, c.ReadyAfter = c.ReadyNow, c.ReadyNow
	if n, ok := cm.Integer("lowest_ready", 0, maxCount); ok {
		c.LowestReady = n
	}
	if n, ok := cm.Integer("ready_after", 0, maxCount); ok {
		c.ReadyAfter = n
	}
	p.Capacity = c
}

func (r *tableReader) run(m *yamldoc.Mapping, in *Input) {
	in.Run.ID, in.Run.By = m.Text("id"), m.Text("by")
	in.Run.Began = in.Now.Add(-m.Duration("age", 90*24*time.Hour))
	in.Run.Levers, _ = m.Integer("levers", 0, maxCount)
	in.Run.Kept, _ = m.Integer("kept", 0, maxCount)
	in.Run.Asked, _ = m.Integer("asked", 0, maxCount)
	each(m, "alerts", func(am *yamldoc.Mapping) {
		a := playbook.Alert{Status: playbook.Firing, StartsAt: in.Run.Began, Labels: map[string]string{}}
		if am.Has("status") {
			a.Status = playbook.AlertStatus(am.Text("status"))
		}
		if lm := r.part(am, "labels"); lm != nil {
			for _, p := range lm.Pairs {
				if text, ok := r.d.Text(p.Value, lm.At(p.Name)); ok {
					a.Labels[p.Name] = text
				}
			}
		}
		in.Run.Alerts = append(in.Run.Alerts, a)
	}, "status", "labels")
}

func (r *tableReader) want(m *yamldoc.Mapping) expectation {
	w := expectation{deny: m.Text("deny"), why: m.Text("why")}
	if m.Has("autonomy") {
		w.autonomy = r.level(m, playbook.Observe).String()
	}
	if w.merge = m.Text("merge"); m.Has("merge") && w.merge != string(machine.MergePeople) && w.merge != string(machine.MergeResponder) {
		r.d.Report(m.Get("merge"), m.At("merge"), fmt.Sprintf("unknown merger %q", yamldoc.Clip(w.merge)), "people or responder")
	}
	if w.deny != "" && (m.Has("needs") || m.Has("autonomy") || m.Has("merge")) {
		r.d.Report(m.Get("deny"), m.At("deny"), "a denial has no needs", "keep deny, or needs, autonomy and merge")
	}
	if w.deny == "" && m.Has("why") {
		r.d.Report(m.Get("why"), m.At("why"), "why needs deny", "name the rule in deny")
	}
	n := m.Get("needs")
	if n == nil {
		return w
	}
	if n.Kind != yaml.SequenceNode {
		r.d.Report(n, m.At("needs"), "want a list of rules, got "+yamldoc.Describe(n), "")
		return w
	}
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", m.At("needs"), i)
		if item.Kind == yaml.ScalarNode {
			if text, ok := r.d.Text(item, at); ok {
				w.needs = append(w.needs, wantedNeed{rule: text})
			}
			continue
		}
		if nm := r.d.Mapping(item, at, "rule", "quorum", "from"); nm != nil {
			nm.Need("rule", "the rule that asks")
			need := wantedNeed{rule: nm.Text("rule"), from: r.list(nm, "from")}
			need.quorum, _ = nm.Integer("quorum", 1, maxQuorum)
			w.needs = append(w.needs, need)
		}
	}
	return w
}
