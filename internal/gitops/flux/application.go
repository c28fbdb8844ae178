package flux

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/inference-responder/responder/internal/credential"
	"github.com/inference-responder/responder/internal/gitops"
)

// Reasons of the condition Ready for which a commit is not applied, and is not by the
// next attempt either: the commit itself is at fault.
var failed = []string{"BuildFailed", "ReconciliationFailed"}

// unhealthy is the reason for which a commit is applied, and what it deploys is not
// healthy in time.
const unhealthy = "HealthCheckFailed"

// application returns a Kustomization and its source as an application.
func application(k kustomization, r repository) gitops.Application {
	s := stateOf(k)
	app := gitops.Application{
		Name: gitops.FluxName(k.Metadata.Namespace, k.Metadata.Name), UID: k.Metadata.UID,
		Sources:   []gitops.Source{{Repository: gitops.WithoutUser(r.Spec.URL), Path: sourcePath(k.Spec.Path)}},
		Chart:     []string{""},
		Target:    []string{target(r)},
		Values:    [][]string{nil},
		Refs:      []string{""},
		Releases:  []string{""},
		Sync:      s.sync,
		Health:    s.health,
		Message:   s.message,
		Automated: true, SelfHeal: true, Prunes: k.Spec.Prune,
		Deleting:  k.Metadata.DeletionTimestamp != nil,
		Suspended: suspended(k, r),
		Polls:     r.Spec.Interval,
		Operation: s.operation,
		Problems:  problems(k, r),
		Overrides: overrides(k),
		History:   history(k),
	}
	app.Sources[0].Branch = app.Target[0]
	if s.compared != "" {
		app.Revisions = []string{s.compared}
	}
	if n := len(k.Status.History); n > 0 {
		app.Compared = k.Status.History[0].LastReconciled
	}
	app.Resources = k.Status.Inventory.resources()
	return app
}

// state is how far Flux has come with a Kustomization.
type state struct {
	sync, health, message string
	compared              string // commit
	operation             gitops.Operation
}

// stateOf reads the conditions and the revisions of a Kustomization together: the
// condition Ready alone does not say of which commit it speaks.
func stateOf(k kustomization) state {
	st := k.Status
	ready, reconciling := conditionOf(st.Conditions, "Ready"), conditionOf(st.Conditions, "Reconciling")
	applied, attempted := sha(st.LastAppliedRevision), sha(cmp.Or(st.LastAttemptedRevision, st.LastAppliedRevision))
	same := applied != "" && applied == attempted
	s := state{sync: "Unknown", health: "Unknown", compared: attempted, message: clean(ready.Message)}
	s.operation = gitops.Operation{By: gitops.Flux, Revisions: []string{attempted}, Message: s.message, Finished: ready.LastTransitionTime}
	current := st.ObservedGeneration == k.Metadata.Generation
	switch {
	case attempted == "":
		s.operation = gitops.Operation{Running: reconciling.Status == "True", By: gitops.Flux, Message: clean(reconciling.Message)}
	case ready.Status == "True" && current && same:
		s.sync, s.health, s.message, s.operation.Phase = "Synced", "Healthy", "", "Succeeded"
	case ready.Status == "False" && ready.Reason == unhealthy:
		s.sync, s.health, s.operation.Phase = "Synced", "Degraded", "Succeeded"
	case ready.Status == "False" && slices.Contains(failed, ready.Reason):
		s.sync, s.operation.Phase = "OutOfSync", "Failed"
	case ready.Status == "False": // nothing was tried yet: a dependency or an artifact is missing
		s.sync, s.operation = "OutOfSync", gitops.Operation{}
	case reconciling.Status == "True" && (same || waitsForHealth(reconciling)):
		s.sync, s.health, s.operation.Phase, s.message = "Synced", "Progressing", "Succeeded", clean(reconciling.Message)
	default: // another commit is on its way in, or the Kustomization itself was changed
		s.sync = "OutOfSync"
		if s.operation.Running, s.operation.Message = reconciling.Status == "True", clean(reconciling.Message); !s.operation.Running {
			s.operation = gitops.Operation{}
		}
	}
	return s
}

// waitsForHealth reports whether a commit is applied, and Flux waits until its objects
// are healthy. The message is the only place where Flux tells.
func waitsForHealth(c condition) bool { return strings.HasPrefix(c.Message, "Running health checks") }

// suspended returns which object Flux was told to leave alone; empty: none.
func suspended(k kustomization, r repository) string {
	switch {
	case k.Spec.Suspend:
		return "Kustomization " + k.Metadata.Namespace + "/" + k.Metadata.Name
	case r.Spec.Suspend:
		return "GitRepository " + r.Metadata.Namespace + "/" + r.Metadata.Name
	}
	return ""
}

// problems lists what keeps Flux from deploying, in its own words.
func problems(k kustomization, r repository) []string {
	var out []string
	add := func(what string, c condition) {
		if c.Status == "False" {
			out = append(out, what+": "+c.Reason+": "+clean(c.Message))
		}
	}
	add("GitRepository "+r.Metadata.Namespace+"/"+r.Metadata.Name, conditionOf(r.Status.Conditions, "Ready"))
	if c := conditionOf(k.Status.Conditions, "Ready"); c.Reason != unhealthy {
		add("Kustomization", c)
	}
	return out
}

// overrides lists what the Kustomization's spec decides beside its manifests. Flux
// applies patches and images after the build, and replaces variables.
func overrides(k kustomization) []gitops.Override {
	var out []gitops.Override
	for _, o := range []struct {
		field string
		set   bool
	}{
		{"spec.components", set(k.Spec.Components)},
		{"spec.ignore", set(k.Spec.Ignore)},
		{"spec.images", set(k.Spec.Images)},
		{"spec.namePrefix", k.Spec.NamePrefix != ""},
		{"spec.nameSuffix", k.Spec.NameSuffix != ""},
		{"spec.patches", set(k.Spec.Patches)},
		{"spec.postBuild", set(k.Spec.PostBuild)},
	} {
		if o.set {
			out = append(out, gitops.Override{Field: o.field})
		}
	}
	return out
}

// set reports whether a field of the spec holds anything.
func set(field []byte) bool {
	return len(field) > 0 && !slices.Contains([]string{"null", "[]", "{}"}, string(field))
}

// history returns what was applied, oldest first. An entry that was applied again later
// has the time at which the one between them ended: it has one entry for both.
func history(k kustomization) []gitops.Deployment {
	var out []gitops.Deployment
	entries := slices.Clone(k.Status.History)
	slices.SortStableFunc(entries, func(a, b snapshot) int { return a.LastReconciled.Compare(b.LastReconciled) })
	var before snapshot
	for _, e := range entries {
		commit := sha(e.Metadata["revision"])
		if commit == "" || e.LastReconciledStatus != "ReconciliationSucceeded" && e.LastReconciledStatus != unhealthy {
			continue // nothing of it was applied, or it is not known what
		}
		at := e.FirstReconciled
		if at.Before(before.LastReconciled) {
			at = before.LastReconciled
		}
		out = append(out, gitops.Deployment{ID: at.Unix(), Revisions: []string{commit}, At: at})
		before = e
	}
	if applied := sha(k.Status.LastAppliedRevision); len(out) == 0 && applied != "" {
		out = append(out, gitops.Deployment{Revisions: []string{applied}})
	}
	return out
}

// resource reads an entry of the inventory: namespace_name_group_kind, in which a colon
// of a name is __ (https://github.com/fluxcd/cli-utils, object.ParseObjMetadata).
func resource(id string) (gitops.Resource, bool) {
	namespace, rest, ok := strings.Cut(id, "_")
	i := strings.LastIndex(rest, "_")
	if !ok || i < 0 {
		return gitops.Resource{}, false
	}
	rest, kind := rest[:i], rest[i+1:]
	if i = strings.LastIndex(rest, "_"); i < 0 {
		return gitops.Resource{}, false
	}
	return gitops.Resource{Group: rest[i+1:], Kind: kind, Namespace: namespace, Name: strings.ReplaceAll(rest[:i], "__", ":")}, true
}

// target returns the branch that a GitRepository follows. Anything else is written as
// no branch is: a tag as refs/tags/TAG, a commit as itself. Flux prefers them in this
// order, and takes master where nothing is named
// (https://fluxcd.io/flux/components/source/gitrepositories/#reference).
func target(r repository) string {
	ref := r.Spec.Ref
	switch {
	case ref.Commit != "":
		return ref.Commit
	case ref.Name != "":
		return ref.Name
	case ref.SemVer != "":
		return "refs/tags/" + ref.SemVer
	case ref.Tag != "":
		return "refs/tags/" + ref.Tag
	}
	return cmp.Or(ref.Branch, "master")
}

// sha returns the commit of a revision: main@sha1:0123..., sha1:0123....
func sha(revision string) string {
	if i := strings.LastIndexByte(revision, ':'); i >= 0 {
		return revision[i+1:]
	}
	return ""
}

// sourcePath returns spec.path as a path from the repository's root.
func sourcePath(p string) string {
	if p = path.Clean("/" + p); p == "/" {
		return ""
	}
	return p[1:]
}

// clean makes a text of Flux fit for people: one line, without credentials, bounded.
func clean(s string) string {
	const most = 500
	s = credential.Redact(s)
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
