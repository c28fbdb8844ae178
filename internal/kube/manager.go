package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EffectManager returns the field manager under which an effect writes a subresource. It is
// the mark of the effect, in the same write: no annotation can be. All attempts of
// an effect have the same; the key is run/state#visit/action#attempt.
func EffectManager(key string) string {
	i := strings.LastIndexByte(key, '/')
	if j := strings.LastIndexByte(key, '#'); j > i {
		key = key[:j]
	}
	sum := sha256.Sum256([]byte(key))
	return FieldManager + "/" + hex.EncodeToString(sum[:16])
}

// scaledBy returns the manager of the object's replicas if it is an [EffectManager].
func scaledBy(meta metav1.ObjectMeta) string {
	for _, by := range managersOf(meta, "scale", "spec", "replicas") {
		if strings.HasPrefix(by, FieldManager+"/") {
			return by
		}
	}
	return ""
}

// managersOf returns who set a field by a subresource; empty: by the object itself.
func managersOf(meta metav1.ObjectMeta, subresource, stanza, field string) []string {
	var out []string
	for _, m := range meta.ManagedFields {
		var owned map[string]map[string]any
		if m.Subresource != subresource || m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.Raw, &owned) != nil {
			continue // what cannot be read is another's form: not our mark
		}
		if _, yes := owned["f:"+stanza]["f:"+field]; yes {
			out = append(out, m.Manager)
		}
	}
	return out
}
