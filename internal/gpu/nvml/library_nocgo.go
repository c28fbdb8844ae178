//go:build !cgo

package nvml

import (
	"errors"

	"github.com/inference-responder/responder/internal/gpu"
)

// without is the driver in a binary that was built without cgo: NVML is a C
// library, loaded at run time, and go-nvml calls it through cgo.
type without struct{}

func newDriver(string) driver { return without{} }

func (without) open() error {
	return &Unavailable{
		Why: gpu.NotSupported, Reason: "this binary was built without cgo, which NVIDIA's library needs",
		Hint: "build it with CGO_ENABLED=1 and a C compiler",
	}
}

func (without) versions() (driver, lib string) { return "", "" }

func (without) count() (int, error) { return 0, errors.New("built without cgo") }

func (without) card(int) card { panic("nvml: a card of no driver") } // unreachable unless open succeeds
