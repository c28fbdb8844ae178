package helm

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
)

// releaseKind is the kind of a HelmRelease of Flux.
const releaseKind = "HelmRelease"

// Release is a HelmRelease of Flux, whose manifest holds the values of its chart.
type Release struct {
	Object *edit.Object // the HelmRelease
	Values *edit.Object // its values
	name   string       // namespace/name; the manifest may leave the namespace out
}

// Owned returns an error about the HelmRelease with the reason Owned.
func (r *Release) Owned(why string) error {
	return &fault.Error{Reason: fault.Owned, Message: r.Object.Docs[0].File + ": " + releaseKind + " " + r.name + " " + why}
}

// Manifests returns those of a HelmRelease among the objects that are deployed.
func Manifests(objects []*edit.Object, namespace, name string) []*edit.Object {
	return slices.DeleteFunc(slices.Clone(objects), func(o *edit.Object) bool {
		return o.Kind != releaseKind || o.Name != name || o.Namespace != "" && o.Namespace != namespace
	})
}

// Parts counts the parts of the values of charts that are known, by the end of its name, of
// which a workload is made.
func (r *Release) Parts(w Workload) int {
	n := 0
	for _, c := range Charts(r.Values, "") {
		n += len(c.Models(w))
		if s, err := c.Section(w, "", true); s != nil || err != nil {
			n++
		}
	}
	return n
}

// ReleaseOf returns the HelmRelease of a name among the objects that are deployed. It
// refuses one whose values do not decide alone what runs in the workload's namespace.
// namespace and name are those of the HelmRelease.
func ReleaseOf(objects []*edit.Object, namespace, name string, of Workload) (*Release, error) {
	found := Manifests(objects, namespace, name)
	full := namespace + "/" + name
	switch len(found) {
	case 0:
		return nil, &fault.Error{Reason: fault.NotFound, Message: "no manifest of " + releaseKind + " " + full + " is among what is deployed"}
	case 1:
	default:
		return nil, &fault.Error{Reason: fault.Ambiguous, Message: fmt.Sprintf("several manifests are %s %s: %s, %s", releaseKind, full, found[0].Docs[0].File, found[1].Docs[0].File)}
	}
	r := &Release{Object: found[0], name: full}
	in := edit.Get(r.Object.Root, "spec", "values")
	if err := r.check(namespace, of); err != nil {
		return nil, err
	}
	r.Values = values(r.Object.Docs[0].File, in, r.Object.Docs).HeldBy(r.Object)
	r.Values.Why = releaseKind + " " + full + " holds the values (spec.values)"
	return r, nil
}

// check returns an error for a HelmRelease whose values do not decide alone what runs.
func (r *Release) check(namespace string, of Workload) error {
	spec := edit.Get(r.Object.Root, "spec")
	to := edit.Str(spec, "targetNamespace")
	if to == "" {
		to = namespace
	}
	switch {
	case edit.Str(spec, "suspend") == "true":
		return r.Owned("is suspended (spec.suspend): Flux would not deploy a commit")
	case edit.Get(spec, "kubeConfig") != nil:
		return r.Owned("releases to another cluster (spec.kubeConfig)")
	case of.Namespace != "" && to != of.Namespace:
		return r.Owned("releases to the namespace " + edit.Clip(to) + ", not to " + of.Namespace)
	case len(edit.List(spec, "postRenderers")) > 0:
		return r.Owned("has post-renderers, which change what the chart renders (spec.postRenderers)")
	case !edit.IsMap(edit.Get(spec, "values")):
		return r.Owned("holds no values (spec.values): what is deployed cannot be changed there")
	}
	for _, from := range edit.List(spec, "valuesFrom") {
		if edit.Str(from, "targetPath") != "" {
			return r.Owned("takes a value from elsewhere that overrides its own (spec.valuesFrom[].targetPath)")
		}
	}
	return nil
}

// Refers reports whether it takes values from ConfigMaps or Secrets too. Its own override
// them (https://fluxcd.io/flux/components/helm/helmreleases/#values-references).
func (r *Release) Refers() bool { return len(edit.List(r.Object.Root, "spec", "valuesFrom")) > 0 }

// Chart returns the chart and its source, for people.
func (r *Release) Chart() string {
	chart := edit.Get(r.Object.Root, "spec", "chart", "spec")
	from := edit.Get(chart, "sourceRef")
	if chart == nil {
		from = edit.Get(r.Object.Root, "spec", "chartRef")
	}
	words := []string{"the chart", edit.Str(chart, "chart"), "of", edit.Str(from, "kind"), edit.Str(from, "name")}
	return edit.Clip(strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " "))
}

// charts are those whose names of workloads are known.
var charts = []string{"vllm-stack", "llm-d-modelservice"}

// Makes reports whether the chart is known and gives a workload its kind and its name.
func (r *Release) Makes(release string, w Workload) bool {
	chart := edit.Get(r.Object.Root, "spec", "chart", "spec")
	if release == "" || !slices.Contains(charts, edit.Str(chart, "chart")) || edit.Str(chart, "sourceRef", "kind") != "HelmRepository" {
		return false
	}
	c := Charts(r.Values, release)[0]
	if len(c.Models(w)) > 0 {
		return true // the list of models is not merged with another one
	}
	return !r.Refers() && slices.ContainsFunc(sections, func(name string) bool { return c.creates(name) && c.calls(w, name) })
}

// Deployment returns the deployment of the chart, which is in the directory of the tree
// that the caller knows. It is false if that is not the chart of the HelmRelease.
func (r *Release) Deployment(tr *edit.Tree, dir, release string) (Deployment, bool, error) {
	chart := edit.Get(r.Object.Root, "spec", "chart", "spec")
	if dir == "" || edit.Str(chart, "sourceRef", "kind") != "GitRepository" || path.Clean("/" + edit.Str(chart, "chart"))[1:] != dir || tr.File(path.Join(dir, "Chart.yaml")) == nil {
		return Deployment{}, false, nil
	}
	d := Deployment{Dir: dir, Release: release, Application: r.name, flux: true}
	switch {
	case len(edit.List(chart, "valuesFiles")) > 0:
		return d, false, r.Owned("names value files of the chart, which are not followed (spec.chart.spec.valuesFiles)")
	case r.Refers():
		return d, false, r.Owned("takes values from ConfigMaps or Secrets, without which the chart cannot be rendered as it is deployed (spec.valuesFrom)")
	}
	for _, doc := range r.Object.Docs {
		docs, err := tr.Open(doc.File)
		if err != nil {
			return d, false, err
		}
		for _, whole := range docs {
			if root, err := whole.Parse(); err == nil && edit.Get(root, "spec", "values") == r.Values.Root {
				d.held = held{whole.File, whole.Stream(), []string{"spec", "values"}}
				return d, true, nil
			}
		}
	}
	return d, false, r.Owned("has values that are put together of several manifests: keep them in one")
}
