package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// syncDelay is how long after a commit Argo CD has synced it: it polls, or a webhook
// tells it, and then it applies what changed.
const syncDelay = 20 * time.Second

// argoNamespace is where the applications are. Each is named as its workload.
const argoNamespace = "argocd"

// trackingID is the annotation by which Argo CD finds what it manages.
const trackingID = "argocd.argoproj.io/tracking-id"

// application is Argo CD's, of one service.
type application struct {
	revision string              // that the live state was compared with last
	history  []gitops.Deployment // oldest first
	op       gitops.Operation    // the last one
}

// inGit puts a service into Git.
func (s *serviceSpec) inGit() {
	s.git = true
	s.service.GitOps = playbook.GitOps{Application: argoNamespace + "/" + s.service.Workload.Name}
}

// directory is where the repository has the manifest of a workload.
func (f *fleet) directory() string { return "apps/" + f.ref.Name }

func (f *fleet) manifestPath() string { return f.directory() + "/deployment.yaml" }

func (f *fleet) tracking() string {
	return fmt.Sprintf("%s:apps/%s:%s/%s", f.ref.Name, f.ref.Kind, f.ref.Namespace, f.ref.Name)
}

func (f *fleet) argoOwner() kube.Owner {
	return kube.Owner{Field: "*", Kind: kube.ArgoCD, Name: f.ref.Name, Why: "annotation " + trackingID}
}

// firstCommits makes the commits that the services in Git were deployed from before the
// world's history begins.
func (w *World) firstCommits() {
	type first struct {
		f  *fleet
		r  revisionSpec
		at time.Time
	}
	var all []first
	for _, f := range w.fleets {
		for _, r := range f.spec.revisions {
			if at := w.start.Add(-r.age); f.app != nil && !at.After(w.start.Add(-history)) {
				all = append(all, first{f, r, at})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b first) int { return a.at.Compare(b.at) })
	for _, c := range all {
		w.git.add(c.f.person(c.r.cause, c.f.write(c.f.replicas, c.r.fields)), c.at)
		c.f.app.synced(w.git.head().SHA, c.at, "", true)
	}
	for _, f := range w.fleets {
		if f.app != nil {
			f.app.revision = w.git.head().SHA
		}
	}
}

// person returns the push of somebody who writes the manifest of a workload.
func (f *fleet) person(subject string, manifest []byte) push {
	return push{
		Author: gitops.Person{Name: "Sam", Email: "sam@sandbox"}, Subject: f.ref.Name + ": " + cmp.Or(subject, "change"),
		Files: []gitops.File{{Path: f.manifestPath(), Data: manifest}},
	}
}

// released starts a new revision of a workload, by a person's commit or rollout.
// A commit changes what the revision changes against the one before it, and nothing that
// others committed meanwhile.
func (w *World) released(f *fleet, r revisionSpec, at time.Time) {
	if f.app == nil {
		f.release(r, at)
		return
	}
	replicas, fields := f.committed(w.git.head())
	before := map[string]string{}
	if i := slices.IndexFunc(f.spec.revisions, func(o revisionSpec) bool { return o.age == r.age }); i > 0 {
		before = f.spec.revisions[i-1].fields
	}
	for path := range before {
		if _, stays := r.fields[path]; !stays {
			delete(fields, path)
		}
	}
	for path, value := range r.fields {
		if was, there := before[path]; !there || was != value {
			fields[path] = value
		}
	}
	w.git.add(f.person(r.cause, f.write(replicas, fields)), at)
}

// scaled sets the replicas as a person does, in Git or by hand.
func (w *World) scaled(f *fleet, replicas int, at time.Time) {
	if f.app == nil {
		f.replicas, f.scaledBy = replicas, ""
		f.generation++
		return
	}
	_, fields := f.committed(w.git.head())
	w.git.add(f.person(fmt.Sprintf("%d replicas", replicas), f.write(replicas, fields)), at)
}

// committed returns what a commit has of a workload.
func (f *fleet) committed(c revision) (replicas int, fields map[string]string) {
	replicas, fields, err := parse(c.file(f.manifestPath()))
	if err != nil {
		panic(fmt.Sprintf("the simulated repository: %s: %s", f.manifestPath(), err)) // unreachable: only [fleet.write] and the editor wrote it
	}
	return replicas, fields
}

// deploy syncs the commits that Argo CD has had time to notice.
func (w *World) deploy(f *fleet, at time.Time) {
	if f.app == nil {
		return
	}
	i := len(w.git) - 1
	for i > 0 && w.git[i].At.Add(syncDelay).After(at) {
		i--
	}
	if old, err := w.git.at(f.app.revision); err == nil && i > old {
		f.sync(w.git, old, i, at, "")
	}
}

// sync brings a workload from one commit to another.
func (f *fleet) sync(b branch, from, to int, at time.Time, key string) {
	f.app.revision = b[to].SHA
	replicas, fields := f.committed(b[to])
	was, before := f.committed(b[from])
	changed := replicas != was || !maps.Equal(fields, before)
	if changed || key != "" {
		f.app.synced(b[to].SHA, at, key, changed)
	}
	if replicas >= 0 && replicas != was {
		f.replicas, f.scaledBy = replicas, ""
		f.generation++
	}
	if !maps.Equal(fields, before) {
		f.template(fields, at)
	}
	if ours := func(c revision) bool { return c.Trailers[gitops.TrailerEffect] != "" }; f.changed.IsZero() && slices.ContainsFunc(b[from+1:to+1], ours) {
		f.changed = at
	}
}

// template makes a pod template the current one. The Deployment controller finds a
// revision that had the same.
func (f *fleet) template(fields map[string]string, at time.Time) {
	for path, value := range f.current().fields {
		if strings.HasPrefix(path, "metadata.") { // set in the cluster, and not in Git
			fields[path] = value
		}
	}
	for _, s := range f.sets {
		if maps.Equal(s.fields, fields) {
			if s != f.current() {
				f.undo(s.revision, at)
			}
			return
		}
	}
	r := revisionSpec{fields: fields}
	image := "containers[" + f.dialect().name + "].image"
	for _, known := range f.spec.revisions { // what an image is like does not depend on flags
		if known.fields[image] == fields[image] {
			r.image = known.image
		}
	}
	f.release(r, at)
}

// synced records an operation of Argo CD.
func (a *application) synced(sha string, at time.Time, key string, changed bool) {
	a.op = gitops.Operation{Phase: "Succeeded", Message: "successfully synced (all tasks run)", Revisions: []string{sha}, Key: key, Started: at, Finished: at}
	if key != "" {
		a.op.By = "responder"
	}
	if changed || key != "" {
		a.history = append(a.history, gitops.Deployment{ID: int64(len(a.history)), Revisions: []string{sha}, At: at, By: a.op.By})
	}
}

// managed returns the workload of an application. The caller holds mu.
func (w *World) managed(name string) (*fleet, error) {
	for _, f := range w.fleets {
		if f.app != nil && (name == f.ref.Name || name == argoNamespace+"/"+f.ref.Name) {
			return f, nil
		}
	}
	return nil, &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf("the simulated Argo CD has no application %s", name)}
}

// Application implements [step.Applications].
func (g *Git) Application(_ context.Context, name string) (gitops.Application, error) {
	g.now()
	defer g.w.mu.Unlock()
	f, err := g.w.managed(name)
	if err != nil {
		return gitops.Application{}, err
	}
	health, message := f.health(g.w.at)
	return gitops.Application{
		Name: argoNamespace + "/" + f.ref.Name, Project: "default", UID: "app-" + f.uid,
		Sources: []gitops.Source{{Repository: repositoryURL, Path: f.directory()}}, Chart: []string{""}, Target: []string{branchName}, Values: [][]string{nil}, Refs: []string{""}, Releases: []string{""},
		Revisions: []string{f.app.revision}, Sync: "Synced", Health: health, Message: message,
		Compared: g.w.at, Automated: true, SelfHeal: true, Operation: f.app.op, History: slices.Clone(f.app.history),
		Resources: []gitops.Resource{{Group: "apps", Kind: f.ref.Kind, Namespace: f.ref.Namespace, Name: f.ref.Name, Sync: "Synced", Health: health, Message: message}},
	}, nil
}

// health judges a workload as Argo CD judges a Deployment.
func (f *fleet) health(at time.Time) (health, message string) {
	w := f.describe(at)
	switch {
	case w.Stuck != "":
		return "Degraded", w.Stuck
	case w.Observed < w.Generation:
		return "Progressing", "Waiting for rollout to finish: observed deployment generation less than desired generation"
	case w.Updated < w.Replicas:
		return "Progressing", fmt.Sprintf("Waiting for rollout to finish: %d out of %d new replicas have been updated...", w.Updated, w.Replicas)
	case len(w.Pods) > w.Updated:
		return "Progressing", fmt.Sprintf("Waiting for rollout to finish: %d old replicas are pending termination...", len(w.Pods)-w.Updated)
	case w.Available < w.Updated:
		return "Progressing", fmt.Sprintf("Waiting for rollout to finish: %d of %d updated replicas are available...", w.Available, w.Updated)
	}
	return "Healthy", ""
}

// Refresh implements [step.Applications]. Argo CD looks by itself.
func (g *Git) Refresh(_ context.Context, name string) error {
	g.now()
	defer g.w.mu.Unlock()
	_, err := g.w.managed(name)
	return err
}

// Lacks implements [step.Applications]: no right is missing.
func (g *Git) Lacks(ctx context.Context, name string) (string, error) {
	return "", g.Refresh(ctx, name)
}

// Sync implements [step.Applications]. An application that syncs by itself is synced to
// the head alone.
func (g *Git) Sync(_ context.Context, s gitops.Sync) error {
	b := g.now()
	defer g.w.mu.Unlock()
	f, err := g.w.managed(s.Application)
	if err != nil {
		return err
	}
	if !slices.Equal(s.Revisions, []string{b.head().SHA}) {
		return &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("cannot sync %s to %s: auto-sync is on, to %s", s.Application, strings.Join(s.Revisions, ", "), branchName)}
	}
	return g.w.commit(change{At: g.w.clock.Now(), Ref: f.ref, Sync: true, Key: s.Key})
}

// applySync carries out a sync that was asked for.
func (w *World) applySync(f *fleet, c change) {
	if from, err := w.git.at(f.app.revision); err == nil {
		f.sync(w.git, from, len(w.git)-1, c.At, c.Key)
	}
}

// Stop implements [step.Applications]. An operation takes no time.
func (g *Git) Stop(ctx context.Context, name, _ string) error { return g.Refresh(ctx, name) }
