package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// This file holds what a change in Git is worth where it runs. An application
// may set what its manifests set (parameters, patches), an autoscaler or an
// admission webhook may too; Argo CD then says Synced and Healthy of a commit
// that changed nothing. So the live object is read, with the rules by which the
// value is found in Git: before the commit it has to have Git's value, after the
// sync the new one.

// liveValue is a variable of a change and how it is read from the live object.
type liveValue struct {
	Variable string `json:"variable"` // as people name it
	Flag     string `json:"flag,omitempty"`
	Switch   bool   `json:"switch,omitempty"` // false is to be without it
	Replicas bool   `json:"replicas,omitempty"`
	Bound    string `json:"bound,omitempty"`
	Image    string `json:"image,omitempty"` // the part of an image: image, tag, newTag, ...

	// Group, Kind and Name are the object that has it, where it is not the
	// service's workload.
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Name      string `json:"name,omitempty"`
	Container string `json:"container,omitempty"`

	From   string `json:"from"` // in Git; empty: not set
	To     string `json:"to"`
	Before string `json:"before"` // what ran when it was planned
	Set    bool   `json:"set"`    // something did

	Named    bool `json:"named,omitempty"`    // the container has that very name: the catalog says it, or the manifest is deployed as it is
	Indirect bool `json:"indirect,omitempty"` // a chart or an operator makes what runs: it may put the value elsewhere, or take its time
}

// effect is what a plan knows about the effect of its change on the live
// object.
type effect struct {
	live    []liveValue
	unseen  []string // of these it cannot be read, and why
	decided []string // of these something else decides
}

// seen reports whether a variable is read from the live object after the
// change.
func (e effect) seen(variable string) bool {
	return slices.ContainsFunc(e.live, func(l liveValue) bool { return l.Variable == variable })
}

// reach compares the live values with Git for everything that a change moves. A
// value that cannot be read now is an error; one that can never be read is
// unseen.
func (g Change) reach(ctx context.Context, in step.Input, at site, prop gitops.Proposal) (effect, error) {
	var e effect
	deployed := at.app.Sync == "Synced" && at.deployed() == prop.Base
	for _, t := range prop.Touches {
		l, why := liveOf(at, t)
		if why != "" {
			e.unseen = append(e.unseen, t.Variable+": "+why)
			continue
		}
		if l.Replicas && l.Kind == "" && step.OwnsReplicas(withoutArgo(at.w)) {
			e.decided = append(e.decided, step.Owned("", withoutArgo(at.w), "spec.replicas").Error())
			continue
		}
		if i := slices.IndexFunc(at.app.Overrides, func(o gitops.Override) bool { return o.Decides(t) }); i >= 0 {
			e.decided = append(e.decided, fmt.Sprintf("%s (%s) is set by %s of the application", t.Variable, fileLine(t), at.app.Overrides[i].Field))
			continue
		}
		now, err := g.read(ctx, in, at.object, l)
		if errors.As(err, new(unreadable)) {
			e.unseen = append(e.unseen, t.Variable+": "+step.AsError(err).Message)
			continue
		}
		if err != nil {
			return e, err
		}
		l.Before, l.Set = now.Value, now.Set
		switch ok, why := l.asInGit(now, deployed || len(prop.TakesBack) == 0); {
		case why != "":
			e.unseen = append(e.unseen, t.Variable+": "+why)
		case !ok:
			e.decided = append(e.decided, fmt.Sprintf("%s is %s in Git (%s), but %s has %s",
				t.Variable, notSet(t.From), fileLine(t), l.place(in), now))
		default:
			e.live = append(e.live, l)
		}
	}
	return e, nil
}

// asInGit reports whether the live value is that of Git or, if Git is not
// deployed, the new one; why: that cannot be told.
func (l liveValue) asInGit(now gitops.Reading, deployed bool) (ok bool, why string) {
	switch {
	case l.matches(now, l.From), !deployed && l.matches(now, l.To):
		return true, ""
	case l.From == "" && (l.Indirect || l.Replicas):
		return true, "" // a default, which the change takes the place of
	case !now.Set && l.Indirect:
		return false, "what runs does not have it where it is looked for: the chart or the operator makes something else of it"
	}
	return false, ""
}

// matches reports whether the live value is a value of Git.
func (l liveValue) matches(now gitops.Reading, value string) bool {
	switch l.Image {
	case "":
		return now.Set == (value != "") && (value == "" || gitops.Same(now.Value, value)) || (l.Indirect || l.Switch) && value == "false" && !now.Set
	case "image":
		return now.Value == value
	case "tag", "newTag":
		return strings.HasSuffix(now.Value, ":"+value) || strings.Contains(now.Value, ":"+value+"@")
	case "digest":
		return strings.HasSuffix(now.Value, "@"+value)
	}
	return now.Value == value || strings.HasPrefix(now.Value, value+":") || strings.HasPrefix(now.Value, value+"@")
}

func (l liveValue) variable() gitops.Variable {
	return gitops.Variable{Flag: l.Flag, Replicas: l.Replicas, Bound: l.Bound}
}

// place returns the object that has the value.
func (l liveValue) place(in step.Input) string {
	if l.Kind != "" {
		return l.Kind + " " + in.Service.Namespace + "/" + l.Name
	}
	return step.RefText(step.RefOf(in.Service))
}

var (
	inContainer = regexp.MustCompile(`(?:^|\.)containers\[([^\]]+)\]\.`)
	inDocument  = regexp.MustCompile(`^([A-Z][A-Za-z0-9]*) (\S+): `)
)

// liveOf returns how a field that a change moves is read from the live object;
// why: it cannot be read.
func liveOf(at site, t gitops.Touch) (l liveValue, why string) {
	l = liveValue{Variable: t.Variable, From: t.From, To: t.To, Container: at.object.Container, Switch: t.Switch}
	if m := inContainer.FindStringSubmatch(t.Path); l.Container == "" && m != nil {
		l.Container = m[1]
	}
	if t.Container != "" {
		l.Container = t.Container
	}
	if m := inDocument.FindStringSubmatch(t.Path); t.Kind == "" && m != nil && m[1] != "HelmRelease" { // the chart decides what its values are
		t.Kind, t.Name = m[1], m[2]
	}
	last := t.Path[strings.LastIndexAny(t.Path, ".: ")+1:]
	flag, isFlag := strings.CutPrefix(t.Variable, "--")
	switch {
	case t.Form == "config" || t.Kind == "ConfigMap":
		return l, "it stands in a configuration file, which pods read when they start"
	case t.Variable == (gitops.Variable{Replicas: true}).String():
		l.Replicas = true
		if strings.HasPrefix(last, "max") {
			l.Bound = "max"
		}
	case t.Variable == "image" && !strings.Contains(t.Path, "initContainers["):
		l.Image = last
	case isFlag:
		l.Flag = flag
	case environment(gitops.Variable{Flag: t.Variable}):
		l.Flag = t.Variable
	default:
		return l, "fields of this kind are not read back"
	}
	ref := at.w.Ref
	l.Indirect = t.Kind == "" || at.object.Kind != ref.Kind || at.object.Name != ref.Name
	l.Named = l.Container != "" && (at.object.Container != "" || !l.Indirect)
	if l.Replicas && t.Kind != "" && (t.Kind != ref.Kind || t.Name != ref.Name) {
		l.Kind, l.Name, l.Group, l.Indirect = t.Kind, t.Name, groupOf(at.app, t.Kind, t.Name), false
	}
	return l, ""
}

// groupOf returns the API group of an object that the application manages.
func groupOf(app gitops.Application, kind, name string) string {
	for _, r := range app.Resources {
		if r.Kind == kind && (r.Name == name || name == "") {
			return r.Group
		}
	}
	return map[string]string{"Deployment": "apps", "StatefulSet": "apps", "Rollout": "argoproj.io", "HorizontalPodAutoscaler": "autoscaling", "ScaledObject": "keda.sh"}[kind]
}

// unreadable marks an error about a value that the live object does not tell,
// unlike an object that could not be read.
type unreadable struct{ error }

// Unwrap returns the error of package gitops.
func (u unreadable) Unwrap() error { return u.error }

// read reads a variable from the live object. The error is unreadable if the
// value cannot be read there; any other error means that the object could not
// be read.
func (g Change) read(ctx context.Context, in step.Input, object gitops.Target, l liveValue) (gitops.Reading, error) {
	ref := step.RefOf(in.Service)
	t := gitops.Target{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, Container: l.Container}
	ids := []kube.ObjectID{{Group: "apps", Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}}
	if l.Kind != "" {
		t = object
		t.ValueFiles, t.Release, t.HelmRelease = nil, "", ""
		own := kube.ObjectID{Group: l.Group, Kind: l.Kind, Namespace: ref.Namespace, Name: l.Name}
		if own.Kind == object.Kind && own.Name == object.Name {
			ids = []kube.ObjectID{own}
		} else if object.Kind == ref.Kind && object.Name == ref.Name {
			ids = append(ids, own)
		} else {
			return gitops.Reading{}, unreadable{&fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s scales %s %s, whose live object Responder cannot read", own, object.Kind, object.Name)}}
		}
	}
	objects := make([][]byte, len(ids))
	for i, id := range ids {
		data, err := g.o.Object(ctx, id)
		if err != nil {
			return gitops.Reading{}, step.AsError(err)
		}
		objects[i] = data
	}
	look := func() (r gitops.Reading, err error) {
		if l.Image != "" {
			r, err = gitops.LiveImage(objects[0], t)
		} else {
			r, err = gitops.Live(objects, t, l.variable())
		}
		if err != nil {
			err = unreadable{err}
		}
		return r, err
	}
	now, err := look()
	if known := new(fault.Error); errors.As(err, &known) && known.Reason == fault.NotFound && !l.Named && t.Container != "" {
		t.Container = "" // an operator names the containers that it makes itself
		return look()
	}
	return now, err
}

// carried reads whether the live values are as an apply, or its undo, has to
// leave them; why names the first that is not.
func (g Change) carried(ctx context.Context, in step.Input, p gitPayload, undo bool) (why string, err error) {
	for _, l := range p.Live {
		now, err := g.read(ctx, in, p.target(in.Service.Namespace), l)
		switch {
		case errors.As(err, new(unreadable)):
			return fmt.Sprintf("%s of %s can no longer be read: %s", l.Variable, l.place(in), step.AsError(err).Message), nil
		case err != nil:
			return "", err
		case undo && (now.Set != l.Set || !gitops.Same(now.Value, l.Before)) && !l.matches(now, l.From):
			return fmt.Sprintf("%s has %s %s, not %s as before", l.place(in), l.Variable, now, notSet(l.Before)), nil
		case !undo && !l.matches(now, l.To) && (l.To != "" || !l.Indirect || l.matches(now, l.From)):
			return fmt.Sprintf("%s has %s %s, not %s", l.place(in), l.Variable, now, notSet(l.To)), nil
		}
	}
	return "", nil
}

// Kept implements keeper of package step.
func (g Change) Kept(ctx context.Context, in step.Input, plan machine.Plan) error {
	p, err := step.Payload[gitPayload](plan.Step, plan.Payload)
	if err != nil {
		return err
	}
	why, err := g.carried(ctx, in, p, false)
	if err == nil && why != "" {
		err = &fault.Error{Reason: fault.Overridden, Message: why}
	}
	return err
}

// inEffect checks, once Argo CD is done, that all pods have the values that the
// change set.
func (g Change) inEffect(ctx context.Context, in step.Input, p gitPayload, o *step.Observation, app gitops.Application, undo bool) {
	where := o.Progress
	wait := func(format string, args ...any) {
		o.Settled, o.Progress = false, where+", but "+fmt.Sprintf(format, args...)
	}
	why, err := g.carried(ctx, in, p, undo)
	if err != nil {
		o.Unread = err
		wait("what runs cannot be asked: %s", err)
		return
	}
	if why != "" {
		made := slices.ContainsFunc(p.Live, func(l liveValue) bool { return l.Indirect })
		o.Overridden = !made || in.Now.Sub(app.Operation.Finished) > time.Duration(cmp.Or(g.recovery, defaultRecovery))
		wait("%s%s", why, overrides(app))
		return
	}
	w, err := g.w.Workload(ctx, step.RefOf(in.Service))
	if err != nil {
		o.Unread = err
		wait("what runs cannot be asked: %s", err)
		return
	}
	var r step.Observation
	if step.Rolled(&r, w, w.Replicas); !r.Settled {
		o.Degraded, o.Slow, o.Rollout = r.Degraded, r.Slow, r.Rollout
		wait("%s: %s", step.RefText(w.Ref), r.Progress)
	}
}

// cautious raises the risk of a plan whose effect cannot be read completely, so
// that people decide.
func cautious(plan *machine.Plan, e effect) {
	if len(e.unseen) == 0 {
		return
	}
	plan.Unseen = few(e.unseen)
	plan.Risk = machine.RiskHigh
	plan.Why += "; its effect on what runs cannot be read back, so better figures do not prove that it was the cause"
	plan.Notes = append(plan.Notes, "not read back, so people are asked and it does not become last good: "+plan.Unseen)
	plan.Good = slices.DeleteFunc(plan.Good, func(s machine.Setting) bool { return !e.seen(s.Name) })
}

func notSet(value string) string { return gitops.Reading{Value: value, Set: value != ""}.String() }

// withoutArgo returns a workload without the owners that Git stands behind.
func withoutArgo(w kube.Workload) kube.Workload {
	w.Owners = slices.DeleteFunc(slices.Clone(w.Owners), func(o kube.Owner) bool { return o.Field == "*" })
	return w
}

// overridden returns the error for a change that would have no effect.
func overridden(stepName string, at site, decided []string) error {
	return &fault.Error{Reason: fault.Overridden, Message: fmt.Sprintf("%s: a commit would not change what runs: %s%s", stepName, strings.Join(decided, "; "), overrides(at.app)+movable(at.app))}
}

func fields(list []gitops.Override) string {
	var out []string
	for _, o := range list {
		out = append(out, o.Field)
	}
	return few(out)
}

// overrides describes what an application sets in addition to its manifests.
func overrides(app gitops.Application) string {
	if len(app.Overrides) == 0 {
		return ": the application sets nothing outside Git, so an autoscaler, an admission webhook, another controller or a person sets it"
	}
	return fmt.Sprintf(": %s sets outside Git: %s", app.Title(), fields(app.Overrides))
}

// movable tells what to do so that a run can change what the spec of an application
// decides.
func movable(app gitops.Application) string {
	if len(app.Overrides) == 0 {
		return ""
	}
	where := "to a value file that its source names"
	if !slices.ContainsFunc(app.Overrides, func(o gitops.Override) bool { return strings.Contains(o.Field, ".helm.") }) {
		where = "to the manifests of its source"
	}
	text := "; a run changes files of the source and not the application: move it " + where
	if app.Generator != "" {
		text += ", in the template of ApplicationSet " + app.Generator + ", which makes the application"
	}
	return text
}
