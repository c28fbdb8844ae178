package git

import "github.com/inference-responder/responder/internal/executor/machine"

// A commit that changes what pods run ends all of them, as a sync does that deploys
// commits. What they know is read before; see package step.

// Ends implements ending of package step.
func (gitopsSetFlag) Ends(machine.Plan) (pods []string, all bool) { return nil, true }

// Ends implements ending of package step.
func (gitopsRevert) Ends(machine.Plan) (pods []string, all bool) { return nil, true }

// Ends implements ending of package step.
func (argocdRollback) Ends(machine.Plan) (pods []string, all bool) { return nil, true }

// Ends implements ending of package step.
func (argocdSync) Ends(machine.Plan) (pods []string, all bool) { return nil, true }
