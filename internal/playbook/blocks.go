package playbook

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

var deciderForm = regexp.MustCompile(`^(user|group):[^\s:]+$`)

// approve reads who decides and by when.
func (r *reader) approve(n *yaml.Node, path string) *Approve {
	m := r.d.mapping(n, path, "by", "within", "on_expiry", "always")
	if m == nil {
		return nil
	}
	a := &Approve{OnExpiry: ExpiryEscalate, Always: m.boolean("always")}
	if by := m.need("by", "who may decide: service.owners, user:NAME or group:NAME"); by != nil {
		texts, nodes := r.d.texts(by, m.at("by"))
		for i, who := range texts {
			if who != "service.owners" && !deciderForm.MatchString(who) {
				r.d.report(nodes[i], m.at("by"), fmt.Sprintf("%q names nobody", clip(who)), "service.owners, user:NAME or group:NAME")
			}
		}
		if by.Kind == yaml.SequenceNode && len(by.Content) == 0 {
			r.d.report(by, m.at("by"), "nobody may decide", "service.owners, user:NAME or group:NAME")
		}
		a.By = texts
	}
	if m.need("within", "how long people have, e.g. 15m") != nil {
		a.Within = m.duration("within", maxDecision)
	}
	if e := m.get("on_expiry"); e != nil {
		words := []string{string(ExpiryEscalate), string(ExpiryDeny)}
		word, ok := r.d.text(e, m.at("on_expiry"))
		if ok && !slices.Contains(words, word) {
			r.d.report(e, m.at("on_expiry"), fmt.Sprintf("a gate cannot expire into %q", clip(word)), "there is no go-ahead; "+didYouMean(word, words))
		}
		a.OnExpiry = Expiry(word)
	}
	return a
}

// guards reads a state's own guard settings.
func (r *reader) guards(n *yaml.Node, path string) *Guards {
	m := r.d.mapping(n, path, "cooldown", "evidence_age", "min_ready")
	if m == nil {
		return nil
	}
	g := &Guards{
		Cooldown:    m.duration("cooldown", maxCooldown),
		EvidenceAge: m.duration("evidence_age", maxAge),
	}
	if ready, ok := m.integer("min_ready", 0, 100_000); ok {
		g.MinReady = &ready
	}
	return g
}

// verify reads the proof a lever must give.
func (r *reader) verify(n *yaml.Node, path string, at place) *Verify {
	m := r.d.mapping(n, path, "within", "hold", "interval", "until", "burn", "traffic", "allow_no_traffic")
	if m == nil {
		return nil
	}
	v := &Verify{Interval: defaultInterval}
	if m.need("within", "the deadline for the proof, from the moment of the fix, e.g. 15m") != nil {
		v.Within = m.duration("within", maxProof)
	}
	if m.need("hold", "how long until must hold without a break, e.g. 5m") != nil {
		v.Hold = m.duration("hold", maxProof)
	}
	if m.has("interval") {
		v.Interval = m.duration("interval", maxProof)
	}
	r.proofTimes(m, v)
	if until := m.need("until", "what must be true, e.g. [{query: ..., op: <, value: 0.01}]"); until != nil {
		v.Until = r.until(until, m.at("until"), at)
	}
	if burn := m.get("burn"); burn != nil {
		v.Burn = r.burn(burn, m.at("burn"), at)
	}
	r.traffic(m, v, at)
	return v
}

// proofTimes checks that the times of a proof fit together.
func (r *reader) proofTimes(m *mapping, v *Verify) {
	if v.Within > 0 && v.Hold > v.Within {
		r.d.report(m.get("hold"), m.at("hold"), fmt.Sprintf("%s is longer than within (%s): it could never be proven", FormatDuration(v.Hold), FormatDuration(v.Within)), "")
	}
	if n := m.get("interval"); n != nil && v.Interval > 0 {
		switch {
		case v.Interval < leastSample:
			r.d.report(n, m.at("interval"), "shorter than "+FormatDuration(leastSample), "Prometheus scrapes no faster")
		case v.Hold > 0 && v.Interval > v.Hold:
			r.d.report(n, m.at("interval"), "longer than hold: one sample proves nothing", "")
		}
	} else if v.Hold > 0 && v.Interval > v.Hold {
		v.Interval = max(v.Hold, leastSample)
	}
}

func (r *reader) until(n *yaml.Node, path string, at place) []Expectation {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	if len(items) == 0 {
		r.d.report(n, path, "empty: nothing would be proven", "")
	}
	var out []Expectation
	for i, item := range items {
		ip := path
		if n.Kind == yaml.SequenceNode {
			ip = fmt.Sprintf("%s[%d]", path, i)
		}
		m := r.d.mapping(item, ip, "query", "op", "value")
		if m == nil {
			continue
		}
		e := Expectation{Query: r.query(m, "query", at)}
		if op := m.need("op", "one of "+strings.Join(ops(), " ")); op != nil {
			word, ok := r.d.text(op, m.at("op"))
			if ok && !slices.Contains(ops(), word) {
				r.d.report(op, m.at("op"), fmt.Sprintf("%q compares nothing", clip(word)), "one of "+strings.Join(ops(), " "))
			}
			e.Op = word
		}
		if m.need("value", "the number it is compared with") != nil {
			e.Value, _ = m.number("value")
		}
		out = append(out, e)
	}
	return out
}

func ops() []string { return []string{"<", "<=", ">", ">=", "=="} }

// query reads a PromQL field of a verify block.
func (r *reader) query(m *mapping, name string, at place) *Value {
	n := m.need(name, "PromQL")
	if n == nil {
		return nil
	}
	return r.value(n, m.at(name), Field{Name: name, Type: Type{Name: Query}}, at)
}

func (r *reader) burn(n *yaml.Node, path string, at place) *Burn {
	m := r.d.mapping(n, path, "error_ratio", "objective", "max")
	if m == nil {
		return nil
	}
	b := &Burn{ErrorRatio: r.query(m, "error_ratio", place{env: at.env, state: at.state, since: true}), Max: defaultMaxBurn}
	if v := b.ErrorRatio; v != nil && (v.parts != nil || v.constant != nil) && !v.asksSince() {
		r.d.report(m.get("error_ratio"), m.at("error_ratio"), "does not use ${since}", "the window must begin at the fix: rate(...[${since}])")
	}
	if o := m.need("objective", "the SLO's objective, e.g. 0.99"); o != nil {
		f, ok := m.number("objective")
		if ok && (f <= 0 || f >= 1) {
			r.d.report(o, m.at("objective"), fmt.Sprintf("%v is not between 0 and 1", f), "e.g. 0.99")
		}
		b.Objective = f
	}
	if n := m.get("max"); n != nil {
		f, ok := m.number("max")
		if ok && f <= 0 {
			r.d.report(n, m.at("max"), fmt.Sprintf("%v: no burn is that low", f), "1 uses the budget up exactly")
		}
		b.Max = f
	}
	return b
}

// asksSince reports whether the value is filled in with ${since}.
func (v *Value) asksSince() bool {
	return slices.ContainsFunc(v.parts, func(p part) bool { return p.slot.since })
}

func (r *reader) traffic(m *mapping, v *Verify, at place) {
	n := m.get("traffic")
	if n == nil {
		if !m.boolean("allow_no_traffic") {
			r.d.report(m.node, m.path, "no traffic: an idle service always looks healthy",
				"add traffic: {query: ..., min_rate: ...}, or allow_no_traffic: true where traffic does not matter")
		}
		return
	}
	if m.boolean("allow_no_traffic") {
		r.d.report(m.get("allow_no_traffic"), m.path, "traffic and allow_no_traffic contradict each other", "keep one")
	}
	tm := r.d.mapping(n, m.at("traffic"), "query", "min_rate", "min_share")
	if tm == nil {
		return
	}
	v.Traffic = r.query(tm, "query", at)
	v.MinTraffic = defaultMinTraffic
	if rate := tm.need("min_rate", "requests per second that count as traffic, e.g. 0.1"); rate != nil {
		f, ok := tm.number("min_rate")
		if ok && f <= 0 {
			r.d.report(rate, tm.at("min_rate"), fmt.Sprintf("%v would call silence traffic", f), "e.g. 0.1")
		}
		v.MinRate = f
	}
	if share := tm.get("min_share"); share != nil {
		f, ok := tm.number("min_share")
		if ok && (f <= 0 || f > 1) {
			r.d.report(share, tm.at("min_share"), fmt.Sprintf("%v is not a share of the traffic before", f), "more than 0, at most 1")
		}
		v.MinTraffic = f
	}
}
