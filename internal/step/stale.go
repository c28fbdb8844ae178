package step

import (
	"fmt"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
)

// SameRevision refuses a rollback with a conflict if another revision of the workload is
// current than the evidence saw. A seen revision of 0 is any.
func SameRevision(lever string, ref kube.Ref, current *kube.Revision, seen int64) error {
	if seen == 0 || current != nil && current.Number == seen {
		return nil
	}
	if current == nil {
		return &fault.Error{Reason: fault.NoData, Message: fmt.Sprintf("%s: %s has no revision history yet", lever, RefText(ref))}
	}
	return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf(
		"%s: %s runs revision %d, and revision %d was current when the evidence was gathered: gather it again", lever, RefText(ref), current.Number, seen)}
}
