package playbook

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/yamldoc"
)

var deciderForm = regexp.MustCompile(`^(user|group):[^\s:]+$`)

// deciderHint lists the forms of a decider.
const deciderHint = "service.owners, node.owners (of a lever on a node), user:NAME or group:NAME"

// nodeOwners is the decider that stands for the owners of the node's pool.
const nodeOwners = "node.owners"

// approve reads who decides and by when. node reports whether the state changes
// a node.
func (r *reader) approve(n *yaml.Node, path string, node bool, at place) *Approve {
	m := r.d.Mapping(n, path, "by", "within", "quorum", "on_expiry", "always")
	if m == nil {
		return nil
	}
	a := &Approve{OnExpiry: ExpiryEscalate, Always: m.Boolean("always")}
	if by := m.Need("by", "who may decide: "+deciderHint); by != nil {
		texts, nodes := r.d.Texts(by, m.At("by"))
		for i, who := range texts {
			switch {
			case who == nodeOwners && !node:
				r.d.Report(nodes[i], m.At("by"), nodeOwners+" can only decide about a lever on a node", "service.owners, user:NAME or group:NAME")
			case who != "service.owners" && who != nodeOwners && !deciderForm.MatchString(who):
				r.d.Report(nodes[i], m.At("by"), fmt.Sprintf("%q is not a decider", yamldoc.Clip(who)), deciderHint)
			}
		}
		if by.Kind == yaml.SequenceNode && len(by.Content) == 0 {
			r.d.Report(by, m.At("by"), "no deciders", deciderHint)
		}
		a.By = texts
	}
	r.quorum(m, a, at)
	if n := m.Need("within", "how long people have, e.g. 15m"); n != nil {
		a.Within = r.number(n, m.At("within"), NumberApprove, at)
	}
	if e := m.Get("on_expiry"); e != nil {
		words := []string{string(ExpiryEscalate), string(ExpiryDeny)}
		word, ok := r.d.Text(e, m.At("on_expiry"))
		if ok && !slices.Contains(words, word) {
			r.d.Report(e, m.At("on_expiry"), fmt.Sprintf("unknown outcome %q of an expired gate", yamldoc.Clip(word)), "an expired gate never approves; "+yamldoc.DidYouMean(word, words))
		}
		a.OnExpiry = Expiry(word)
	}
	return a
}

// quorum reads how many people must approve. If only people are listed, and no
// group, there must be at least that many.
func (r *reader) quorum(m *yamldoc.Mapping, a *Approve, at place) {
	n := m.Get("quorum")
	if n == nil {
		return
	}
	a.Quorum = r.number(n, m.At("quorum"), NumberQuorum, at)
	people := map[string]bool{}
	for _, who := range a.By {
		if !strings.HasPrefix(who, "user:") {
			return
		}
		people[who] = true
	}
	if quorum, ok := a.Quorum.Constant(); ok && len(people) > 0 && quorum > float64(len(people)) {
		r.d.Report(n, m.At("quorum"), fmt.Sprintf("quorum is %v, but by lists %d people", quorum, len(people)), "lower quorum or list more people")
	}
}

// guards reads a state's own guard settings.
func (r *reader) guards(n *yaml.Node, path string, at place) *Guards {
	g := &Guards{}
	fields := []struct {
		number string
		into   **Value
	}{{NumberCooldown, &g.Cooldown}, {NumberEvidenceAge, &g.EvidenceAge}, {NumberMinReady, &g.MinReady}}
	var names []string
	for _, f := range fields {
		names = append(names, lastOf(f.number))
	}
	m := r.d.Mapping(n, path, names...)
	if m == nil {
		return nil
	}
	for i, f := range fields {
		if n := m.Get(names[i]); n != nil {
			*f.into = r.number(n, m.At(names[i]), f.number, at)
		}
	}
	return g
}

// verify reads the proof that a lever needs.
func (r *reader) verify(n *yaml.Node, path string, at place) *Verify {
	m := r.d.Mapping(n, path)
	if m == nil {
		return nil
	}
	allowed := []string{"within", "hold", "interval", "also", "until", "burn", "traffic", "allow_no_traffic"}
	for _, pair := range m.Pairs {
		if !slices.Contains(allowed, pair.Name) {
			r.d.Report(pair.Key, path, fmt.Sprintf("unknown field %q", yamldoc.Clip(pair.Name)), yamldoc.DidYouMean(pair.Name, allowed)+"; "+withoutVerify)
		}
	}
	if !m.Has("until") && !m.Has("burn") && !m.Has("traffic") && !m.Has("allow_no_traffic") {
		return r.verifySLO(m, at)
	}
	v := &Verify{Interval: constantDuration(numberInterval, defaultInterval)}
	if n := m.Get("also"); n != nil {
		r.d.Report(n, m.At("also"), "also adds to the service's objectives, and until replaces them", "keep one")
	}
	m.Need("within", "the deadline of the proof, from when the change takes effect, e.g. 15m; "+withoutVerify)
	m.Need("hold", "how long until must hold without interruption, e.g. 5m; "+withoutVerify)
	r.proofTimes(m, v, at)
	if until := m.Need("until", "what must be true, e.g. [{query: ..., op: <, value: 0.01}]; "+withoutVerify); until != nil {
		v.Until = r.until(until, m.At("until"), at)
	}
	if burn := m.Get("burn"); burn != nil {
		v.Burn = r.burn(burn, m.At("burn"), at)
	}
	r.traffic(m, v, at)
	return v
}

// withoutVerify is the hint that belongs to every error of an incomplete proof.
const withoutVerify = "without verify, the service's objectives prove the lever"

// defaultProof is the proof of a lever without verify: the service's objectives.
func defaultProof() *Verify {
	return &Verify{
		SLO:    true,
		Within: constantDuration(numberProof, defaultWithin), Hold: constantDuration(numberProofHold, defaultHold), Interval: constantDuration(numberInterval, defaultInterval),
	}
}

// proofOf returns the proof of a lever of a class without verify.
func proofOf(class Class) *Verify {
	if class != ClassHold {
		return defaultProof()
	}
	return &Verify{
		Itself: true,
		Within: constantDuration(numberProof, 2*time.Minute), Hold: constantDuration(numberProofHold, 10*time.Second), Interval: constantDuration(numberInterval, 10*time.Second),
	}
}

// verifySLO reads a proof by the service's objectives.
func (r *reader) verifySLO(m *yamldoc.Mapping, at place) *Verify {
	v := defaultProof()
	r.proofTimes(m, v, at)
	if also := m.Get("also"); also != nil {
		v.Until = r.until(also, m.At("also"), at)
	}
	return v
}

// proofTimes reads the times of a proof, and checks that those which are
// constant fit together. The others are checked when they are known.
func (r *reader) proofTimes(m *yamldoc.Mapping, v *Verify, at place) {
	for path, to := range map[string]**Value{numberProof: &v.Within, numberProofHold: &v.Hold, numberInterval: &v.Interval} {
		if n := m.Get(lastOf(path)); n != nil {
			*to = r.number(n, m.At(lastOf(path)), path, at)
		}
	}
	within, hold, interval := v.Within.fixed(), v.Hold.fixed(), v.Interval.fixed()
	if within > 0 && hold > within {
		r.d.Report(m.Get("hold"), m.At("hold"), fmt.Sprintf("%s is longer than within (%s), so the proof can never succeed", FormatDuration(hold), FormatDuration(within)), "")
	}
	if m.Has("interval") && hold > 0 && interval > hold {
		r.d.Report(m.Get("interval"), m.At("interval"), "longer than hold: one sample is not a proof", "")
	}
}

func (r *reader) until(n *yaml.Node, path string, at place) []Expectation {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	if len(items) == 0 {
		r.d.Report(n, path, "empty: nothing to prove", "")
	}
	var out []Expectation
	for i, item := range items {
		ip := path
		if n.Kind == yaml.SequenceNode {
			ip = fmt.Sprintf("%s[%d]", path, i)
		}
		if item.Kind == yaml.ScalarNode {
			if e, ok := r.measure(item, ip, at); ok {
				out = append(out, e)
			}
			continue
		}
		m := r.d.Mapping(item, ip, "name", "unit", "query", "op", "value")
		if m == nil {
			continue
		}
		e := Expectation{Name: r.words(m, "name"), Unit: r.words(m, "unit"), Query: r.query(m, "query", at)}
		if op := m.Need("op", "one of "+strings.Join(ops(), " ")); op != nil {
			word, ok := r.d.Text(op, m.At("op"))
			if ok && !slices.Contains(ops(), word) {
				r.d.Report(op, m.At("op"), fmt.Sprintf("unknown operator %q", yamldoc.Clip(word)), "one of "+strings.Join(ops(), " "))
			}
			e.Op = word
		}
		if n := m.Need("value", "the number it is compared with, or ${...}"); n != nil {
			e.Value = r.number(n, m.At("value"), numberLimit, at)
			r.holdsAnyway(n, m.At("value"), at, e.Query, e.Op, e.Value)
		}
		out = append(out, e)
	}
	return out
}

// holdsAnyway refuses a comparison that holds whatever the service does. One with a number
// that only a run knows is checked there.
func (r *reader) holdsAnyway(n *yaml.Node, path string, at place, query *Value, op string, value *Value) {
	if limit, ok := value.Constant(); ok && query != nil && !query.refused {
		if q, ok := query.sample(); ok {
			if why := HoldsAnyway(q.text, op, limit); why != "" {
				r.unsafe(at.state, n, path, "proves nothing: it "+why, "compare with what is bad for the service; a metric in a small unit has it in its name, as bytes")
			}
		}
	}
}

// words reads an optional field that is shown on one line.
func (r *reader) words(m *yamldoc.Mapping, name string) string {
	n := m.Get(name)
	if n == nil {
		return ""
	}
	text, ok := r.d.Text(n, m.At(name))
	if ok && (strings.TrimSpace(text) == "" || len(text) > maxWords || strings.ContainsFunc(text, unicode.IsControl)) {
		r.d.Report(n, m.At(name), fmt.Sprintf("%q is not a line of 1 to %d bytes", yamldoc.Clip(text), maxWords), "describe the number in a few words")
	}
	return text
}

// maxWords limits the length of such a field, in bytes.
const maxWords = 80

func ops() []string { return []string{"<", "<=", ">", ">=", "=="} }

// query reads a PromQL field of a verify block.
func (r *reader) query(m *yamldoc.Mapping, name string, at place) *Value {
	n := m.Need(name, "PromQL")
	if n == nil {
		return nil
	}
	v := r.value(n, m.At(name), Field{Name: name, Type: Type{Name: Query}}, at)
	v.proof = true
	q, ok := v.sample()
	if !ok {
		return v
	}
	selectors := vectorSelectors(q.text)
	v.refused = true
	if len(selectors) == 0 {
		r.unsafe(at.state, n, m.At(name), "reads no series, so its result does not depend on the service and proves nothing", "ask for what the change has to improve")
	} else if elseConstant(q.text) {
		r.unsafe(at.state, n, m.At(name), "is a constant where the service has no series, which proves nothing", "leave out the \"or\", or the absent(): missing data is inconclusive, as it must be")
	} else if why, part := provesNothing(q.text); why != "" {
		r.unsafe(at.state, n, m.At(name), fmt.Sprintf("proves nothing: %q %s", yamldoc.Clip(part), why), "let the result follow what the service does now")
	} else {
		v.refused = false
	}
	for _, vs := range selectors {
		if !q.selects(vs) {
			r.unsafe(at.state, n, m.At(name), fmt.Sprintf("reads %s of every service, so it proves nothing about this one", cmp.Or(metricOf(vs), "series")), "write METRIC{${service.selector}}")
			break
		}
	}
	return v
}

func (r *reader) burn(n *yaml.Node, path string, at place) *Burn {
	m := r.d.Mapping(n, path, "error_ratio", "objective", "max")
	if m == nil {
		return nil
	}
	b := &Burn{ErrorRatio: r.query(m, "error_ratio", place{env: at.env, state: at.state, since: true}), Max: constantNumber(numberMaxBurn, defaultMaxBurn)}
	if v := b.ErrorRatio; v != nil && (v.parts != nil || v.constant != nil) && !v.asksSince() {
		r.d.Report(m.Get("error_ratio"), m.At("error_ratio"), "missing ${since}", "the window must begin when the change took effect: rate(...[${since}])")
	}
	if o := m.Need("objective", "the SLO's objective, e.g. 0.99"); o != nil {
		b.Objective = r.number(o, m.At("objective"), numberObjective, at)
	}
	if n := m.Get("max"); n != nil {
		b.Max = r.number(n, m.At("max"), numberMaxBurn, at)
	}
	if most, ok := b.Max.Constant(); ok {
		if objective, ok := b.Objective.Constant(); ok {
			r.holdsAnyway(m.Get("error_ratio"), m.At("error_ratio"), at, b.ErrorRatio, "<=", constantNumber(numberMaxBurn, most*(1-objective)))
		}
	}
	return b
}

// asksSince reports whether the value depends on ${since}.
func (v *Value) asksSince() bool {
	return slices.ContainsFunc(v.parts, func(p part) bool { return p.slot.since })
}

func (r *reader) traffic(m *yamldoc.Mapping, v *Verify, at place) {
	n := m.Get("traffic")
	if n == nil {
		if !m.Boolean("allow_no_traffic") {
			r.d.Report(m.Node, m.Path, "missing field traffic: an idle service always looks healthy",
				"add traffic: {query: ..., min_rate: ...}, or allow_no_traffic: true where traffic does not matter; "+withoutVerify)
		}
		return
	}
	if m.Boolean("allow_no_traffic") {
		r.d.Report(m.Get("allow_no_traffic"), m.Path, "traffic and allow_no_traffic contradict each other", "keep one")
	}
	tm := r.d.Mapping(n, m.At("traffic"), "query", "min_rate", "min_share")
	if tm == nil {
		return
	}
	v.Traffic = r.query(tm, "query", at)
	v.MinTraffic = constantNumber(numberMinShare, defaultMinTraffic)
	if rate := tm.Need("min_rate", "requests per second that count as traffic, e.g. 0.1"); rate != nil {
		v.MinRate = r.number(rate, tm.At("min_rate"), numberMinRate, at)
		r.holdsAnyway(rate, tm.At("min_rate"), at, v.Traffic, ">=", v.MinRate)
	}
	if share := tm.Get("min_share"); share != nil {
		v.MinTraffic = r.number(share, tm.At("min_share"), numberMinShare, at)
	}
}
