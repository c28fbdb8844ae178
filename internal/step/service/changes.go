package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// ChangesKind declares service.changes.
func ChangesKind() playbook.Kind {
	return playbook.Kind{
		Name: "service.changes",
		Role: playbook.RoleCheck,
		Doc: `Reads what changed about the service within the window, in the cluster and, where Argo CD or Flux owns the workload, in Git, and weighs whether that is what
began the breach. A release is a suspect when the service met its objectives before it took effect, or was clearly better, and nothing explains the
breach better. Revisions that became current within the window are weighed together: what came after the breach began is not the cause, and of those before it
the last one is, with those right before it on which the service is not known to have met all its objectives. ` + "`target`" + ` is the revision before those. One that
was taken back, measured without it and put back in the cluster because that did not help is not the cause, until another comes. In this order: pods of both revisions that serve side by side decide; one bad pod is the cause itself where every other pod of its revision is
well; traffic of 1.5 times that before with requests in the queue, or of three times, or of twice the prompt tokens in longer
prompts, explains the breach better; labels, annotations, logging and more replicas cannot be the cause. That traffic is
the one when the breach began; one that grew later counts only where it was 1.2 times that before by
then, or another release came since. Neither it nor an earlier breach
explains a prefill that takes three times as long as before the change, beyond what tokens take longer, where prompts and prefix hits are as they were. ` + "`why`" + ` says which, with figures.

Where Git or Prometheus cannot be read, the rest still counts, and ` + "`missing`" + ` says what is not known. The check fails only where neither the
cluster nor Git can be read. Faulty hardware is ruled out by gpu.health, not here.`,
		With: step.Fields[changesWith](),
		Out:  step.Fields[changesOut](),
	}
}

type changesWith struct {
	Window step.Duration `json:"window" doc:"How long ago counts. Unset: the long window of the alert by its label long, else 1h, and at least from 30m before the breach began."`
}

type changesOut struct {
	Changed      bool          `json:"changed" doc:"Something else than before took effect within the window, by whomever."`
	Ours         bool          `json:"ours" doc:"What runs now was put in place by a rollback or a commit of Responder's: a repair, not a cause."`
	Matters      bool          `json:"matters" doc:"Something moved that can change how requests are served: not only labels, annotations, logging or more replicas."`
	Suspect      bool          `json:"suspect" doc:"It is not ours, the breach began after it took effect, and nothing explains the breach better."`
	Unserved     bool          `json:"unserved" doc:"No pod of the current revision is ready or answered requests within five minutes, as far as series have the label pod, and as many of the newest one that has ready pods serve as are wanted: what came after that one is not what breaches the SLO."`
	WorseSide    bool          `json:"worse_side" doc:"Pods of the current revision and of the one before the suspects serve side by side, and those of the current one miss the objective, the others not: the newest change is no repair."`
	Loaded       bool          `json:"loaded" doc:"The load now would explain a breach by itself, by the multiples above: without the release more replicas may still be called for. False where it is not known, or nothing changed."`
	Why          string        `json:"why" doc:"Why it is a suspect or not, in one sentence with figures."`
	AgeSeconds   float64       `json:"age_seconds" unit:"seconds" doc:"Since the newest change took effect; of none within the window, since the current revision became current; -1: not known."`
	At           *time.Time    `json:"at,omitempty" doc:"When that was; unset: not known. Compare moments with it: age_seconds is as of the look, which may take a while."`
	WorkedAt     *time.Time    `json:"worked_at,omitempty" doc:"When somebody last worked on the service: the newest change of its pods that is not ours, or of its replicas in Git. Labels and annotations that only describe do not count, as a bot may keep them. Unset: none within the window."`
	Window       step.Duration `json:"window" doc:"How long ago counted."`
	Since        *time.Time    `json:"since,omitempty" doc:"When the breach began: as measured, else when the alert began to fire; unset: there is none."`
	What         []string      `json:"what" doc:"What moved, field by field with both values, at most 40; secrets are redacted."`
	Revision     int64         `json:"revision" doc:"Number of the current revision; 0: not known."`
	RevisionName string        `json:"revision_name" doc:"Its ReplicaSet or ControllerRevision."`
	Previous     int64         `json:"previous" doc:"Number of the revision directly before it; 0: there is none, or it is not known."`
	PreviousName string        `json:"previous_name" doc:"Its ReplicaSet or ControllerRevision."`
	Target       int64         `json:"target" doc:"Number of the revision that service.rollback should go back to in the cluster: the one that was current right before the releases that may have begun the breach, or, of a release that cannot start, the one that serves; 0: not known, or nothing changed."`
	Base         int64         `json:"base" doc:"Number of the revision that was current before all releases of the window; 0: it is not kept, or nothing changed. If that one is known to have missed an objective, the first release of the window before the suspect that met them all. Where the objectives do not show the fault, go back to this one."`
	Releases     []releaseOut  `json:"releases" doc:"Revisions that became current within the window, oldest first."`
	Cause        string        `json:"cause" doc:"The kubernetes.io/change-cause of the current revision; often empty."`
	Commits      []commitOut   `json:"commits" doc:"Commits that touched the service's manifests within the window, newest first."`
	Cluster      string        `json:"cluster" enum:"read,unknown" doc:"Whether the workload's revisions were read."`
	Git          string        `json:"git" enum:"none,read,unknown" doc:"Whether the commits were read; none: Git does not own the service, as far as is known."`
	Missing      string        `json:"missing" doc:"What could not be read, and why; empty: nothing."`
	Traffic      *float64      `json:"traffic,omitempty" doc:"Requests or prompt tokens that arrive now, in multiples of before; unset: not known, or not asked because nothing changed."`
	Waiting      *float64      `json:"waiting,omitempty" unit:"requests" doc:"Requests in the queue now; unset as traffic."`
	RatioBefore  *float64      `json:"ratio_before,omitempty" unit:"ratio" doc:"Bad share of the worst objective before the change took effect."`
	Sides        []sideOut     `json:"sides" doc:"The releases that may have begun the breach and the revision before them, now; empty unless pods of both serve."`
}

type releaseOut struct {
	Revision   int64   `json:"revision" doc:"Number of the revision."`
	AgeSeconds float64 `json:"age_seconds" unit:"seconds" doc:"Since it became current."`
	Cause      string  `json:"cause" doc:"Its kubernetes.io/change-cause; often empty."`
}

type sideOut struct {
	Revision int64   `json:"revision" doc:"Number of the revision; of several that may have begun the breach, the current one's."`
	Requests float64 `json:"requests" unit:"requests" doc:"Requests on its pods within five minutes."`
	Ratio    float64 `json:"ratio" unit:"ratio" doc:"Bad share of the worst objective."`
}

type commitOut struct {
	SHA        string  `json:"sha" doc:"The commit."`
	Subject    string  `json:"subject" doc:"Its first line."`
	Author     string  `json:"author" doc:"Who wrote it."`
	AgeSeconds float64 `json:"age_seconds" unit:"seconds" doc:"Since it was made; of a commit older than the window, since it was deployed."`
	Ours       bool    `json:"ours" doc:"It is one of Responder's."`
	Deployed   bool    `json:"deployed" doc:"What runs contains it."`
}

// Answers of changesOut.Cluster and changesOut.Git.
const (
	sourceNone    = "none"
	sourceRead    = "read"
	sourceUnknown = "unknown"
)

// maxWhat bounds the fields that evidence lists.
const maxWhat = 40

// usualWindow is how long ago counts where the alert does not say.
const usualWindow = time.Hour

// History reads the commits of a service.
type History interface {
	// Arrivals returns the commits that touched the service's manifests and were made
	// or deployed since then, newest first.
	Arrivals(ctx context.Context, in step.Input, since time.Time) ([]step.Arrival, error)
	// Committed reports whether the current revision comes from a commit by Responder:
	// from a repair, or put back by the undo of one. If that cannot be found out the
	// answer is no, with a note.
	Committed(ctx context.Context, in step.Input, current kube.Revision) (ours, putBack bool, note string)
}

type changes struct {
	w   step.Workloads
	q   step.Querier
	git History
}

// NewChanges returns the check service.changes.
func NewChanges(d step.Deps, git History) step.Check { return changes{d.Workloads, d.Querier, git} }

// found collects the evidence of one look.
type found struct {
	out     changesOut
	missing []string
	pods    []kube.Pod
	desired int       // replicas that are wanted
	serves  int64     // number of the newest revision before the current one that has ready pods; 0: none
	became  time.Time // when the current revision took effect; zero: not within the window
	commit  time.Time // when the newest commit of others took effect, of those that somebody means
	live    time.Time // when the newest revision took effect that moved something that somebody means
	moved   []string  // short names of what moved
	group   []string  // of that, what those releases moved that may have begun the breach; nil: all of it

	releases releases
	byCommit bool      // a commit is weighed, not a release
	subject  string    // what is weighed
	first    time.Time // when the first of it took effect
	at       time.Time // when the last of it took effect
	matters  bool      // it can change how requests are served
}

// Run implements [step.Check].
func (c changes) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[changesWith](ChangesKind(), in.With)
	switch {
	case err != nil:
		return step.Finding{}, err
	case c.w == nil:
		return step.Finding{}, step.NotConfigured("cluster", "kubernetes")
	}
	f := &found{out: changesOut{AgeSeconds: -1, What: []string{}, Commits: []commitOut{}, Releases: []releaseOut{}, Sides: []sideOut{}, Git: sourceNone}}
	b := c.breach(ctx, in, f)
	window := windowOf(with, in, b.since)
	f.out.Window = step.Duration(window)
	clusterErr := c.cluster(ctx, in, f, window, &b)
	gitErr := c.commits(ctx, in, f, window)
	if clusterErr != nil && f.out.Git != sourceRead {
		return step.Finding{}, clusterErr
	}
	f.lacks("the cluster", clusterErr)
	f.lacks("Git", gitErr)
	if age := f.out.AgeSeconds; age >= 0 {
		at := in.Now.Add(-time.Duration(age * float64(time.Second))).UTC().Round(time.Millisecond)
		f.out.At = &at
	}
	if worked := f.worked(); !worked.IsZero() {
		at := worked.UTC().Round(time.Millisecond)
		f.out.WorkedAt = &at
	}
	if !b.since.IsZero() {
		at := b.since.UTC()
		f.out.Since = &at
	}
	if f.out.Changed && !f.out.Ours {
		c.compare(ctx, in, f, &b)
	}
	f.out.Missing = strings.Join(f.missing, "; ")
	w := f.weight(b, window)
	f.out.Suspect, f.out.Why = w.weigh()
	if !f.out.Suspect && w.excused() {
		if b.slower, err = c.slowed(ctx, in, f, &b); err != nil {
			f.lacks("the time of prefill", err)
			f.out.Missing = strings.Join(f.missing, "; ")
		}
		f.out.Suspect, f.out.Why = f.weight(b, window).weigh()
	}
	f.out.WorseSide = f.out.Suspect && w.worse()
	if r := &f.releases; r.why != "" && f.out.Base > 0 {
		f.out.Why += "; " + r.why
	}
	return step.Finding{Out: f.out, Facts: f.facts(in)}, nil
}

// windowOf returns how long ago counts.
func windowOf(with changesWith, in step.Input, since time.Time) time.Duration {
	if with.Window > 0 {
		return time.Duration(with.Window)
	}
	window := usualWindow
	if long, err := playbook.ParseDuration(in.Alert.Labels["long"]); err == nil {
		window = max(window, long)
	}
	if !since.IsZero() {
		window = max(window, in.Now.Sub(since).Round(time.Second)+beforeBreach)
	}
	return window
}

// beforeBreach is how long before a breach its cause may have taken effect: a
// change takes a while to show.
const beforeBreach = 30 * time.Minute

// lacks records what could not be read.
func (f *found) lacks(what string, err error) {
	if err == nil {
		return
	}
	if why := what + " could not be read: " + step.AsError(err).Message; !slices.Contains(f.missing, why) {
		f.missing = append(f.missing, why)
	}
}

// cluster reads the revisions of the workload.
func (c changes) cluster(ctx context.Context, in step.Input, f *found, window time.Duration, b *breach) error {
	f.out.Cluster = sourceUnknown
	ref := step.RefOf(in.Service)
	w, err := c.w.Workload(ctx, ref)
	if err != nil {
		return err
	}
	f.pods, f.desired = w.Pods, w.Replicas
	if slices.ContainsFunc(w.Owners, kube.Owner.Deploys) {
		f.out.Git = sourceUnknown // until it is read
	}
	revisions, err := c.w.Revisions(ctx, ref)
	if err != nil {
		return err
	}
	current, previous := kube.Newest(revisions)
	if current == nil {
		return &fault.Error{Reason: fault.NoData, Message: fmt.Sprintf("%s has no revision history yet", step.RefText(ref))}
	}
	out := &f.out
	out.Cluster, out.Revision, out.RevisionName, out.Ours = sourceRead, current.Number, current.Name, current.Ours
	out.Cause = current.Cause
	age := max(in.Now.Sub(current.Became()), 0)
	out.AgeSeconds = age.Seconds()
	if !out.Ours {
		ours, putBack, note := c.git.Committed(ctx, in, *current)
		current.PutBack = current.PutBack || putBack
		if out.Ours = ours; note != "" {
			f.missing = append(f.missing, note)
		}
	}
	if previous == nil {
		return nil
	}
	out.Previous, out.PreviousName = previous.Number, previous.Name
	f.releases = releasesOf(revisions, in.Now, window)
	f.serve()
	if f.releases.of() > 0 {
		c.released(ctx, in, f, b)
	}
	out.Target, out.Base = f.aim()
	return nil
}

// released weighs the releases of the window. What Responder put in place is not
// weighed.
func (c changes) released(ctx context.Context, in step.Input, f *found, b *breach) {
	r, out := &f.releases, &f.out
	for _, v := range r.past[r.begin:] {
		out.Releases = append(out.Releases, releaseOut{v.Number, max(in.Now.Sub(v.at), 0).Seconds(), v.Cause})
	}
	out.Changed, f.became = true, r.current().Became()
	if !out.Ours {
		c.choose(ctx, in, f, b)
		c.rebase(ctx, in, f, b)
		if r.note != "" && r.of() > 1 {
			f.missing = append(f.missing, r.note)
		}
	}
	f.subject = r.numbers(r.first, r.last)
	f.first, f.at = r.past[r.first].at, r.past[r.last].at
	f.moves()
}

// works reports whether somebody means a change of a field: all but labels and
// annotations that only describe. One of those records that somebody restarted the
// pods, as kubectl rollout restart does.
func works(path string) bool {
	return !kube.Describes(path) || strings.Contains(path, "kubectl.kubernetes.io/restartedAt")
}

// worked returns when somebody else last worked on the service; zero: not within the
// window. Where the current revision is ours, later commits of others still count.
func (f *found) worked() time.Time {
	if !f.out.Ours && f.live.After(f.commit) {
		return f.live
	}
	return f.commit
}

// field adds a field that moved.
func (f *found) field(path, from, to string) {
	if len(f.out.What) < maxWhat {
		f.out.What = append(f.out.What, fmt.Sprintf("%s: %s -> %s", path, step.OrNone(from), step.OrNone(to)))
	}
	if name := shortName(path); !slices.Contains(f.moved, name) {
		f.moved = append(f.moved, name)
	}
}

// facts returns the lines for people.
func (f *found) facts(in step.Input) []string {
	out := f.out
	facts := []string{out.Why}
	if out.Revision > 0 {
		line := fmt.Sprintf("%s runs revision %d", step.RefText(step.RefOf(in.Service)), out.Revision)
		if out.AgeSeconds >= 0 {
			line += ", changed " + step.DurationText(time.Duration(out.AgeSeconds*float64(time.Second))) + " ago"
		}
		if out.Cause != "" {
			line += ", because: " + out.Cause
		}
		facts = append(facts, line)
	}
	for _, c := range out.Commits[:min(len(out.Commits), 5)] {
		by := c.Author
		if c.Ours {
			by = "Responder"
		}
		line := fmt.Sprintf("commit %s %q by %s", shortSHA(c.SHA), c.Subject, step.OrNone(by))
		if !c.Deployed {
			line += ", not deployed yet"
		}
		facts = append(facts, line)
	}
	if r := &f.releases; r.of() > 1 {
		facts = append(facts, r.text(out.Window, in.Now))
	}
	if len(out.What) > 0 {
		facts = append(facts, out.What[:min(len(out.What), 10)]...)
	}
	if n := len(out.What); n > 10 {
		facts = append(facts, fmt.Sprintf("and %d more fields", n-10))
	}
	return append(facts, f.missing...)
}

func shortSHA(sha string) string { return sha[:min(len(sha), 9)] }
