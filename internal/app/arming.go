package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/policy"
	"github.com/inference-responder/responder/internal/web"
)

// hurdle is why a playbook, or one lever of it, does not act on a service, and what to do
// about it.
type hurdle struct {
	why, do string
	lever   string // its state; empty: the whole playbook
}

func (h hurdle) String() string {
	if h.lever == "" {
		return h.why
	}
	return "lever " + h.lever + ": " + h.why
}

// standing is what a playbook may do on a service.
type standing struct {
	book     *playbook.Playbook
	levers   []executor.Outlook
	alone    bool // a lever is applied without asking anybody
	paused   bool
	observes bool     // no level is above observe
	stops    []hurdle // each keeps all its levers from acting
	limits   []hurdle // of single levers
}

// acts reports whether the playbook acts on the service by itself, asks whether reports that
// it asks people first.
func (s standing) acts() bool { return s.able() && s.alone }
func (s standing) asks() bool { return s.able() && !s.alone }
func (s standing) able() bool { return len(s.levers) > 0 && len(s.stops) == 0 }

// view is what the standings of all services are told from, read once for many of them.
type view struct {
	set    *playbook.Set
	pauses []executor.Pause
	levers func(book *playbook.Playbook, service string) []executor.Outlook
	stuck  map[string]*machine.State // by ID: runs that are held or in quarantine
	common []hurdle                  // of every service
}

func (s *Service) view() view {
	v := view{set: s.library.set(), pauses: s.executor.Pauses(), levers: s.executor.Levers(), stuck: map[string]*machine.State{}, common: s.commonHurdles()}
	for run := range s.executor.Open() {
		if run.Quarantine != nil || run.Held != nil {
			v.stuck[run.Start.Run] = run
		}
	}
	return v
}

// standings returns what each playbook may do on a service, by name, as far as this process
// knows: it asks nobody.
func (s *Service) standings(svc playbook.Service, v view) []standing {
	own := ownHurdles(svc, v.stuck[s.executor.Holder(svc.Name)])
	var out []standing
	for _, p := range v.set.All() {
		if !p.Serves(svc.Name) {
			continue
		}
		x := standing{book: p, levers: v.levers(p, svc.Name)}
		for _, pause := range v.pauses {
			if pause.Scope.Covers(svc.Name, p.Name) {
				x.paused = true
				x.stops = append(x.stops, pausedHurdle(pause))
			}
		}
		x.stops = slices.Concat(x.stops, v.common, own)
		for _, run := range v.stuck {
			if run.Quarantine != nil && run.Start.Service.Name == svc.Name && run.Start.Playbook == p.Name {
				x.stops = append(x.stops, hurdle{why: "run " + run.Start.Run + " of it is in quarantine and keeps its alerts", do: "look at what it left in place, then: responder runs release " + run.Start.Run + " --reason TEXT"})
			}
		}
		if why := s.executor.WithPeople(svc.Name, p.Name); why != "" {
			x.stops = append(x.stops, hurdle{why: why, do: "end the incident, or wait: new alerts are decided again by themselves"})
		}
		if p.Hardware() && s.world.Deps.GPUs == nil {
			x.stops = append(x.stops, hurdle{why: "nothing tells the state of GPUs", do: "set gpu.agents or gpu.dcgm in the configuration"})
		}
		s.weigh(v.set, &x, svc)
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
	return hurdle{why: p.Scope.String() + " is paused by " + p.By + ": " + p.Reason, do: "lift the pause: " + lift}
}

// commonHurdles keep every playbook from acting on every service.
func (s *Service) commonHurdles() (out []hurdle) {
	add := func(why, do string) { out = append(out, hurdle{why: why, do: do}) }
	if err := s.executor.Ready(); err != nil {
		add("runs cannot go on: "+err.Error(), "the service's log shows why")
	}
	if off := s.intake.Paused(); off != nil {
		add("notifications are refused, by "+off.By+": "+off.Reason, "take them again: responder unpause --intake")
	}
	if why := s.executor.Full(); why != "" {
		add("no alert starts a run: "+why, "end runs that nobody needs: responder runs list, responder runs cancel")
	}
	if s.world.Deps.Querier == nil {
		add("no Prometheus is configured, so nothing can be proven", "set prometheus.url in the configuration")
	}
	if s.world.Deps.Workloads == nil {
		add("no cluster is configured", "set kubernetes in the configuration")
	}
	for _, x := range s.systems() {
		if x.State == web.Failing && x.Name != s.hearing.deploys {
			add(x.Name+" does not answer: "+x.Text, "responder doctor asks it, and shows what is wrong")
		}
	}
	return out
}

// ownHurdles keep every playbook from acting on one service. Holder is the run that is stuck
// with its lock; nil: there is none.
func ownHurdles(svc playbook.Service, holder *machine.State) (out []hurdle) {
	if len(svc.SLOs) == 0 {
		out = append(out, hurdle{why: "the service has no objective by which a change could be proven", do: "set slos of the service, or slo.defaults, in the configuration"})
	}
	switch {
	case holder == nil:
	case holder.Quarantine != nil:
		out = append(out, hurdle{
			why: "run " + holder.Start.Run + " is in quarantine with a change in place, and no other run changes the service",
			do:  "look at what it left in place, then: responder runs release " + holder.Start.Run + " --reason TEXT",
		})
	default:
		out = append(out, hurdle{
			why: "run " + holder.Start.Run + " is held, and no other run changes the service",
			do:  "look whether its change happened, then: responder runs resolve " + holder.Start.Run + " --applied|--not-applied --reason TEXT",
		})
	}
	return out
}

// unconfigured returns what a lever needs of the configuration and does not find; empty: nothing.
func (s *Service) unconfigured(lever string, svc playbook.Service) hurdle {
	subject, _, _ := strings.Cut(lever, ".")
	switch d := s.world.Deps; {
	case (subject == "gitops" || subject == "argocd") && (d.Commits == nil || svc.GitOps == playbook.GitOps{}):
		return hurdle{why: "its place in Git is not configured", do: "set gitops, and gitops of the service, in the configuration"}
	case subject == "traffic" && svc.Warm == playbook.Warm{}:
		return hurdle{why: "no warm revision is kept ready", do: "set warm of the service in the configuration"}
	case (subject == "node" || subject == "gpu") && d.NodeChanger == nil:
		return hurdle{why: "nodes cannot be changed here", do: "set kubernetes in the configuration"}
	case subject == "job" && d.Templates == nil:
		return hurdle{why: "no template of a Job is configured", do: "set jobs in the configuration"}
	default:
		return hurdle{}
	}
}

// weigh adds what holds the levers of a playbook: what they need, their levels, the policy,
// and who may decide.
func (s *Service) weigh(set *playbook.Set, x *standing, svc playbook.Service) {
	may, observed := 0, 0
	var by []string // what holds levers at observe
	for _, l := range x.levers {
		if l.Demoted {
			x.limits = append(x.limits, hurdle{
				why: "asks people: " + l.Why, lever: l.State,
				do: fmt.Sprintf("find out why it did not help, then: responder ladder promote %s %s %s --reason TEXT", x.book.Name, svc.Name, l.State),
			})
		}
		level, caps, asks, why := s.levelOf(set, x.book, l, svc)
		switch {
		case why.why != "":
			why.lever = l.State
			x.limits = append(x.limits, why)
		case level > playbook.Observe:
			may++
			x.alone = x.alone || !asks
		default:
			observed++
			by = append(by, observing(caps)...)
		}
	}
	switch {
	case len(x.levers) == 0 || may > 0:
	case observed == 0:
		for _, h := range x.limits {
			h.lever = "" // of none of them is more to be had
			if !slices.Contains(x.stops, h) {
				x.stops = append(x.stops, h)
			}
		}
		x.limits = nil
	default:
		x.observes, x.stops = true, append(x.stops, held(by))
	}
}

// levelOf returns the level of a lever with what caps it, whether people are asked before it
// is applied, and why it is not applied whatever its plan is.
func (s *Service) levelOf(set *playbook.Set, p *playbook.Playbook, l executor.Outlook, svc playbook.Service) (level playbook.Autonomy, caps []machine.Cap, asks bool, why hurdle) {
	state := p.State(l.State)
	run := machine.State{Playbook: p, Start: machine.Start{Playbook: p.Name, Service: svc, Autonomy: l.Level, Override: set.Override(p.Name, svc.Name)}}
	level, caps = l.Level, l.Limits
	if rules := s.rules.current.Load(); rules != nil {
		var deny string
		var terms machine.Terms
		level, caps, terms, deny = underPolicy(caps, rules, policy.Input{Now: s.world.Now(), Service: svc, Playbook: p, State: state, Autonomy: l.Level})
		if deny != "" {
			return level, caps, false, hurdle{why: "the policy denies it: " + deny, do: "responder policy explain --config FILE --service " + svc.Name + " shows each rule"}
		}
		run = run.Under(&terms)
	}
	if level == playbook.Observe {
		return level, caps, false, hurdle{}
	}
	needs := run.Needs(state)
	for _, n := range needs {
		if nobody := n.Unreachable(run.Start); nobody != "" {
			return level, caps, true, hurdle{why: nobody, do: "set owners of the service, or name approvers in the policy"}
		}
	}
	return level, caps, len(needs) > 0, s.unconfigured(l.Lever, svc)
}

// underPolicy returns the level of a lever under the policy as it is now, with what caps it,
// what the policy asks for, and why it denies the lever whatever its plan is; empty: it does
// not.
func underPolicy(caps []machine.Cap, rules *policy.Set, in policy.Input) (level playbook.Autonomy, all []machine.Cap, terms machine.Terms, deny string) {
	result := rules.Explain(in)
	level, all = in.Autonomy, caps
	if most := result.Terms.Cap; most != nil {
		level, all = min(level, most.Level), append(slices.Clip(caps), *most)
	}
	for _, cause := range result.Causes {
		if cause.Denies {
			return level, all, result.Terms, cause.Place + ": " + cause.Why
		}
	}
	return level, all, result.Terms, ""
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

// held is that every lever is at observe, by the rules that hold them there.
func held(by []string) hurdle {
	slices.Sort(by)
	return hurdle{why: "its levers are at observe, held by " + strings.Join(slices.Compact(by), ", "), do: "raise autonomy there to suggest"}
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
		if h.lever != "" {
			out.Reasons[i].Levers = append(out.Reasons[i].Levers, book+"/"+h.lever)
		} else if !slices.Contains(out.Reasons[i].Playbooks, book) {
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
			Why: "no playbook that is loaded and has a lever serves it", Do: "the page Playbooks shows what is loaded; write a playbook, or add " + svc.Name + " to the services of one",
		})
	}
	return out
}
