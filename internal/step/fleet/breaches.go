// Package fleet holds the check that looks at all services of the catalog at
// once: do several suffer for one reason?
package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// BreachesKind declares fleet.breaches.
func BreachesKind() playbook.Kind {
	return playbook.Kind{
		Name: "fleet.breaches",
		Role: playbook.RoleCheck,
		Doc: `Measures the other services of the catalog by their own objectives, as ` + "`slo.burn`" + ` does, and looks for what those that breach have in
common with this one: a change of their workloads, nodes, the registry of their images or models, the catalog's ` + "`gateway`" + `. A shared cause belongs
to people, not to one lever for each service. It needs evidence: two services that breach and have nothing in common share nothing.

What is shared, the first that applies: ` + "`heat`" + ` (GPUs of this service and of others slow down for heat on two nodes or more, whatever their
objectives show), ` + "`node`" + ` (every service that breaches has pods on it, and few healthy ones; at once if it has trouble of its own, else only
after a release and a model), ` + "`release`" + ` (one change, commit or Argo CD application
that reached this service and most of those that breach before they did, no healthy one, and not only logging or annotations), ` + "`model`" + ` (pods of all
of them cannot start, and pull images, load models from, or are, the same; of new pods that do not crash, also where no objective shows it yet), ` + "`gateway`" + ` (all are behind it, and few healthy ones), ` + "`fleet`" + ` (three services or more, and at least half of
those measured).

Another service counts as breaching from twice the share that it allows, and is compared when its breach began within an hour of this one's. A
service under which a GPU is at fault shares nothing but heat or the node. What cannot be told within ` + "`within`" + ` is unknown, counted, and never breaching. At most 200 services are measured, and at most 50 workloads of
each sort are read.`,
		With: step.Fields[breachesWith](),
		Out:  step.Fields[breachesOut](),
	}
}

const (
	maxServices = 200 // that are measured
	maxRead     = 50  // services of one sort whose workloads are read
	maxNodes    = 64  // nodes whose GPUs are asked about
	maxNames    = 20  // that evidence keeps
	maxBegan    = 4   // objectives of a service of which the beginning of the breach is looked for
	atOnce      = 8   // runs that look at the fleet at a time
	sideBySide  = 8   // services that are asked about at a time

	// Another service counts only if it clearly breaches, and since about the same
	// time: one that is always a little over its objective shares nothing.
	clearBurn = 2.0
	apart     = time.Hour

	shortWindow = 5 * time.Minute // the windows of slo.burn
	longWindow  = time.Hour
	lookback    = 6 * time.Hour
)

type breachesWith struct {
	Window step.Duration `json:"window" default:"1h" doc:"How long ago a change of workloads counts as one that may be shared."`
	Within step.Duration `json:"within" default:"15s" doc:"Time for all of it. What is not known by then is unknown."`
}

type breachesOut struct {
	Services  int      `json:"services" doc:"Services of the catalog, this one included."`
	Measured  int      `json:"measured" doc:"Services that meet their objectives or breach them, this one included."`
	Unknown   int      `json:"unknown" doc:"Other services that could not be measured, have too few requests, or are only a little over an objective."`
	Count     int      `json:"count" doc:"Services that breach their objectives, this one included."`
	Breaching []string `json:"breaching" doc:"Their names, this one first, at most 20."`
	SharedBy  string   `json:"shared_by" enum:",heat,node,release,model,gateway,fleet" doc:"What kind of cause the services share; empty: none is recognised."`
	Node      string   `json:"node" doc:"The node, where that is what they share; empty otherwise."`
	Shared    string   `json:"shared" doc:"What they share: the node, the change, the registry, the gateway; empty: nothing."`
	Key       string   `json:"key" doc:"The same for every service that shares it, for once of a notify state; empty: nothing is shared."`
	Why       string   `json:"why" doc:"All of that in a sentence."`
}

// breaches is the check fleet.breaches. Workloads, nodes, GPUs and applications
// may be nil: what they would tell is then not known.
type breaches struct {
	q        step.Querier
	w        step.Workloads
	n        step.Nodes
	gpus     step.GPUs
	apps     step.Applications
	services func() []playbook.Service
	now      func() time.Time
	looks    *looks
	slots    chan struct{} // runs that look at a time: each holds the whole fleet
}

// NewBreaches returns the check fleet.breaches.
func NewBreaches(d step.Deps) step.Check {
	now := d.Now
	if now == nil {
		now = time.Now
	}
	return breaches{q: d.Querier, w: d.Workloads, n: d.Nodes, gpus: d.GPUs, apps: d.Applications, services: d.Services, now: now, looks: &looks{}, slots: make(chan struct{}, atOnce)}
}

// Run implements [step.Check].
func (c breaches) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[breachesWith](BreachesKind(), in.With)
	switch {
	case err != nil:
		return step.Finding{}, err
	case c.q == nil:
		return step.Finding{}, step.NotConfigured("Prometheus", "prometheus.url")
	case with.Window <= 0 || with.Within <= 0:
		return step.Finding{}, step.Invalid("fleet.breaches: window and within must be longer than 0")
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(with.Within))
	defer cancel()
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return step.Finding{}, &fault.Error{Reason: fault.Deadline, Message: "fleet.breaches: too many runs look at the fleet at once"}
	}
	f, err := c.measure(ctx, in)
	if err != nil {
		return step.Finding{}, err
	}
	out := breachesOut{Services: 1 + len(f.others) + f.rest, Unknown: f.rest, Breaching: []string{}}
	var found []party // those that breach, this service first
	var healthy []party
	for i, p := range append([]party{f.own}, f.others...) {
		switch p.stands {
		case slo.Breached:
			found = append(found, p)
		case slo.Met:
			healthy = append(healthy, p)
		default:
			if i > 0 {
				out.Unknown++
			}
		}
	}
	out.Measured, out.Count = len(found)+len(healthy), len(found)
	cause, notes := c.cause(ctx, in, time.Duration(with.Window), f, found, healthy)
	out.SharedBy, out.Shared, out.Key = cause.by, cause.what, cause.key()
	if cause.by == "node" {
		out.Node = cause.what
	}
	for _, p := range found[:min(len(found), maxNames)] {
		out.Breaching = append(out.Breaching, p.name())
	}
	out.Why = out.sentence(found, cause, f.own.stands == slo.Breached)
	return step.Finding{Out: out, Facts: append([]string{out.Why}, notes...)}, nil
}

// sentence says what was found. looked is set if a shared cause was looked for.
func (o breachesOut) sentence(found []party, cause cause, looked bool) string {
	names := strings.Join(o.Breaching, ", ")
	if more := o.Count - len(o.Breaching); more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	text := fmt.Sprintf("%d of %d measured services breach their SLO", o.Count, o.Measured)
	if since := first(found); !since.IsZero() {
		text += " since " + since.UTC().Format("15:04Z")
	}
	if names != "" {
		text += ": " + names
	}
	switch {
	case cause.by != "":
		text += "; " + cause.text
	case o.Count > 1 && looked:
		text += "; nothing that they share was found"
	}
	if others := o.Services - 1; 2*o.Unknown > others {
		text += fmt.Sprintf("; %d of the %d others could not be told", o.Unknown, others)
	}
	return text
}

// first returns when the first of the breaches began; zero: not known.
func first(found []party) time.Time {
	var at time.Time
	for _, p := range found {
		if !p.since.IsZero() && (at.IsZero() || p.since.Before(at)) {
			at = p.since
		}
	}
	return at
}

// cause looks for what the services that breach share. notes say what could not
// be looked at.
func (c breaches) cause(ctx context.Context, in step.Input, window time.Duration, f fleet, found, healthy []party) (cause, []string) {
	hot, notes := c.heat(ctx, f, found)
	if hot.by != "" {
		return hot, notes
	}
	if f.own.stands != slo.Breached {
		stuck, more := c.unstartable(ctx, in.Now, window, f)
		return stuck, append(notes, more...)
	}
	all := len(found)
	found = slices.DeleteFunc(slices.Clone(found), func(p party) bool {
		return !p.since.IsZero() && !f.own.since.IsZero() && p.since.Sub(f.own.since).Abs() > apart
	})
	got, more := c.common(ctx, in.Now, window, found, healthy, all+len(healthy))
	if got.by != "" && len(got.of) < all {
		got.text = "of these " + strings.Join(got.of[:min(len(got.of), maxNames)], ", ") + ": " + got.text
	}
	notes = append(notes, more...)
	if got.by == "" {
		stuck, more := c.unstartable(ctx, in.Now, window, f)
		return stuck, append(notes, more...)
	}
	return got.cause, notes
}

// unstartable looks for services whose new pods do not become ready for the same
// reason as this one's: they may still serve within their objectives.
func (c breaches) unstartable(ctx context.Context, now time.Time, window time.Duration, f fleet) (cause, []string) {
	if c.w == nil {
		return cause{}, nil
	}
	all := append([]party{f.own}, f.others[:min(len(f.others), maxRead)]...)
	if all[0].unread = c.readWorkload(ctx, &all[0], now); !all[0].waits {
		return cause{}, nil
	}
	each(len(all)-1, func(i int) { all[i+1].unread = c.readWorkload(ctx, &all[i+1], now) })
	var notes []string
	if n := unread(all) + 1 + len(f.others) - len(all) + f.rest; n > 0 {
		notes = append(notes, fmt.Sprintf("of %d services it is not known whether their pods start", n))
	}
	all = slices.DeleteFunc(all, func(p party) bool { return !p.waits })
	c.readChanges(ctx, all, now, window)
	var found cause
	names := all[:1:1]
	for _, p := range all[1:] {
		got := byModel([]party{all[0], p})
		alike := p.pulls == all[0].pulls && p.images == all[0].images
		if got.by == "" || !alike || found.by != "" && got != found {
			continue
		}
		found, names = got, append(names, p)
	}
	found.text = strings.Replace(found.text, "all of them", strings.Join(found.named(names[:min(len(names), maxNames)]).of, ", "), 1)
	return found, notes
}

// common looks for what services share that breach since about the same time,
// this one first.
func (c breaches) common(ctx context.Context, now time.Time, window time.Duration, found, healthy []party, measured int) (shared, []string) {
	switch {
	case len(found) < 2:
		return shared{}, nil
	case c.w == nil || len(found) > maxRead:
		return cmp.Or(behindGateway(found, healthy), wholeFleet(found, measured)).named(found), nil
	}
	c.read(ctx, found, now, window)
	var notes []string
	for _, p := range found {
		if p.unread != nil {
			notes = append(notes, fmt.Sprintf("the workload of %s could not be read: %v", p.name(), p.unread))
		}
	}
	places, more := c.places(ctx, found, healthy)
	notes = append(notes, more...)
	node, troubled := onNode(found, healthy, places)
	if troubled {
		return node.named(found), notes
	}
	// A GPU at fault explains the breach of its own service, and no other.
	if found[0].ails {
		return shared{}, append(notes, found[0].name()+" has a GPU of its own that is at fault")
	}
	found = slices.DeleteFunc(found, func(p party) bool { return p.ails })
	if len(found) < 2 {
		return shared{}, notes
	}
	node, _ = onNode(found, healthy, places)
	if len(commonChanges(found)) > 0 {
		healthy = slices.Clone(healthy)
		some := healthy[:min(len(healthy), maxRead)]
		c.readChanges(ctx, some, now, window)
		if n := unread(some) + len(healthy) - len(some); n > 0 {
			notes = append(notes, fmt.Sprintf("of %d healthy services it is not known whether they were changed", n))
		}
	}
	if release := byRelease(found, healthy); release.by != "" {
		return release, notes
	}
	return cmp.Or(byModel(found), node, behindGateway(found, healthy), wholeFleet(found, measured)).named(found), notes
}

// unread counts the services that could not be read.
func unread(ps []party) int {
	n := 0
	for _, p := range ps {
		if p.unread != nil {
			n++
		}
	}
	return n
}
