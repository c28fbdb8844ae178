package argocd

import (
	"fmt"
	"strings"

	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"
)

// differs returns the fields of an application's sources that have changed since a
// deployment of its history. Argo CD's own rollback uses the sources of that time.
// A sync, which alone can carry a key, uses the present sources at the revisions
// of that time.
func differs(h v1alpha1.RevisionHistory, spec v1alpha1.ApplicationSpec) string {
	then, now, at := []v1alpha1.ApplicationSource(h.Sources), []v1alpha1.ApplicationSource(spec.Sources), "spec.sources"
	if len(then) == 0 && !h.Source.IsZero() {
		then = []v1alpha1.ApplicationSource{h.Source}
	}
	if len(now) == 0 && spec.Source != nil {
		now, at = []v1alpha1.ApplicationSource{*spec.Source}, "spec.source"
	}
	if len(then) != len(now) {
		return at
	}
	var out []string
	for i := range now {
		name := at
		if len(spec.Sources) > 0 {
			name = fmt.Sprintf("%s[%d]", at, i)
		}
		for _, field := range sourceDiffers(then[i], now[i]) {
			out = append(out, name+"."+field)
		}
	}
	return strings.Join(out, ", ")
}

// sourceDiffers returns the fields that differ, except the revision.
func sourceDiffers(then, now v1alpha1.ApplicationSource) []string {
	then.TargetRevision, now.TargetRevision = "", ""
	if then.Equals(&now) {
		return nil
	}
	type source = v1alpha1.ApplicationSource
	var out []string
	for _, f := range []struct {
		name string
		of   func(source) source
	}{
		{"helm", func(s source) source { return source{Helm: s.Helm} }},
		{"kustomize", func(s source) source { return source{Kustomize: s.Kustomize} }},
		{"directory", func(s source) source { return source{Directory: s.Directory} }},
		{"plugin", func(s source) source { return source{Plugin: s.Plugin} }},
		{"repoURL", func(s source) source { return source{RepoURL: s.RepoURL} }},
		{"path", func(s source) source { return source{Path: s.Path} }},
		{"chart", func(s source) source { return source{Chart: s.Chart} }},
	} {
		a, b := f.of(then), f.of(now)
		if !a.Equals(&b) {
			out = append(out, f.name)
		}
	}
	if len(out) == 0 {
		out = []string{"ref or name"}
	}
	return out
}
