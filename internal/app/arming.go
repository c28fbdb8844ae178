package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
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
	begins   bool // an alert starts it, or a playbook that an alert starts hands over to it
	alone    bool // a lever is applied without asking anybody
	paused   bool
	observes bool     // no level is above observe
	stops    []hurdle // each keeps all its levers from acting
	limits   []hurdle // of single levers
	doubts   []string // what is not known yet and may keep all its levers from acting
}

// acts reports whether the playbook acts on the service by itself, asks whether reports that
// it asks people first.
func (s standing) acts() bool { return s.able() && s.alone }
func (s standing) asks() bool { return s.able() && !s.alone }
func (s standing) able() bool { return len(s.levers) > 0 && len(s.stops) == 0 }

// view is what the standings of all services are told from, read once for many of them.
type view struct {
	set         *playbook.Set
	pauses      []executor.Pause
	levers      func(book *playbook.Playbook, service string) []executor.Outlook
	stuck       map[string]*machine.State // by ID: runs that are held or in quarantine
	quarantined []*machine.State          // those in quarantine, by ID
	common      []hurdle                  // of every service
	doubts      []string                  // of every service: what is not known yet
}

func (s *Service) view() view {
	v := view{set: s.library.set(), pauses: s.executor.Pauses(), levers: s.executor.Levers(), stuck: map[string]*machine.State{}}
	v.common, v.doubts = s.commonHurdles(), s.doubts()
	for run := range s.executor.Open() {
		if run.Quarantine != nil || run.Held != nil {
			v.stuck[run.Start.Run] = run
		}
		if run.Quarantine != nil {
			v.quarantined = append(v.quarantined, run)
		}
	}
	slices.SortFunc(v.quarantined, func(a, b *machine.State) int { return strings.Compare(a.Start.Run, b.Start.Run) })
	return v
}

// standings returns what each playbook may do on a service, by name, as far as this process
// knows: it asks nobody.
func (s *Service) standings(svc playbook.Service, v view) []standing {
	own := ownHurdles(svc, v.stuck[s.executor.Holder(svc.Name)])
	spent := s.executor.Spent(svc.Name)
	begin := begun(v.set, svc.Name)
	var out []standing
	for _, p := range v.set.All() {
		if !p.Serves(svc.Name) {
			continue
		}
		x := standing{book: p, begins: begin[p.Name], levers: v.levers(p, svc.Name), doubts: v.doubts}
		for _, pause := range v.pauses {
			if pause.Scope.Covers(svc.Name, p.Name) {
				x.paused = true
				x.stops = append(x.stops, pausedHurdle(pause))
			}
		}
		x.stops = slices.Concat(x.stops, v.common, own)
		for _, run := range v.quarantined {
			if run.Start.Service.Name == svc.Name && run.Start.Playbook == p.Name {
				x.stops = append(x.stops, hurdle{why: "run " + run.Start.Run + " of it is in quarantine and keeps its alerts", do: "look at what it left in place, then: responder runs release " + run.Start.Run + " --reason TEXT"})
			}
		}
		if why := s.executor.WithPeople(svc.Name, p.Name); why != "" {
			x.stops = append(x.stops, hurdle{why: why, do: "end the incident, or wait: new alerts are decided again by themselves"})
		}
		if p.Hardware() && s.world.Deps.GPUs == nil {
			x.stops = append(x.stops, hurdle{why: "nothing tells the state of GPUs", do: "set gpu.agents or gpu.dcgm in the configuration"})
		}
		if spent != "" && x.begins { // the return of a loan counts in no budget
			x.stops = append(x.stops, hurdle{why: "the budget of changes is spent: " + spent, do: "wait until the window is over, or raise guards.budget in the configuration"})
		}
		s.weigh(v.set, &x, svc)
		out = append(out, x)
	}
	return out
}

// begun returns the playbooks of a service that an alert starts, and those that they hand
// over to.
func begun(set *playbook.Set, service string) map[string]bool {
	out := map[string]bool{}
	var add func(p *playbook.Playbook)
	add = func(p *playbook.Playbook) {
		if p == nil || out[p.Name] || !p.Serves(service) {
			return
		}
		out[p.Name] = true
		for _, st := range p.States {
			if st.Kind == playbook.StateDivert {
				add(set.ByName(st.Divert))
			}
		}
	}
	for _, p := range set.All() {
		if len(p.Match()) > 0 {
			add(p)
		}
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
	if err := s.room.check(); err != nil {
		add("notifications are refused: "+err.Error(), "free what it names: space on the volume of the journal, or memory")
	}
	if _, err := s.world.Known(); err != nil {
		add("the catalog cannot say which service an alert is about: "+err.Error(), "responder doctor shows what is wrong with discovery")
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
		switch {
		case x.State != web.Failing, x.Name == s.hearing.deploys:
		case x.Name == kubernetes && s.hearing.kubernetes.forbidden(): // maybe of one namespace alone: a doubt
		default:
			add(x.Name+" does not answer as it should: "+x.Text, "responder doctor asks it, and shows what is wrong")
		}
	}
	return out
}

// doubts are what is not known yet of the systems that every lever needs.
func (s *Service) doubts() (out []string) {
	for name, x := range map[string]*heard{"Prometheus": s.hearing.prometheus, kubernetes: s.hearing.kubernetes} {
		if x == nil {
			continue
		}
		switch h := x.health(name); {
		case h.State == web.Unknown && x.doubted():
			out = append(out, "whether "+name+" answers: "+h.Text)
		case name == kubernetes && h.State == web.Failing && x.forbidden():
			out = append(out, "whether "+name+" lets Responder act: "+h.Text)
		}
	}
	slices.Sort(out)
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

// weigh adds what holds the levers of a playbook: what they need, their levels, the policy,
// and who may decide.
func (s *Service) weigh(set *playbook.Set, x *standing, svc playbook.Service) {
	may, observed := 0, 0
	var barred []hurdle
	var by []string // what holds levers at observe
	for i := range x.levers {
		l := &x.levers[i]
		limit := func(h hurdle) {
			h.lever = l.State
			x.limits = append(x.limits, h)
		}
		if l.Demoted {
			limit(hurdle{
				why: "asks people: " + l.Why,
				do:  fmt.Sprintf("find out why it did not help, then: responder ladder promote %s %s %s --reason TEXT", x.book.Name, svc.Name, l.State),
			})
		}
		r := s.reachOf(set, x.book, *l, svc)
		l.Level, l.Limits = r.level, r.caps
		switch {
		case r.barred.why != "":
			barred = append(barred, r.barred)
			limit(r.barred)
		case r.level > playbook.Observe:
			may++
			x.alone = x.alone || !r.asks
			for _, h := range r.depends {
				limit(h)
			}
		default:
			observed++
			by = append(by, observing(r.caps)...)
		}
	}
	switch {
	case len(x.levers) == 0 || may > 0:
	case observed == 0:
		for _, h := range barred { // of none of its levers is more to be had
			if !slices.Contains(x.stops, h) {
				x.stops = append(x.stops, h)
			}
		}
		x.limits = nil
	default:
		x.observes, x.stops = true, append(x.stops, held(by))
	}
}

// arming returns what tells whether Responder can act on a service, and why not, as it is now.
func (s *Service) arming() func(playbook.Service) api.Arming {
	v := s.view()
	return func(svc playbook.Service) api.Arming { return armingOf(svc, s.standings(svc, v)) }
}

func armingOf(svc playbook.Service, all []standing) api.Arming {
	all = slices.DeleteFunc(all, func(x standing) bool {
		return len(x.levers) == 0 || !x.begins // the others give back what was changed
	})
	out := api.Arming{Acts: []string{}, Asks: []string{}, Unknown: []string{}, Reasons: []api.ArmingReason{}}
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
		if x.able() && len(x.doubts) > 0 {
			out.Unknown = x.doubts // of all the same
		}
	}
	for i := range out.Reasons {
		if r := &out.Reasons[i]; len(r.Playbooks) == len(all) {
			r.Playbooks = nil
		}
	}
	able := len(out.Acts)+len(out.Asks) > 0
	if out.Armed = able && len(out.Unknown) == 0; !able && len(out.Reasons) == 0 {
		out.Reasons = append(out.Reasons, api.ArmingReason{
			Why: "no playbook that is loaded and has a lever serves it", Do: "the page Playbooks shows what is loaded; write a playbook, or add " + svc.Name + " to the services of one",
		})
	}
	return out
}
