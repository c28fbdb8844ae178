package step

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// kubeChangesKind declares kube.changes.
func kubeChangesKind() playbook.Kind {
	return playbook.Kind{
		Name: "kube.changes",
		Role: playbook.RoleCheck,
		Doc: `Reads the workload's revision history: did what runs now become current within the window, and how does its pod template differ from the revision
before? Values of secrets are never read, and values of variables and flags whose names look secret are shown as redacted.`,
		With: []playbook.Field{
			{Name: "window", Type: scalar(playbook.Duration), Required: true, Doc: "How long ago counts: the burn window of the alert, e.g. 1h."},
		},
		Out: []playbook.Field{
			{Name: "changed", Type: scalar(playbook.Bool), Doc: "The current revision became current within the window, and there is an earlier one."},
			{Name: "count", Type: scalar(playbook.Int), Doc: "Revisions that became current within the window, as far as the history tells."},
			{Name: "current", Type: scalar(playbook.Int), Doc: "Number of the current revision."},
			{Name: "previous", Type: scalar(playbook.Int), Doc: "Number of the revision before it; 0: there is none."},
			{Name: "age_seconds", Type: scalar(playbook.Double), Unit: "seconds", Doc: "Since the current revision became current."},
			{Name: "ours", Type: scalar(playbook.Bool), Doc: "The current revision was put in place by a rollback or a commit of Responder's, and nobody changed the pod template since. It is a repair, not a cause."},
			{Name: "cause", Type: scalar(playbook.String), Doc: "Its kubernetes.io/change-cause; often empty."},
			{Name: "diff", Type: listOf(object(
				playbook.Field{Name: "path", Type: scalar(playbook.String), Doc: "Field, e.g. containers[vllm].args[--max-num-seqs]."},
				playbook.Field{Name: "from", Type: scalar(playbook.String), Doc: "Value before; empty: it was added."},
				playbook.Field{Name: "to", Type: scalar(playbook.String), Doc: "Value now; empty: it was removed."},
			)), Doc: "Pod template of the previous revision against the current one."},
			{Name: "images_changed", Type: scalar(playbook.Bool), Doc: "The diff touches an image."},
		},
	}
}

type kubeChanges struct {
	w   Workloads
	git gitChange // for what Argo CD put in place; it may be configured or not
}

func newKubeChanges(d Deps) Check { return kubeChanges{d.Workloads, newGitChange(d)} }

type changesWith struct {
	Window duration `json:"window"`
}

type changesOut struct {
	Changed       bool      `json:"changed"`
	Count         int       `json:"count"`
	Current       int64     `json:"current"`
	Previous      int64     `json:"previous"`
	AgeSeconds    float64   `json:"age_seconds"`
	Ours          bool      `json:"ours"`
	Cause         string    `json:"cause"`
	Diff          []diffOut `json:"diff"`
	ImagesChanged bool      `json:"images_changed"`
}

type diffOut struct {
	Path string `json:"path"`
	From string `json:"from"`
	To   string `json:"to"`
}

// Run implements [Check].
func (c kubeChanges) Run(ctx context.Context, in Input) (Finding, error) {
	with, err := decode[changesWith](kubeChangesKind(), in.With)
	if err != nil {
		return Finding{}, err
	}
	if c.w == nil {
		return Finding{}, missing("cluster", "kubernetes")
	}
	ref := refOf(in.Service)
	revisions, err := c.w.Revisions(ctx, ref)
	if err != nil {
		return Finding{}, err
	}
	current, previous := newestTwo(revisions)
	if current == nil {
		return Finding{}, &fault.Error{Reason: fault.NoData, Message: fmt.Sprintf("kube.changes: %s has no revision history yet", place(ref))}
	}
	window := time.Duration(with.Window)
	age := in.Now.Sub(active(*current))
	out := changesOut{Current: current.Number, AgeSeconds: max(age.Seconds(), 0), Ours: current.Ours, Cause: current.Cause, Diff: []diffOut{}}
	note := ""
	if !out.Ours {
		out.Ours, note = c.committed(ctx, in, *current)
	}
	for _, r := range revisions {
		if in.Now.Sub(active(r)) <= window {
			out.Count++
		}
	}
	if previous == nil {
		return Finding{Out: out, Facts: []string{fmt.Sprintf("%s has one revision only, %d, out for %s", place(ref), current.Number, span(age))}}, nil
	}
	out.Previous = previous.Number
	out.Changed = age <= window
	for _, d := range kube.Diff(previous.Fields, current.Fields) {
		out.Diff = append(out.Diff, diffOut{d.Path, d.From, d.To})
		out.ImagesChanged = out.ImagesChanged || strings.HasSuffix(d.Path, ".image")
	}
	facts := changesFacts(ref, out, age, window)
	if note != "" {
		facts = append(facts, note)
	}
	return Finding{Out: out, Facts: facts}, nil
}

// newestTwo finds the current revision and the one before it.
func newestTwo(revisions []kube.Revision) (current, previous *kube.Revision) {
	for i := range revisions {
		if revisions[i].Current {
			current = &revisions[i]
		}
	}
	for i := range revisions {
		r := &revisions[i]
		if current != nil && r.Number < current.Number && (previous == nil || r.Number > previous.Number) {
			previous = r
		}
	}
	return current, previous
}

// active is when a revision last became current, as far as known.
func active(r kube.Revision) time.Time {
	if r.Active.IsZero() {
		return r.Created
	}
	return r.Active
}

func changesFacts(ref kube.Ref, out changesOut, age, window time.Duration) []string {
	verdict := "outside the window of " + span(window)
	if out.Changed {
		verdict = "inside the window of " + span(window)
	}
	facts := []string{fmt.Sprintf("%s: revision %d replaced %d %s ago, %s", place(ref), out.Current, out.Previous, span(age), verdict)}
	if out.Ours {
		facts[0] += ", put back by Responder"
	}
	if out.Cause != "" {
		facts[0] += ", because: " + out.Cause
	}
	for i, d := range out.Diff {
		if i == 10 {
			return append(facts, fmt.Sprintf("and %d more fields", len(out.Diff)-i))
		}
		facts = append(facts, fmt.Sprintf("%s: %s -> %s", d.Path, orNone(d.From), orNone(d.To)))
	}
	return facts
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}

// span says a duration as people do: 12m, 3h, 4d.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		d = d.Round(time.Second)
	case d < 48*time.Hour:
		d = d.Round(time.Minute)
	default:
		d = d.Truncate(24 * time.Hour)
	}
	return playbook.FormatDuration(max(d, 0))
}
