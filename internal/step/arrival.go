package step

import (
	"time"

	"github.com/inference-responder/responder/internal/gitops"
)

// Arrival is a commit that was made or deployed for a service.
type Arrival struct {
	gitops.Touched

	At       time.Time // when it was made; of one that was made before the window: when it was deployed
	Ours     bool      // it is one of Responder's
	Undone   bool      // with Ours: it is an undo of a change of Responder's, or that change: no repair
	Deployed bool      // what runs contains it; false: it waits to be synced
}
