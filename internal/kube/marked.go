package kube

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Marked is a workload with a label, and what a service catalog needs of it.
type Marked struct {
	Ref         Ref
	Labels      map[string]string
	Annotations map[string]string
	Containers  []Container
	Application string // of Argo CD that manages it, or flux:NAMESPACE/NAME of Flux; empty: none
}

// Container is one container of a pod template.
type Container struct {
	Name    string
	Image   string
	Command []string
	Args    []string
}

// Marked returns the Deployments and StatefulSets of a namespace that carry the label
// with the value true; empty: of all namespaces.
func (c *Client) Marked(ctx context.Context, namespace, label string) ([]Marked, error) {
	options := metav1.ListOptions{LabelSelector: label + "=true"}
	deployments, err := c.typed.deployments(namespace).List(ctx, options)
	if err != nil {
		return nil, request{verb: "list", group: "apps", resource: "deployments", namespace: namespace}.fail(err)
	}
	sets, err := c.typed.statefulSets(namespace).List(ctx, options)
	if err != nil {
		return nil, request{verb: "list", group: "apps", resource: "statefulsets", namespace: namespace}.fail(err)
	}
	out := make([]Marked, 0, len(deployments.Items)+len(sets.Items))
	for _, d := range deployments.Items {
		out = append(out, mark("Deployment", d.ObjectMeta, d.Spec.Template.Spec.Containers))
	}
	for _, s := range sets.Items {
		out = append(out, mark("StatefulSet", s.ObjectMeta, s.Spec.Template.Spec.Containers))
	}
	return out, nil
}

func mark(kind string, m metav1.ObjectMeta, cs []corev1.Container) Marked {
	w := Marked{Ref: Ref{Kind: kind, Namespace: m.Namespace, Name: m.Name}, Labels: m.Labels, Annotations: maps.Clone(m.Annotations)}
	// It repeats the whole object, with the values of secret variables.
	delete(w.Annotations, corev1.LastAppliedConfigAnnotation)
	for _, o := range declaredOwners(w.Ref, m) {
		switch o.Kind {
		case ArgoCD:
			w.Application = o.Name
		case Flux:
			w.Application = "flux:" + o.Namespace + "/" + o.Name // as gitops.FluxName
		case FluxHelm:
			w.Application = "flux-helm:" + o.Namespace + "/" + o.Name // as gitops.FluxHelmName
		}
	}
	for _, c := range cs {
		w.Containers = append(w.Containers, Container{Name: c.Name, Image: c.Image, Command: c.Command, Args: c.Args})
	}
	return w
}
