package executor

import (
	"strconv"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// fields decodes an event. Of each object the fields stand in the order in
// which they are written, which is where the scanner looks first.
func (d *decoder) fields(e *machine.Event) *problem {
	fields := [...]string{
		"at", "state", "visit", "effect", "action", "attempt", "observe", "start", "alert", "with", "data", "facts", "plan", "digest",
		"guards", "terms", "gate", "tier", "decision", "verify", "sample", "before", "verdict", "then", "loan", "to", "again", "further", "notUntil", "heldFrom", "ending", "reason", "message", "waits", "progress",
		"gathered", "examined", "once",
	}
	return d.scan.Object(fields[:], func(field string) *problem {
		switch field {
		case "at":
			return d.at(&e.At)
		case "state":
			return text(d, &e.State)
		case "visit":
			return whole(d, &e.Visit)
		case "effect":
			return text(d, &e.Effect)
		case "action":
			return text(d, &e.Action)
		case "attempt":
			return whole(d, &e.Attempt)
		case "observe":
			return d.truth(&e.Observe)
		case "digest":
			return text(d, &e.Digest)
		case "tier":
			return whole(d, &e.Tier)
		case "verdict":
			return text(d, &e.Verdict)
		case "then":
			return text(d, &e.Then)
		case "to":
			return text(d, &e.To)
		case "notUntil":
			return d.at(&e.NotUntil)
		case "heldFrom":
			return d.at(&e.HeldFrom)
		case "reason":
			return text(d, &e.Reason)
		case "message":
			return text(d, &e.Message)
		case "waits":
			return text(d, &e.Waits)
		case "again":
			return d.truth(&e.Again)
		case "further":
			return d.truth(&e.Further)
		case "once":
			return text(d, &e.Once)
		default:
			return d.compound(e, field)
		}
	})
}

// compound decodes the fields of an event that have some of their own.
func (d *decoder) compound(e *machine.Event, field string) *problem {
	switch field {
	case "start":
		return pointer(d, &e.Start, d.start)
	case "alert":
		return pointer(d, &e.Alert, d.alert)
	case "with":
		return d.values(&e.With)
	case "data":
		return d.raw(&e.Data)
	case "facts":
		return d.texts(&e.Facts)
	case "plan":
		return pointer(d, &e.Plan, d.plan)
	case "guards":
		return list(d, &e.Guards, &d.guards, d.guard)
	case "gate":
		return pointer(d, &e.Gate, d.gate)
	case "terms":
		return d.other(&e.Terms)
	case "decision":
		return d.other(&e.Decision)
	case "verify":
		return d.other(&e.Verify)
	case "sample":
		return d.other(&e.Sample)
	case "before":
		return d.other(&e.Before)
	case "loan":
		return d.other(&e.Loan)
	case "progress":
		return d.other(&e.Progress)
	case "gathered":
		return list(d, &e.Gathered, &d.gathered, d.found)
	case "examined":
		return list(d, &e.Examined, &d.examined, d.edge)
	default: // ending
		return d.other(&e.Ending)
	}
}

func (d *decoder) start(s *machine.Start) *problem {
	fields := [...]string{
		"run", "playbook", "digest", "service", "alert", "autonomy", "truncated", "notification", "divertedFrom", "line", "unanswered", "by", "reason", "loan", "evidence", "changed", "override",
	}
	return d.object(fields[:], func(field string) *problem {
		switch field {
		case "run":
			return text(d, &s.Run)
		case "playbook":
			return text(d, &s.Playbook)
		case "digest":
			return text(d, &s.Digest)
		case "service":
			return d.service(&s.Service)
		case "alert":
			return d.alert(&s.Alert)
		case "autonomy":
			return d.level(&s.Autonomy)
		case "truncated":
			return d.truth(&s.Truncated)
		case "notification":
			return d.other(&s.Notification)
		case "divertedFrom":
			return text(d, &s.DivertedFrom)
		case "line":
			return d.other(&s.Line)
		case "unanswered":
			return d.other(&s.Unanswered)
		case "by":
			return text(d, &s.By)
		case "reason":
			return text(d, &s.Reason)
		case "loan":
			return text(d, &s.Loan)
		case "evidence":
			return d.other(&s.Evidence)
		case "changed":
			return d.other(&s.Changed)
		default: // override
			return d.other(&s.Override)
		}
	})
}

func (d *decoder) service(s *playbook.Service) *problem {
	fields := [...]string{
		"name", "namespace", "workload", "container", "engine", "model", "endpoint", "gateway", "slos", "gitops", "owners", "autonomy", "minReady", "maxScale",
		"loadTime", "recovery", "warm", "selector",
	}
	return d.object(fields[:], func(field string) *problem {
		switch field {
		case "name":
			return text(d, &s.Name)
		case "namespace":
			return text(d, &s.Namespace)
		case "workload":
			return d.workload(&s.Workload)
		case "container":
			return text(d, &s.Container)
		case "engine":
			return text(d, &s.Engine)
		case "model":
			return text(d, &s.Model)
		case "endpoint":
			return text(d, &s.Endpoint)
		case "gateway":
			return text(d, &s.Gateway)
		case "slos":
			return list(d, &s.SLOs, &d.slos, d.slo)
		case "gitops":
			return d.other(&s.GitOps)
		case "owners":
			return d.texts(&s.Owners)
		case "autonomy":
			return d.level(&s.Autonomy)
		case "minReady":
			return whole(d, &s.MinReady)
		case "maxScale":
			return whole(d, &s.MaxScale)
		case "loadTime":
			return whole(d, &s.LoadTime)
		case "recovery":
			return whole(d, &s.Recovery)
		case "warm":
			return d.other(&s.Warm)
		default: // selector
			return text(d, &s.Selector)
		}
	})
}

func (d *decoder) workload(w *playbook.Workload) *problem {
	return d.object([]string{"kind", "name"}, func(field string) *problem {
		if field == "kind" {
			return text(d, &w.Kind)
		}
		return text(d, &w.Name)
	})
}

// slo decodes what playbook.SLO writes. One without a window is not for it to
// judge.
func (d *decoder) slo(o *playbook.SLO) *problem {
	err := d.object([]string{"name", "objective", "window", "threshold", "indicator", "model", "route", "by", "customBuckets"}, func(field string) *problem {
		switch field {
		case "name":
			return text(d, &o.Name)
		case "objective":
			return d.number(&o.Objective)
		case "window":
			return d.window(&o.Window)
		case "threshold":
			return d.number(&o.Threshold)
		case "indicator":
			return text(d, &o.Indicator)
		case "model":
			return text(d, &o.Model)
		case "route":
			return text(d, &o.Route)
		case "by":
			return text(d, &o.By)
		default: // customBuckets
			return d.truth(&o.CustomBuckets)
		}
	})
	if err == nil && o.Window == 0 {
		return notByHand(strconv.ErrSyntax)
	}
	return err
}

func (d *decoder) alert(a *playbook.Alert) *problem {
	fields := [...]string{"fingerprint", "status", "labels", "annotations", "startsAt", "endsAt", "generatorURL"}
	return d.object(fields[:], func(field string) *problem {
		switch field {
		case "fingerprint":
			return text(d, &a.Fingerprint)
		case "status":
			return text(d, &a.Status)
		case "labels":
			return d.labels(&a.Labels)
		case "annotations":
			return d.labels(&a.Annotations)
		case "startsAt":
			return d.at(&a.StartsAt)
		case "endsAt":
			return d.at(&a.EndsAt)
		default: // generatorURL
			return text(d, &a.GeneratorURL)
		}
	})
}

func (d *decoder) guard(g *machine.GuardVerdict) *problem {
	return d.object([]string{"guard", "ok", "wait", "why", "run", "again", "until"}, func(field string) *problem {
		switch field {
		case "guard":
			return text(d, &g.Guard)
		case "ok":
			return d.truth(&g.OK)
		case "wait":
			return d.truth(&g.Wait)
		case "why":
			return text(d, &g.Why)
		case "run":
			return text(d, &g.Run)
		case "again":
			return d.truth(&g.Again)
		default: // until
			return d.at(&g.Until)
		}
	})
}

func (d *decoder) found(g *machine.Gathered) *problem {
	return d.object([]string{"name", "step", "data", "facts", "reason", "why"}, func(field string) *problem {
		switch field {
		case "name":
			return text(d, &g.Name)
		case "step":
			return text(d, &g.Step)
		case "data":
			return d.raw(&g.Data)
		case "facts":
			return d.texts(&g.Facts)
		case "reason":
			return text(d, &g.Reason)
		default: // why
			return text(d, &g.Why)
		}
	})
}

func (d *decoder) edge(x *machine.Examined) *problem {
	return d.object([]string{"edge", "to", "result", "why", "values"}, func(field string) *problem {
		switch field {
		case "edge":
			return text(d, &x.Edge)
		case "to":
			return text(d, &x.To)
		case "result":
			return text(d, &x.Result)
		case "why":
			return text(d, &x.Why)
		default: // values
			return d.texts(&x.Values)
		}
	})
}
