package app

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/policy"
)

// hurdle is why a playbook does not act on a service, and what to do about it.
type hurdle struct{ why, do string }

// standing is what a playbook may do on a service.
type standing struct {
	book     *playbook.Playbook
	levers   []executor.Outlook
	most     playbook.Autonomy // the highest level of a lever that the policy does not deny
	paused   bool
	observes bool     // no level is above observe
	stops    []hurdle // each keeps all its levers from acting
	limits   []hurdle // of single levers
}

// acts reports whether the playbook acts on the service by itself, asks whether reports that
// it asks people first.
func (s standing) acts() bool { return s.able() && s.most == playbook.Auto }
func (s standing) asks() bool { return s.able() && s.most == playbook.Suggest }
func (s standing) able() bool { return len(s.levers) > 0 && len(s.stops) == 0 }

// view is what the standings of all services are told from, read once for many of them.
type view struct {
	levers func(book *playbook.Playbook, service string) []executor.Outlook
	stuck  map[string][]*machine.State // by service: runs that are held or in quarantine, by ID
}

func (s *Service) view() view {
	stuck := map[string][]*machine.State{}
	for run := range s.executor.Open() {
		if run.Quarantine != nil || run.Held != nil {
			stuck[run.Start.Service.Name] = append(stuck[run.Start.Service.Name], run)
		}
	}
	for _, runs := range stuck {
		slices.SortFunc(runs, func(a, b *machine.State) int { return cmp.Compare(a.Start.Run, b.Start.Run) })
	}
	return view{levers: s.executor.Levers(), stuck: stuck}
}

// standings returns what each playbook may do on a service, by name, as far as this process
// knows: it asks nobody.
func (s *Service) standings(svc playbook.Service, v view) []standing {
	common := s.commonHurdles(svc, v.stuck[svc.Name])
	var out []standing
	for _, p := range s.library.set().All() {
		if !p.Serves(svc.Name) {
			continue
		}
		x := standing{book: p, levers: v.levers(p, svc.Name), most: playbook.Observe}
		for _, pause := range s.executor.Pauses() {
			if pause.Scope.Covers(svc.Name, p.Name) {
				x.paused = true
				x.stops = append(x.stops, pausedHurdle(pause))
			}
		}
		x.stops = append(x.stops, common...)
		if p.Hardware() && s.world.Deps.GPUs == nil {
			x.stops = append(x.stops, hurdle{"nothing tells the state of GPUs", "set gpu.agents or gpu.dcgm in the configuration"})
		}
		s.weigh(&x, svc)
		out = append(out, x)
	}
	return out
}

func pausedHurdle(p executor.Pause) hurdle {
	lift := "responder unpause"
	if p.Scope.Service != "" {
		lift += " --service " + p.Scope.Service
	}
	if p.Scope.Playbook != "" {
		lift += " --playbook " + p.Scope.Playbook
	}
	return hurdle{p.Scope.String() + " is paused by " + p.By + ": " + p.Reason, "lift the pause: " + lift}
}

// commonHurdles keep every playbook from acting on a service. Stuck lists its runs that are
// held or in quarantine.
func (s *Service) commonHurdles(svc playbook.Service, stuck []*machine.State) (out []hurdle) {
	add := func(why, do string) { out = append(out, hurdle{why, do}) }
	if err := s.executor.Ready(); err != nil {
		add("runs cannot go on: "+err.Error(), "the service's log shows why")
	}
	if off := s.intake.Paused(); off != nil {
		add("notifications are refused, by "+off.By+": "+off.Reason, "take them again: responder unpause --intake")
	}
	if len(svc.SLOs) == 0 {
		add("the service has no objective by which a change could be proven", "set slos of the service, or slo.defaults, in the configuration")
	}
	if s.world.Deps.Querier == nil {
		add("no Prometheus is configured, so nothing can be proven", "set prometheus.url in the configuration")
	}
	if s.world.Deps.Workloads == nil {
		add("no cluster is configured", "set kubernetes in the configuration")
	}
	for _, run := range stuck {
		if id := run.Start.Run; run.Quarantine != nil {
			add("run "+id+" is quarantined, and no other run acts on the service", "look at what it left in place, then: responder runs release "+id+" --reason TEXT")
		} else {
			add("run "+id+" is held, and no other run acts on the service", "look whether its change happened, then: responder runs resolve "+id+" --applied|--not-applied --reason TEXT")
		}
	}
	return out
}

// weigh adds what holds the levers of a playbook: their levels, and the policy.
func (s *Service) weigh(x *standing, svc playbook.Service) {
	rules := s.rules.current.Load()
	may, denied := 0, 0
	var by []string // what holds levers at observe
	for _, l := range x.levers {
		level, caps, deny := l.Level, l.Limits, ""
		if rules != nil {
			level, caps, deny = underPolicy(caps, rules, policy.Input{Now: s.world.Now(), Service: svc, Playbook: x.book, State: x.book.State(l.State), Autonomy: l.Level})
		}
		if l.Demoted {
			x.limits = append(x.limits, hurdle{
				"lever " + l.State + " asks people: " + l.Why,
				fmt.Sprintf("find out why it did not help, then: responder ladder promote %s %s %s --reason TEXT", x.book.Name, svc.Name, l.State),
			})
		}
		switch {
		case deny != "":
			denied++
			x.limits = append(x.limits, hurdle{"policy denies lever " + l.State + ": " + deny, "responder policy explain --service " + svc.Name + " shows each rule"})
		case level > playbook.Observe:
			may++
			x.most = max(x.most, level)
		default:
			by = append(by, observing(caps)...)
		}
	}
	switch {
	case len(x.levers) == 0 || may > 0:
	case denied == len(x.levers):
		x.stops, x.limits = append(x.stops, x.limits...), nil
	default:
		x.observes, x.stops = true, append(x.stops, observed(by))
	}
}

// underPolicy returns the level of a lever under the policy as it is now, with what caps it,
// and why the policy denies it whatever its plan is; empty: it does not.
func underPolicy(caps []machine.Cap, rules *policy.Set, in policy.Input) (level playbook.Autonomy, all []machine.Cap, deny string) {
	result := rules.Explain(in)
	level, all = in.Autonomy, caps
	if most := result.Terms.Cap; most != nil {
		level, all = min(level, most.Level), append(slices.Clip(caps), *most)
	}
	for _, cause := range result.Causes {
		if cause.Denies {
			return level, all, cause.Place + ": " + cause.Why
		}
	}
	return level, all, ""
}

// observing returns the rules that hold a lever at observe.
func observing(caps []machine.Cap) (rules []string) {
	for _, c := range caps {
		if c.Level == playbook.Observe {
			rules = append(rules, c.Rule)
		}
	}
	return rules
}

// observed is that every lever is at observe, by the rules that hold them there.
func observed(by []string) hurdle {
	slices.Sort(by)
	return hurdle{"its levers are at observe, held by " + strings.Join(slices.Compact(by), ", "), "raise autonomy there to suggest"}
}

// arming returns what tells whether Responder can act on a service, and why not, as it is now.
func (s *Service) arming() func(playbook.Service) api.Arming {
	v := s.view()
	return func(svc playbook.Service) api.Arming { return armingOf(svc, s.standings(svc, v)) }
}

func armingOf(svc playbook.Service, all []standing) api.Arming {
	all = slices.DeleteFunc(all, func(x standing) bool {
		return len(x.levers) == 0 || len(x.book.Match()) == 0 // no alert starts it: it gives back what others changed
	})
	out := api.Arming{Acts: []string{}, Asks: []string{}, Reasons: []api.ArmingReason{}}
	add := func(h hurdle, book string) {
		i := slices.IndexFunc(out.Reasons, func(r api.ArmingReason) bool { return r.Why == h.why && r.Do == h.do })
		if i < 0 {
			i = len(out.Reasons)
			out.Reasons = append(out.Reasons, api.ArmingReason{Why: h.why, Do: h.do})
		}
		if !slices.Contains(out.Reasons[i].Playbooks, book) {
			out.Reasons[i].Playbooks = append(out.Reasons[i].Playbooks, book)
		}
	}
	for _, x := range all {
		switch {
		case x.acts():
			out.Acts = append(out.Acts, x.book.Name)
		case x.asks():
			out.Asks = append(out.Asks, x.book.Name)
		}
		for _, h := range slices.Concat(x.stops, x.limits) {
			add(h, x.book.Name)
		}
	}
	for i := range out.Reasons {
		if r := &out.Reasons[i]; len(r.Playbooks) == len(all) {
			r.Playbooks = nil
		}
	}
	if out.Armed = len(out.Acts)+len(out.Asks) > 0; !out.Armed && len(out.Reasons) == 0 {
		out.Reasons = append(out.Reasons, api.ArmingReason{
			Why: "no playbook that is loaded and has a lever serves it", Do: "responder playbook list shows what is loaded; write a playbook, or add " + svc.Name + " to the services of one",
		})
	}
	return out
}
