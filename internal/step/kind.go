package step

import (
	"context"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Kind couples a declaration with what carries it out. Exactly one of Check,
// Lever and Planner is set, as the declaration's role says. A step receives only
// the dependencies it needs.
type Kind struct {
	Decl    playbook.Kind
	Check   func(Deps) Check
	Lever   func(Deps) Lever
	Planner func(Deps) Planner
}

// Planner is a lever that only chooses: the step of its plan names the lever
// that carries the change out.
type Planner interface {
	Plan(ctx context.Context, in Input) (machine.Plan, error)
}
