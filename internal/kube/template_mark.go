package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/inference-responder/responder/internal/fault"
)

// putBack precedes the hash of a pod template that an undo of ours put back: it is
// what others released, and may be the cause that our change was to remove.
const putBack = "put-back/"

// acquitted precedes the hash instead where our change was measured and did not help:
// what others released is not the cause.
const acquitted = "acquitted/"

// templateHash returns a hash of a pod template. Another release of this client
// may know other fields and hash differently. A rollback of ours then looks like
// somebody else's change.
func templateHash(t corev1.PodTemplateSpec) (string, error) {
	b, err := json.Marshal(withoutHash(t))
	if err != nil {
		return "", &fault.Error{Reason: fault.Invalid, Message: "pod template cannot be encoded", Err: cause{err}}
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16]), nil
}
