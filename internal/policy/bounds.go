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

// shares limits the replicas that are out at the same time, whoever took them. A lever
// that costs no ready replica is not limited: it may be the repair.
func (b blastRadius) shares(in *Input) finding {
	for _, s := range in.Plan.Shares {
		limit, of := b.outOfSpace, "namespace "+s.Namespace
		if s.Namespace == "" {
			limit, of = b.outOfAll, "all services"
		}
		if limit == nil {
			continue
		}
		if s.Unknown != "" {
			return finding{deny: fmt.Sprintf("the replicas of %s are unknown: %s: %s", of, s.Unknown, b)}
		}
		taken := 0
		if in.Taken != nil {
			taken = in.Taken(s.Namespace)
		}
		if out := s.Missing + taken + s.Lost; 100*float64(out) > *limit*float64(s.Wanted) {
			return finding{deny: fmt.Sprintf("%d of %d replicas of %s would be out (%d are not ready, other runs take %d), %s", out, s.Wanted, of, s.Missing, taken, b)}
		}
	}
	return b.counted(in)
}

// counted refuses a lever that costs replicas of which no share was counted.
func (b blastRadius) counted(in *Input) finding {
	if (b.outOfSpace != nil || b.outOfAll != nil) && in.Plan.Capacity.Lost() > 0 && len(in.Plan.Shares) == 0 {
		return finding{deny: "the share of all replicas is unknown: " + b.String()}
	}
	return finding{}
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
