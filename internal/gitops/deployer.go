package gitops

import "strings"

// What deploys applications.
const (
	ArgoCD = "Argo CD"
	Flux   = "Flux"
)

// What begins the names of Kustomizations and of HelmReleases of Flux. A name with
// neither is an application of Argo CD, whose names have no colon.
const (
	fluxPrefix     = "flux:"
	fluxHelmPrefix = "flux-helm:"
)

// FluxName returns the name by which a Kustomization of Flux is asked for.
func FluxName(namespace, name string) string { return fluxPrefix + namespace + "/" + name }

// FluxKustomization returns the namespace and the name of a Kustomization of Flux. It
// returns false for the name of an application of Argo CD.
func FluxKustomization(name string) (namespace, kustomization string, ok bool) {
	rest, ok := strings.CutPrefix(name, fluxPrefix)
	if !ok {
		return "", "", false
	}
	namespace, kustomization, ok = strings.Cut(rest, "/")
	return namespace, kustomization, ok && namespace != "" && kustomization != ""
}

// FluxHelmName returns the name by which a HelmRelease of Flux is asked for: together
// with the Kustomization that deploys its manifest.
func FluxHelmName(namespace, name string) string { return fluxHelmPrefix + namespace + "/" + name }

// FluxHelmRelease returns the namespace and the name of a HelmRelease of Flux. It returns
// false for the name of anything else.
func FluxHelmRelease(app string) (namespace, name string, ok bool) {
	namespace, name, _ = strings.Cut(HelmReleaseOf(app), "/")
	return namespace, name, namespace != "" && name != ""
}

// HelmReleaseOf returns the namespace/name of the HelmRelease of Flux that an application
// is named after; empty: it is none.
func HelmReleaseOf(app string) string {
	rest, ok := strings.CutPrefix(app, fluxHelmPrefix)
	if !ok {
		return ""
	}
	return rest
}

// OfFlux reports whether a name is that of a Kustomization or a HelmRelease of Flux.
func OfFlux(name string) bool {
	return strings.HasPrefix(name, fluxPrefix) || strings.HasPrefix(name, fluxHelmPrefix)
}

// Title returns the application for people: Argo CD application argocd/chat, Flux
// Kustomization flux-system/chat, Flux HelmRelease serving/chat.
func (app Application) Title() string { return ApplicationTitle(app.Name) }

// ApplicationTitle is [Application.Title] for an application that is known by its name.
func ApplicationTitle(name string) string {
	if rest, ok := strings.CutPrefix(name, fluxPrefix); ok {
		return "Flux Kustomization " + rest
	}
	if rest := HelmReleaseOf(name); rest != "" {
		return "Flux HelmRelease " + rest
	}
	return "Argo CD application " + name
}

// Deployer returns what deploys the application: Argo CD or Flux.
func (app Application) Deployer() string {
	if OfFlux(app.Name) {
		return Flux
	}
	return ArgoCD
}

// Label returns the application for a line of its progress.
func (app Application) Label() string { return ApplicationLabel(app.Name) }

// ApplicationLabel is [Application.Label] for an application that is known by its name.
func ApplicationLabel(name string) string {
	if OfFlux(name) {
		return ApplicationTitle(name)
	}
	return name
}
