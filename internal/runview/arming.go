package runview

import (
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/api"
)

// Arming is whether Responder can act on a service, in words.
type Arming struct {
	Armed   bool
	Word    string // armed, not armed, or not known
	Line    string // the word, and which playbooks act
	Reasons []ArmingReason
}

// ArmingReason is why playbooks do not act, and what to do about it.
type ArmingReason struct{ Why, Do string }

// Unlooked is what arming does not look at.
const Unlooked = "Not looked at: rights in the cluster, series in Prometheus and the state of GPUs, which responder doctor looks at; and which application deploys a service that names none."

// ArmingOf describes whether Responder can act on a service.
func ArmingOf(a api.Arming) Arming {
	out := Arming{Armed: a.Armed, Word: "not armed", Line: "Not armed: no new alert leads to a change of this service now."}
	var parts []string
	if len(a.Acts) > 0 {
		parts = append(parts, "without asking: "+strings.Join(a.Acts, ", "))
	}
	if len(a.Asks) > 0 {
		parts = append(parts, "after people agree: "+strings.Join(a.Asks, ", "))
	}
	act := strings.Join(parts, "; ") + "."
	switch {
	case a.Armed:
		out.Word, out.Line = "armed", "Armed. Playbooks that act, "+act
	case len(a.Unknown) > 0:
		out.Word, out.Line = "not known", "Not known yet: "+strings.Join(a.Unknown, "; ")+". Playbooks that would act, "+act
	}
	for _, r := range a.Reasons {
		why := r.Why
		if of := slices.Concat(r.Playbooks, r.Levers); len(of) > 0 {
			why = strings.Join(of, ", ") + ": " + why
		}
		out.Reasons = append(out.Reasons, ArmingReason{why, r.Do})
	}
	return out
}
