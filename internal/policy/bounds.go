package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
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
	outOfSpace  *float64 // percent of the replicas of all services in a namespace, out at the same time
	outOfAll    *float64 // the same of all services of the catalog
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
	}
	if b.lostTokens != nil {
		if f := b.tokens(in); f.deny != "" {
			return f
		}
	}
	return b.shares(in)
}

// shares limits the replicas that are out at the same time, whoever took them: in the
// service's namespace, and in all. A lever that costs no ready replica is not limited: it
// may be the repair. Workloads of no service are no part of what is counted.
func (b blastRadius) shares(in *Input) finding {
	if in.ofNoService {
		return finding{}
	}
	for _, of := range []struct {
		limit           *float64
		namespace, name string
	}{{b.outOfSpace, in.Service.Namespace, "namespace " + in.Service.Namespace}, {b.outOfAll, "", "all services"}} {
		if of.limit == nil {
			continue
		}
		at := slices.IndexFunc(in.Plan.Shares, func(s machine.Share) bool { return s.Namespace == of.namespace })
		switch {
		case at >= 0:
			if why := over(in, of.name, in.Plan.Shares[at], *of.limit); why != "" {
				return finding{deny: why + ", " + b.String()}
			}
		case in.Plan.Capacity.Lost() > 0:
			return finding{deny: fmt.Sprintf("the replicas of %s were not counted: %s", of.name, b)}
		}
	}
	return finding{}
}

// over returns why a share is beyond a limit in percent; empty: it is not.
func over(in *Input, of string, s machine.Share, limit float64) string {
	taken := 0
	if in.Taken != nil {
		taken = in.Taken(s.Namespace)
	}
	switch out := s.Missing + taken + s.Lost; {
	case s.Unknown != "":
		return fmt.Sprintf("the replicas of %s are unknown: %s", of, s.Unknown)
	case 100*float64(out) > limit*float64(s.Wanted):
		return fmt.Sprintf("%d of %d replicas of %s would be out (%d are not ready, other runs take %d)", out, s.Wanted, of, s.Missing, taken)
	}
	return ""
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
	if b.outOfSpace != nil {
		add("at most %v %% of a namespace's replicas out", *b.outOfSpace)
	}
	if b.outOfAll != nil {
		add("at most %v %% of all services' replicas out", *b.outOfAll)
	}
	return strings.Join(parts, ", ")
}
