package argocd

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"
	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/gitops"
)

// overrides lists what the spec decides in addition to the manifests of its sources.
func overrides(spec v1alpha1.ApplicationSpec) []gitops.Override {
	var out []gitops.Override
	for i, s := range spec.GetSources() {
		at := "spec.source."
		if len(spec.Sources) > 0 {
			at = fmt.Sprintf("spec.sources[%d].", i)
		}
		out = append(out, helm(at+"helm.", s.Helm)...)
		out = append(out, kustomize(at+"kustomize.", s.Kustomize)...)
		if s.Plugin != nil {
			out = append(out, gitops.Override{Field: at + "plugin"})
		}
		if s.Directory != nil && !s.Directory.Jsonnet.IsZero() {
			out = append(out, gitops.Override{Field: at + "directory.jsonnet"})
		}
	}
	if spec.SyncPolicy != nil && spec.SyncPolicy.SyncOptions.HasOption("RespectIgnoreDifferences=true") {
		for _, d := range spec.IgnoreDifferences {
			fields := slices.Concat(d.JSONPointers, d.JQPathExpressions, d.ManagedFieldsManagers)
			out = append(out, gitops.Override{Field: clean(fmt.Sprintf("spec.ignoreDifferences[%s %s]", d.Kind, strings.Join(fields, ", ")), "")})
		}
	}
	return out
}

// ignored lists the fields that a sync leaves alone. Without RespectIgnoreDifferences
// it only hides them.
func ignored(spec v1alpha1.ApplicationSpec) []gitops.Ignored {
	if spec.SyncPolicy == nil || !spec.SyncPolicy.SyncOptions.HasOption("RespectIgnoreDifferences=true") {
		return nil
	}
	var out []gitops.Ignored
	for _, d := range spec.IgnoreDifferences {
		out = append(out, gitops.Ignored{Group: d.Group, Kind: d.Kind, Namespace: d.Namespace, Name: d.Name, Fields: slices.Concat(d.JSONPointers, d.JQPathExpressions)})
	}
	return out
}

func helm(at string, h *v1alpha1.ApplicationSourceHelm) []gitops.Override {
	if h == nil {
		return nil
	}
	var out []gitops.Override
	set := func(field, path string) {
		out = append(out, gitops.Override{Field: clean(at+field+"["+path+"]", ""), Values: path})
	}
	for _, p := range h.Parameters {
		set("parameters", p.Name)
	}
	for _, p := range h.FileParameters {
		set("fileParameters", p.Name)
	}
	var values map[string]any
	field := "values"
	if h.ValuesObject != nil && len(h.ValuesObject.Raw) > 0 {
		field = "valuesObject"
		if json.Unmarshal(h.ValuesObject.Raw, &values) != nil {
			return append(out, gitops.Override{Field: at + field})
		}
	} else if h.Values != "" && yaml.Unmarshal([]byte(h.Values), &values) != nil {
		return append(out, gitops.Override{Field: at + field})
	}
	for _, path := range leaves(values, "", 0) {
		set(field, path)
	}
	return out
}

// Further values are only counted.
const (
	maxLevels = 32
	maxLeaves = 200
)

// leaves returns the paths of values. A list replaces a whole list, so it counts
// as one value.
func leaves(values map[string]any, at string, level int) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(values)) {
		inner, nested := values[k].(map[string]any)
		if nested && len(inner) > 0 && level < maxLevels {
			out = append(out, leaves(inner, at+k+".", level+1)...)
		} else {
			out = append(out, at+k)
		}
		if len(out) > maxLeaves {
			return []string{strings.TrimSuffix(at, ".")}
		}
	}
	return out
}

func kustomize(at string, k *v1alpha1.ApplicationSourceKustomize) []gitops.Override {
	if k == nil {
		return nil
	}
	var out []gitops.Override
	for _, r := range k.Replicas {
		out = append(out, gitops.Override{Field: clean(at+"replicas["+r.Name+"]", ""), Replicas: r.Name})
	}
	for name, set := range map[string]bool{
		"images": len(k.Images) > 0, "patches": len(k.Patches) > 0, "components": len(k.Components) > 0,
	} {
		if set {
			out = append(out, gitops.Override{Field: at + name})
		}
	}
	slices.SortFunc(out, func(a, b gitops.Override) int { return strings.Compare(a.Field, b.Field) })
	return out
}
