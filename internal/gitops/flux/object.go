package flux

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

// The resources of Flux that are read. The APIs are stable: that of HelmReleases since
// Flux 2.3, the others since 2.0.
var (
	kustomizations = schema.GroupVersionResource{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Resource: "kustomizations"}
	helmReleases   = schema.GroupVersionResource{Group: "helm.toolkit.fluxcd.io", Version: "v2", Resource: "helmreleases"}
	repositories   = schema.GroupVersionResource{Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: "gitrepositories"}
)

// requestedAt is the annotation by which Flux is asked to reconcile an object now
// (https://fluxcd.io/flux/components/kustomize/kustomizations/#triggering-a-reconcile).
const requestedAt = "reconcile.fluxcd.io/requestedAt"

// meta is the metadata of an object, as far as it is used.
type meta struct {
	Namespace         string            `json:"namespace"`
	Name              string            `json:"name"`
	UID               string            `json:"uid"`
	Generation        int64             `json:"generation"`
	Labels            map[string]string `json:"labels"`
	DeletionTimestamp *time.Time        `json:"deletionTimestamp"`
}

// kustomization is a Kustomization, as far as it is used.
type kustomization struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		Suspend    bool            `json:"suspend"`
		Path       string          `json:"path"`
		Prune      bool            `json:"prune"`
		NamePrefix string          `json:"namePrefix"`
		NameSuffix string          `json:"nameSuffix"`
		Patches    json.RawMessage `json:"patches"`
		Images     json.RawMessage `json:"images"`
		Components json.RawMessage `json:"components"`
		Ignore     json.RawMessage `json:"ignore"`
		PostBuild  json.RawMessage `json:"postBuild"`

		SourceRef reference `json:"sourceRef"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration    int64       `json:"observedGeneration"`
		Conditions            []condition `json:"conditions"`
		LastAppliedRevision   string      `json:"lastAppliedRevision"`
		LastAttemptedRevision string      `json:"lastAttemptedRevision"`
		Inventory             inventory   `json:"inventory"`
		History               []snapshot  `json:"history"` // newest first
	} `json:"status"`
}

// inventory lists what Flux has applied, or Helm for it.
type inventory struct {
	Entries []struct {
		ID string `json:"id"` // namespace_name_group_kind
	} `json:"entries"`
}

func (i inventory) resources() []gitops.Resource {
	var out []gitops.Resource
	for _, e := range i.Entries {
		if r, ok := resource(e.ID); ok {
			r.Sync = "Synced" // what is not is known of the whole only
			out = append(out, r)
		}
	}
	return out
}

// reference names a source.
type reference struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"` // empty: that of the object
	Name      string `json:"name"`
}

// snapshot is an entry of a Kustomization's history: all reconciliations in a row, or
// not, that built the same objects and ended in the same way.
type snapshot struct {
	FirstReconciled      time.Time         `json:"firstReconciled"`
	LastReconciled       time.Time         `json:"lastReconciled"`
	LastReconciledStatus string            `json:"lastReconciledStatus"`
	Metadata             map[string]string `json:"metadata"` // revision
}

// repository is a GitRepository, as far as it is used.
type repository struct {
	Metadata meta `json:"metadata"`
	Spec     struct {
		URL      string `json:"url"`
		Suspend  bool   `json:"suspend"`
		Interval string `json:"interval"` // as of Go: 1m0s
		Ref      struct {
			Branch string `json:"branch"`
			Tag    string `json:"tag"`
			SemVer string `json:"semver"`
			Name   string `json:"name"`
			Commit string `json:"commit"`
		} `json:"ref"`
	} `json:"spec"`
	Status struct {
		Conditions []condition `json:"conditions"`
		Artifact   struct {
			Revision string `json:"revision"`
		} `json:"artifact"`
	} `json:"status"`
}

// condition is one of Kubernetes' conditions.
type condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"` // True, False, Unknown
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
	ObservedGeneration int64     `json:"observedGeneration"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

// conditionOf returns the condition of a type; the zero value: there is none.
func conditionOf(list []condition, kind string) condition {
	for _, c := range list {
		if c.Type == kind {
			return c
		}
	}
	return condition{}
}

// decode reads an object of Flux.
func decode[T any](data []byte, what string) (T, error) {
	var out T
	if err := json.Unmarshal(data, &out); err != nil {
		return out, &fault.Error{Reason: fault.ServerError, Message: fmt.Sprintf("flux: %s is not of the form that Flux documents", what), Err: err}
	}
	return out, nil
}
