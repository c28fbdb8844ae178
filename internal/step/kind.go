package step

import "github.com/inference-responder/responder/internal/playbook"

// Kind couples a declaration with what carries it out. Exactly one of Check and
// Lever is set, as the declaration's role says. A step receives only the
// dependencies it needs.
type Kind struct {
	Decl  playbook.Kind
	Check func(Deps) Check
	Lever func(Deps) Lever
}
