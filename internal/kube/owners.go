package kube

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// owners returns who else would revert changes of the workload's fields. It
// returns no owner only after every possible one was asked.
func (c *Client) owners(ctx context.Context, o *object) ([]Owner, error) {
	out := declaredOwners(o.ref, o.meta)
	hpas, scaled, err := c.scalers(ctx, o.ref.Namespace, o.ref)
	if err != nil {
		return nil, err
	}
	for _, h := range hpas {
		out = append(out, Owner{Field: "spec.replicas", Kind: HPA, Name: h.Name, Why: Autoscales(int(h.Status.DesiredReplicas), int(h.Spec.MaxReplicas))})
	}
	for _, s := range scaled {
		out = append(out, Owner{Field: "spec.replicas", Kind: ScaledObject, Name: s.GetName(), Why: "its scaleTargetRef names the workload"})
	}
	return out, nil
}

// Autoscales returns why an autoscaler owns the replicas, and whether it has no more to
// give.
func Autoscales(replicas, most int) string {
	why := "its scaleTargetRef names the workload"
	if most > 0 && replicas >= most {
		why += fmt.Sprintf("; it is at its maximum of %d replicas", most)
	}
	return why
}

// scaledObjects lists KEDA's objects if KEDA is installed. Discovery tells whether
// it is: listing an unknown resource is answered with "forbidden" for most
// callers, which proves neither.
func (c *Client) scaledObjects(ctx context.Context, namespace string) ([]unstructured.Unstructured, error) {
	gvr, err := scalerResource(Ref{Kind: ScaledObject})
	if err != nil {
		return nil, err
	}
	var known metav1.APIResourceList
	err = c.typed.core().Get().AbsPath("/apis/" + gvr.GroupVersion().String()).Do(ctx).Into(&known)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, request{verb: "get", resource: "/apis/keda.sh/v1alpha1"}.fail(err)
	}
	for _, r := range known.APIResources {
		if r.Name != gvr.Resource {
			continue
		}
		items, err := c.dynamic.Resource(gvr).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, request{verb: "list", group: gvr.Group, resource: gvr.Resource, namespace: namespace}.fail(err)
		}
		return items.Items, nil
	}
	return nil, nil
}

// Labels and annotations by which GitOps controllers mark what they manage.
const (
	argoTrackingID = "argocd.argoproj.io/tracking-id"
	argoInstance   = "argocd.argoproj.io/instance"
	appInstance    = "app.kubernetes.io/instance"
	fluxKustomize  = "kustomize.toolkit.fluxcd.io" // /name and /namespace
	fluxHelm       = "helm.toolkit.fluxcd.io"
)

// declaredOwners returns the owners that the object itself declares.
func declaredOwners(ref Ref, meta metav1.ObjectMeta) []Owner {
	var out []Owner
	for _, r := range meta.OwnerReferences {
		if r.Controller != nil && *r.Controller {
			out = append(out, Owner{Field: "*", Kind: r.Kind, Name: r.Name, Why: "it is the controlling ownerReference"})
		}
	}
	if app, why := argoApplication(ref, meta); app != "" {
		out = append(out, Owner{Field: "*", Kind: ArgoCD, Name: app, Why: why})
	}
	for _, f := range []struct{ kind, label string }{{Flux, fluxKustomize}, {FluxHelm, fluxHelm}} {
		if name := meta.Labels[f.label+"/name"]; name != "" {
			out = append(out, Owner{Field: "*", Kind: f.kind, Namespace: meta.Labels[f.label+"/namespace"], Name: name, Why: "label " + f.label + "/name"})
		}
	}
	return out
}

// argoApplication returns the Argo CD application that manages the object, and the
// evidence; empty if none does.
//
// The tracking id counts only if it names this very object. Copies of an object
// carry it along, and Argo CD ignores it there. Charts set the instance label too,
// so it counts only together with fields that Argo CD manages.
func argoApplication(ref Ref, meta metav1.ObjectMeta) (app, why string) {
	if id := meta.Annotations[argoTrackingID]; id != "" {
		// <application>:<group>/<kind>:<namespace>/<name>
		parts := strings.SplitN(id, ":", 3)
		if len(parts) != 3 {
			return id, "annotation " + argoTrackingID + ", which is not of the usual form"
		}
		if strings.HasSuffix(parts[1], "/"+ref.Kind) && strings.HasSuffix(parts[2], "/"+ref.Name) {
			return parts[0], "annotation " + argoTrackingID
		}
	}
	if name := meta.Labels[argoInstance]; name != "" {
		return name, "label " + argoInstance
	}
	for _, m := range meta.ManagedFields {
		if strings.HasPrefix(m.Manager, "argocd") {
			name := meta.Labels[appInstance]
			if name == "" {
				name = "(unknown application)"
			}
			return name, fmt.Sprintf("field manager %s", m.Manager)
		}
	}
	return "", ""
}
