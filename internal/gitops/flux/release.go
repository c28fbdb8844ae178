package flux

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

// helmRelease is a HelmRelease, as far as it is used.
type helmRelease struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		Suspend         bool            `json:"suspend"`
		ReleaseName     string          `json:"releaseName"`
		TargetNamespace string          `json:"targetNamespace"`
		KubeConfig      json.RawMessage `json:"kubeConfig"`
		Chart           struct {
			Spec struct {
				Chart     string    `json:"chart"`
				SourceRef reference `json:"sourceRef"`
			} `json:"spec"`
		} `json:"chart"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration int64       `json:"observedGeneration"`
		Conditions         []condition `json:"conditions"`
		Inventory          inventory   `json:"inventory"` // since Flux 2.8
	} `json:"status"`
}

// releaseFailed are the reasons of the condition Ready for which Helm has tried a
// generation of a HelmRelease and failed, or has gone back from it
// (https://fluxcd.io/flux/components/helm/helmreleases/#failed-helmrelease).
var releaseFailed = []string{
	"InstallFailed", "UpgradeFailed", "TestFailed", "RollbackSucceeded", "RollbackFailed", "UninstallSucceeded", "UninstallFailed",
}

// title returns the HelmRelease for people.
func (h helmRelease) title() string {
	return "HelmRelease " + h.Metadata.Namespace + "/" + h.Metadata.Name
}

func (h helmRelease) owned(format string, args ...any) error {
	return &fault.Error{Reason: fault.Owned, Message: "Flux " + h.title() + " " + fmt.Sprintf(format, args...)}
}

// deployedBy returns the name of the Kustomization that deploys the manifest.
func (h helmRelease) deployedBy() (string, error) {
	const label = "kustomize.toolkit.fluxcd.io/"
	namespace, name := h.Metadata.Labels[label+"namespace"], h.Metadata.Labels[label+"name"]
	if namespace == "" || name == "" {
		return "", h.owned("is not labelled with the Kustomization that deploys it (%sname): a commit is not what changes it", label)
	}
	return gitops.FluxName(namespace, name), nil
}

// released returns a Kustomization and its source, together with a HelmRelease that it
// deploys, as an application.
func released(h helmRelease, k kustomization, r repository) (gitops.Application, error) {
	app := application(k, r)
	own := gitops.Resource{Group: helmReleases.Group, Kind: "HelmRelease", Namespace: h.Metadata.Namespace, Name: h.Metadata.Name}
	switch {
	case !slices.ContainsFunc(app.Resources, own.Same):
		return gitops.Application{}, h.owned("is not among what %s has applied", app.Title())
	case set(h.Spec.KubeConfig):
		return gitops.Application{}, h.owned("releases to another cluster (spec.kubeConfig)")
	}
	app.Name, app.UID = gitops.FluxHelmName(h.Metadata.Namespace, h.Metadata.Name), h.Metadata.UID
	app.Releases, app.Made = []string{h.release()}, h.Status.Inventory.resources()
	if dir := h.chart(k); dir != "" {
		at, err := filepath.Rel(app.Sources[0].Path, dir)
		if err != nil {
			return gitops.Application{}, h.owned("has its chart in %s, which is not a path inside the repository", dir)
		}
		app.Values = [][]string{{filepath.ToSlash(at)}}
	}
	app.Deleting = app.Deleting || h.Metadata.DeletionTimestamp != nil
	if h.Spec.Suspend && app.Suspended == "" {
		app.Suspended = h.title()
	}
	if app.Sync == "Synced" { // else its state may be that of the commit before
		h.join(&app)
	}
	return app, nil
}

// join adds the state of the HelmRelease to that of an application whose commit is
// applied.
func (h helmRelease) join(app *gitops.Application) {
	ready, stalled := conditionOf(h.Status.Conditions, "Ready"), conditionOf(h.Status.Conditions, "Stalled")
	now := h.Metadata.Generation
	message := h.title() + ": " + ready.Reason + ": " + clean(ready.Message)
	switch {
	case h.Spec.Suspend:
		app.Health, app.Message = "Suspended", h.title()+" is suspended"
	case ready.Status == "True" && ready.ObservedGeneration == now && h.Status.ObservedGeneration == now:
		if app.Operation.Finished.Before(ready.LastTransitionTime) {
			app.Operation.Finished = ready.LastTransitionTime
		}
	case ready.Status == "False" && ready.ObservedGeneration == now && slices.Contains(releaseFailed, ready.Reason):
		app.Health, app.Message, app.Operation.Phase, app.Operation.Message = "Degraded", message, "Failed", message
	case stalled.Status == "True" && stalled.ObservedGeneration == now:
		message = h.title() + ": " + stalled.Reason + ": " + clean(stalled.Message)
		app.Health, app.Message, app.Operation.Phase, app.Operation.Message = "Degraded", message, "Failed", message
	case ready.ObservedGeneration != now:
		app.Operation = gitops.Operation{Running: true, By: gitops.Flux, Revisions: app.Revisions, Message: "Flux has not released " + h.title() + " as it is now"}
	case app.Health == "Healthy":
		app.Health, app.Message = "Progressing", message
	}
}

// release returns the name of Helm's release, as Flux makes it
// (https://fluxcd.io/flux/components/helm/helmreleases/#release-name).
func (h helmRelease) release() string {
	const most, hash = 53, 12
	name := h.Spec.ReleaseName
	switch {
	case name != "":
	case h.Spec.TargetNamespace != "":
		name = h.Spec.TargetNamespace + "-" + h.Metadata.Name
	default:
		name = h.Metadata.Name
	}
	if len(name) <= most {
		return name
	}
	return name[:most-hash-1] + "-" + fmt.Sprintf("%x", sha256.Sum256([]byte(name)))[:hash]
}

// chart returns the directory of the chart, if it is in the repository that the
// Kustomization deploys from; empty: it is not.
func (h helmRelease) chart(k kustomization) string {
	of, by := h.Spec.Chart.Spec.SourceRef, k.Spec.SourceRef
	if of.Namespace == "" {
		of.Namespace = h.Metadata.Namespace
	}
	if by.Namespace == "" {
		by.Namespace = k.Metadata.Namespace
	}
	if of != by || of.Kind != "GitRepository" {
		return ""
	}
	return path.Clean("/" + h.Spec.Chart.Spec.Chart)[1:]
}
