package kube

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// ChangesKind declares kube.changes.
func ChangesKind() playbook.Kind {
	return playbook.Kind{
		Name: "kube.changes",
		Role: playbook.RoleCheck,
		Doc: `Reads the workload's revision history: did what runs now become current within the window, and how does its pod template differ from the revision
before? Values of secrets are never read, and values of variables and flags whose names look secret are shown as redacted.`,
		With: step.Fields[changesWith](),
		Out:  step.Fields[changesOut](),
	}
}

type kubeChanges struct {
	w   step.Workloads
	git committer // for what Argo CD put in place
}

// committer reports whether the current revision comes from a commit by
// Responder: from a repair, or put back by the undo of one. If that cannot be found out
// the answer is no, with a note.
type committer interface {
	Committed(ctx context.Context, in step.Input, current kube.Revision) (ours, putBack bool, note string)
}

// NewChanges returns the check kube.changes.
func NewChanges(d step.Deps, git committer) step.Check { return kubeChanges{d.Workloads, git} }

type changesWith struct {
	Window step.Duration `json:"window" required:"true" doc:"How long ago counts: the burn window of the alert, e.g. 1h."`
}

type changesOut struct {
	Changed       bool      `json:"changed" doc:"The current revision became current within the window, and there is an earlier one."`
	Count         int       `json:"count" doc:"Revisions that became current within the window, as far as the history tells."`
	Current       int64     `json:"current" doc:"Number of the current revision."`
	Previous      int64     `json:"previous" doc:"Number of the revision before it; 0: there is none."`
	AgeSeconds    float64   `json:"age_seconds" unit:"seconds" doc:"Since the current revision became current."`
	Ours          bool      `json:"ours" doc:"The current revision was put in place by a rollback or a commit of Responder's, and nobody changed the pod template since. It is a repair, not a cause."`
	Cause         string    `json:"cause" doc:"Its kubernetes.io/change-cause; often empty."`
	Diff          []diffOut `json:"diff" doc:"Pod template of the previous revision against the current one."`
	ImagesChanged bool      `json:"images_changed" doc:"The diff touches an image."`
	Matters       bool      `json:"matters" doc:"The diff touches something that can change how requests are served: not only labels, annotations or logging."`
}

type diffOut struct {
	Path string `json:"path" doc:"Field, e.g. containers[vllm].args[--max-num-seqs]."`
	From string `json:"from" doc:"Value before; empty: it was added."`
	To   string `json:"to" doc:"Value now; empty: it was removed."`
}

// Run implements [step.Check].
func (c kubeChanges) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[changesWith](ChangesKind(), in.With)
	if err != nil {
		return step.Finding{}, err
	}
	if c.w == nil {
		return step.Finding{}, step.NotConfigured("cluster", "kubernetes")
	}
	ref := step.RefOf(in.Service)
	revisions, err := c.w.Revisions(ctx, ref)
	if err != nil {
		return step.Finding{}, err
	}
	current, previous := kube.Newest(revisions)
	if current == nil {
		return step.Finding{}, &fault.Error{Reason: fault.NoData, Message: fmt.Sprintf("kube.changes: %s has no revision history yet", step.RefText(ref))}
	}
	window := time.Duration(with.Window)
	age := in.Now.Sub(current.Became())
	out := changesOut{Current: current.Number, AgeSeconds: max(age.Seconds(), 0), Ours: current.Ours, Cause: current.Cause, Diff: []diffOut{}}
	note := ""
	if !out.Ours {
		out.Ours, _, note = c.git.Committed(ctx, in, *current)
	}
	for _, r := range revisions {
		if in.Now.Sub(r.Became()) <= window {
			out.Count++
		}
	}
	if previous == nil {
		return step.Finding{Out: out, Facts: []string{fmt.Sprintf("%s has one revision only, %d, out for %s", step.RefText(ref), current.Number, step.DurationText(age))}}, nil
	}
	out.Previous = previous.Number
	out.Changed = age <= window
	for _, d := range kube.Diff(previous.Fields, current.Fields) {
		out.Diff = append(out.Diff, diffOut{d.Path, d.From, d.To})
		out.ImagesChanged = out.ImagesChanged || strings.HasSuffix(d.Path, ".image")
		out.Matters = out.Matters || kube.Matters(d.Path)
	}
	facts := changesFacts(ref, out, age, window)
	if note != "" {
		facts = append(facts, note)
	}
	return step.Finding{Out: out, Facts: facts}, nil
}

func changesFacts(ref kube.Ref, out changesOut, age, window time.Duration) []string {
	verdict := "outside the window of " + step.DurationText(window)
	if out.Changed {
		verdict = "inside the window of " + step.DurationText(window)
	}
	facts := []string{fmt.Sprintf("%s: revision %d replaced %d %s ago, %s", step.RefText(ref), out.Current, out.Previous, step.DurationText(age), verdict)}
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
		facts = append(facts, fmt.Sprintf("%s: %s -> %s", d.Path, step.OrNone(d.From), step.OrNone(d.To)))
	}
	return facts
}
