package gitops

import (
	"fmt"
	"path"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
	"github.com/inference-responder/responder/internal/gitops/helm"
	"github.com/inference-responder/responder/internal/gitops/kustomize"
)

// tree is the files of a commit in which a variable of a target is looked for.
type tree struct {
	*edit.Tree
	target    Target
	all       []*edit.Object // that may be or concern the target
	builds    *kustomize.Builds
	edited    *edit.Document // a change was made in it, whose result is looked for; nil: none was
	elsewhere []string       // workloads of the target's name that are not the target
	release   *helm.Release  // HelmRelease that makes the target; nil: none does
}

func newTree(files []File, t Target) (*tree, error) {
	name := t.Name
	if t.HelmRelease != "" {
		name = path.Base(t.HelmRelease) // the manifest that is looked for
	}
	tr := &tree{Tree: edit.NewTree(name), target: t}
	for _, f := range files {
		if err := tr.Add(f.Path, f.Data); err != nil {
			return nil, err
		}
	}
	if p := path.Clean(t.Path); path.IsAbs(p) || strings.HasPrefix(p, "..") {
		return nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%q is not a path inside a repository", edit.Clip(t.Path))}
	} else if tr.target.Path = p; p == "." {
		tr.target.Path = ""
	}
	tr.builds = kustomize.Build(tr.Tree, tr.target.Path)
	return tr, nil
}

// plain returns the objects of the manifests that no kustomization reads and that
// may be or concern the target.
func (tr *tree) plain() ([]*edit.Object, error) {
	var out []*edit.Object
	if tr.builds.Single() {
		return nil, nil // only the kustomization is deployed
	}
	for _, p := range tr.Paths() {
		if !edit.Below(p, tr.target.Path) || !edit.IsYAML(p) || tr.builds.Reads(p) || edit.IsKustomization(p) || helm.IsTemplate(tr.Tree, p) {
			continue
		}
		objects, err := tr.Objects(p)
		if err != nil {
			return nil, err
		}
		out = append(out, objects...)
	}
	return out, nil
}

// addElsewhere records a workload that has the target's name and is not the target.
func (tr *tree) addElsewhere(o *edit.Object) {
	if o.Name == tr.target.Name && (templates[o.Kind] != nil || o.Kind == dynamoGraph) {
		tr.elsewhere = append(tr.elsewhere, fmt.Sprintf("%s is in %s", o, o.Docs[0].File))
	}
}
