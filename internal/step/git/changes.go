package git

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// ChangesKind declares gitops.changes.
func ChangesKind() playbook.Kind {
	return playbook.Kind{
		Name: "gitops.changes",
		Role: playbook.RoleCheck,
		Doc: `Reads what changed the service in Git and in Argo CD within the window: which commits touched its manifests, by whom, which flags, images and
replicas they moved, and what was deployed when. A commit counts when it was made within the window, and when Argo CD deployed it within the
window, however old it was then. A history that cannot be read, or does not reach back that far, is an error, never "no change".`,
		With: step.Fields[changesWith](),
		Out:  step.Fields[gitChangesOut](),
	}
}

type gitopsChanges struct{ Change }

// NewChanges returns the check gitops.changes.
func NewChanges(d step.Deps) step.Check { return gitopsChanges{NewChange(d)} }

type gitChangesOut struct {
	Changed            bool            `json:"changed" doc:"A commit of somebody other than Responder that touched the service's manifests was made or deployed within the window."`
	Count              int             `json:"count" doc:"How many such commits."`
	Deployed           bool            `json:"deployed" doc:"Argo CD deployed something else than before within the window, or something of which its history does not tell what was before."`
	AgeSeconds         float64         `json:"age_seconds" unit:"seconds" doc:"Since the newest of those commits, by its own age_seconds; -1: there is none."`
	DeployedAgeSeconds float64         `json:"deployed_age_seconds" unit:"seconds" doc:"Since Argo CD's newest deployment; -1: it never deployed."`
	Ours               bool            `json:"ours" doc:"The newest commit within the window that changed more of the service than replicas, else the newest, is one of Responder's: a repair, not a cause."`
	FlagsChanged       bool            `json:"flags_changed" doc:"A flag of the engine moved in those commits."`
	ImagesChanged      bool            `json:"images_changed" doc:"An image moved."`
	ReplicasChanged    bool            `json:"replicas_changed" doc:"The number of replicas, or a bound of it, moved."`
	Variables          []string        `json:"variables" doc:"What moved, each once: --max-num-seqs, image, replicas, or the path of a field."`
	Commits            []commitOut     `json:"commits" doc:"All that touched the service within the window, newest first."`
	Diff               []touchOut      `json:"diff" doc:"What those commits moved, field by field, as far as it can be told."`
	Deployments        []deploymentOut `json:"deployments" doc:"Argo CD's deployments within the window, newest first."`
}

type commitOut struct {
	SHA        string  `json:"sha" doc:"The commit."`
	Subject    string  `json:"subject" doc:"Its first line."`
	Author     string  `json:"author" doc:"Who wrote it."`
	AgeSeconds float64 `json:"age_seconds" unit:"seconds" doc:"Since it was committed; of a commit older than the window, since it was deployed."`
	Ours       bool    `json:"ours" doc:"It is one of Responder's."`
}

type touchOut struct {
	SHA      string `json:"sha" doc:"The commit."`
	Variable string `json:"variable" doc:"What moved."`
	File     string `json:"file" doc:"In which file."`
	From     string `json:"from" doc:"Value before; empty: it was added."`
	To       string `json:"to" doc:"Value after; empty: it was removed."`
}

type deploymentOut struct {
	ID         int64   `json:"id" doc:"Of Argo CD's history."`
	Revision   string  `json:"revision" doc:"What was deployed."`
	AgeSeconds float64 `json:"age_seconds" unit:"seconds" doc:"Since then."`
	By         string  `json:"by" doc:"Who asked for it; empty: automated, or not known."`
}

type changesWith struct {
	Window step.Duration `json:"window" required:"true" doc:"How long ago counts: the burn window of the alert, e.g. 1h."`
}

// Run implements [step.Check].
func (c gitopsChanges) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[changesWith](ChangesKind(), in.With)
	if err != nil {
		return step.Finding{}, err
	}
	if err := c.readable(); err != nil {
		return step.Finding{}, err
	}
	at, err := c.find(ctx, in)
	if err != nil {
		return step.Finding{}, err
	}
	if len(at.app.History) == 0 {
		return step.Finding{}, &fault.Error{Reason: fault.NoData, Message: fmt.Sprintf(
			"%s has no history: it was never synced, or its revisionHistoryLimit is 0; deployment times are unknown", at.app.Title())}
	}
	window := time.Duration(with.Window)
	changes, err := c.arrivals(ctx, at, in.Now.Add(-window))
	if err != nil {
		return step.Finding{}, err
	}
	out := gitChangesOut{
		AgeSeconds: -1, DeployedAgeSeconds: -1,
		Variables: []string{}, Commits: []commitOut{}, Diff: []touchOut{}, Deployments: []deploymentOut{},
	}
	for _, ch := range changes {
		out.commit(ch, in.Now)
	}
	gone := undone(touched(changes))
	stand := slices.DeleteFunc(slices.Clone(changes), func(a arrival) bool { return gone[a.Commit.SHA] })
	out.Ours = len(stand) > 0 && repairs(newestRelease(stand).Commit)
	out.deployments(at, in.Now, window)
	return step.Finding{Out: out, Facts: out.facts(in.Service.Name, at, window)}, nil
}

// newestRelease returns the newest commit that changed more than replicas, else
// the newest.
func newestRelease(changes []arrival) arrival {
	for _, ch := range changes {
		if rollsOut(ch.Touched) {
			return ch
		}
	}
	return changes[0]
}

// commit adds a commit.
func (o *gitChangesOut) commit(ch arrival, now time.Time) {
	age := max(now.Sub(ch.At).Seconds(), 0)
	ours := repairs(ch.Commit)
	o.Commits = append(o.Commits, commitOut{ch.Commit.SHA, ch.Commit.Subject, ch.Commit.Author.Name, age, ours})
	if ours {
		return
	}
	if !o.Changed {
		o.AgeSeconds = age
	}
	o.Changed = true
	o.Count++
	for _, t := range ch.Touches {
		o.Diff = append(o.Diff, touchOut{ch.Commit.SHA, t.Variable, t.File, t.From, t.To})
		if !slices.Contains(o.Variables, t.Variable) {
			o.Variables = append(o.Variables, t.Variable)
		}
		o.FlagsChanged = o.FlagsChanged || strings.HasPrefix(t.Variable, "--")
		o.ImagesChanged = o.ImagesChanged || t.Variable == "image"
		o.ReplicasChanged = o.ReplicasChanged || t.Variable == (gitops.Variable{Replicas: true}).String()
	}
}

// deployments takes the application's history in.
func (o *gitChangesOut) deployments(at site, now time.Time, window time.Duration) {
	h := at.app.History
	revision := func(d gitops.Deployment) string {
		if at.index < len(d.Revisions) {
			return d.Revisions[at.index]
		}
		return strings.Join(d.Revisions, ",")
	}
	for i := len(h) - 1; i >= 0; i-- {
		age := max(now.Sub(h[i].At), 0)
		if i == len(h)-1 {
			o.DeployedAgeSeconds = age.Seconds()
		}
		if age > window {
			return
		}
		o.Deployments = append(o.Deployments, deploymentOut{h[i].ID, revision(h[i]), age.Seconds(), h[i].By})
		// What the oldest entry took the place of is not known.
		o.Deployed = o.Deployed || i == 0 || revision(h[i-1]) != revision(h[i])
	}
}

func (o *gitChangesOut) facts(service string, at site, window time.Duration) []string {
	seconds := func(s float64) string { return step.DurationText(time.Duration(s * float64(time.Second))) }
	var facts []string
	if len(o.Commits) == 0 {
		facts = append(facts, fmt.Sprintf("no commit of the last %s touched the manifests of %s", step.DurationText(window), service))
	}
	for i, c := range o.Commits {
		if i == 10 {
			facts = append(facts, fmt.Sprintf("and %d more commits", len(o.Commits)-i))
			break
		}
		by := c.Author
		if c.Ours {
			by = "Responder"
		}
		line := fmt.Sprintf("%s %q by %s, %s ago", short(c.SHA), c.Subject, step.OrNone(by), seconds(c.AgeSeconds))
		for _, d := range o.Diff {
			if d.SHA == c.SHA {
				line += fmt.Sprintf("; %s %s -> %s", d.Variable, step.OrNone(d.From), step.OrNone(d.To))
			}
		}
		facts = append(facts, line)
	}
	if len(o.Deployments) > 0 {
		facts = append(facts, fmt.Sprintf("%s deployed %s %s ago", at.app.Title(), short(o.Deployments[0].Revision), seconds(o.Deployments[0].AgeSeconds)))
	}
	return facts
}
