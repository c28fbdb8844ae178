package policy

import (
	"fmt"
	"path"
	"strings"
)

// protection is the effect protect: namespaces in which nothing is changed.
type protection struct{ namespaces []string }

// judge checks the service's namespace and, with a plan, that of the changed
// object. It is asked for every service that the lever touches.
func (p protection) judge(in *Input) finding {
	for _, namespace := range namespacesOf(in) {
		for _, glob := range p.namespaces {
			// The glob was validated when it was read. An invalid one protects
			// everything.
			if ok, err := path.Match(glob, namespace); ok || err != nil {
				return finding{deny: fmt.Sprintf("namespace %s is protected by %s", namespace, glob)}
			}
		}
	}
	return finding{}
}

func namespacesOf(in *Input) []string {
	if in.Plan == nil || in.Plan.Target.Namespace == "" || in.Plan.Target.Namespace == in.Service.Namespace {
		return []string{in.Service.Namespace}
	}
	return []string{in.Service.Namespace, in.Plan.Target.Namespace}
}

func (p protection) String() string { return "never in " + strings.Join(p.namespaces, ", ") }

// blastRadius is the effect blast_radius: how much a lever may cost while it is
// in progress.
type blastRadius struct {
	minReady    *int     // replicas that stay ready
	lostReady   *int     // replicas
	lostPercent *float64 // of the ready ones
	lostTokens  *float64 // tokens per second
}

func (b blastRadius) judge(in *Input) finding {
	switch {
	case in.Plan == nil:
		return finding{deny: "no plan, so the cost is unknown: " + b.String(), depends: b.String()}
	case in.Plan.Capacity.Unknown:
		return finding{deny: "the effect on capacity is unknown: " + b.String()}
	}
	c := in.Plan.Capacity
	switch {
	// If fewer are ready to begin with, the lever must not reduce them further,
	// so that an outage can be repaired.
	case b.minReady != nil && c.LowestReady < *b.minReady && (c.ReadyNow >= *b.minReady || c.LowestReady < c.ReadyNow):
		return finding{deny: fmt.Sprintf("%d would stay ready of %d, %s", c.LowestReady, c.ReadyNow, b)}
	case b.lostReady != nil && c.Lost() > *b.lostReady:
		return finding{deny: fmt.Sprintf("%d of %d ready would be lost, %s", c.Lost(), c.ReadyNow, b)}
	case b.lostPercent != nil && lostPercent(c) > *b.lostPercent:
		return finding{deny: fmt.Sprintf("%.0f %% of %d ready would be lost, %s", lostPercent(c), c.ReadyNow, b)}
	case b.lostTokens != nil:
		return b.tokens(in)
	default:
		return finding{}
	}
}

// tokens limits the tokens per second of the lost replicas, at their current
// throughput.
func (b blastRadius) tokens(in *Input) finding {
	gone, known := in.Plan.Capacity.LostTokens()
	switch {
	case !known:
		return finding{deny: "tokens per second are unknown: " + b.String()}
	case gone > *b.lostTokens:
		return finding{deny: fmt.Sprintf("%.0f of %.0f tokens per second would be lost, %s", gone, *in.Plan.Capacity.TokensPerSecond, b)}
	}
	return finding{}
}

func (b blastRadius) String() string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if b.minReady != nil {
		add("at least %d stay ready", *b.minReady)
	}
	if b.lostReady != nil {
		add("at most %d ready lost", *b.lostReady)
	}
	if b.lostPercent != nil {
		add("at most %v %% of the ready lost", *b.lostPercent)
	}
	if b.lostTokens != nil {
		add("at most %v tokens per second lost", *b.lostTokens)
	}
	return strings.Join(parts, ", ")
}
