package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
)

// party is one service with what is known of it.
type party struct {
	svc    playbook.Service
	stands slo.Standing
	burn   float64   // of its worst objective, in multiples of what is allowed
	since  time.Time // of the breach; zero: not known

	unread  error                // why its workload could not be read
	nodes   map[string]bool      // that run its pods
	pods    map[string]bool      // by name
	ails    bool                 // a GPU under it is at fault
	blocked bool                 // a pod of it cannot start, or does not become ready in time
	waits   bool                 // a new pod of it waits for its image or its model, and does not crash
	pulls   bool                 // a pod of it cannot pull its image
	images  string               // the registry of that image; empty: none is missing
	models  string               // host that its models come from; empty: not known
	changes map[string]time.Time // of its pods within the window, by what they are, in words
}

func (p party) name() string { return p.svc.Name }

// cause is what services share.
type cause struct {
	by   string // heat, node, release, model, gateway, fleet; empty: nothing
	what string
	text string // the clause for people
}

// shared is a cause with the names of the services that share it.
type shared struct {
	cause
	of []string
}

// named adds who shares the cause.
func (c cause) named(found []party) shared {
	out := shared{cause: c}
	for _, p := range found {
		out.of = append(out.of, p.name())
	}
	return out
}

// key is the same for every service that shares the cause.
func (c cause) key() string {
	if c.by == c.what {
		return c.by
	}
	return c.by + " " + c.what
}

// place is a node with what is known of it.
type place struct {
	trouble string          // what is wrong with it, for people; empty: nothing is known to be
	tenants map[string]bool // names of the catalog's services with pods on it
	unread  error           // why the tenants are not known
}

// few reports whether so few healthy services share something that it can be
// the cause of so many breaches: at most half as many.
func few(healthy, breaching int) bool { return 2*healthy <= breaching }

// onNode recognises a node that every service that breaches has pods on, and few
// healthy services. troubled: it has trouble of its own. Otherwise it must be the
// only such node, and there is a healthy service that has no pod there.
func onNode(found, healthy []party, places map[string]place) (c cause, troubled bool) {
	alone := 0
	for _, name := range commonNodes(found) {
		at, known := places[name]
		on := 0
		for _, p := range healthy {
			if at.tenants[p.name()] {
				on++
			}
		}
		if !known || at.unread != nil || !few(on, len(found)) {
			continue
		}
		text := fmt.Sprintf("all have pods on node %s, and %s", name, services(on))
		switch {
		case at.trouble != "":
			return cause{by: "node", what: name, text: text + ": " + at.trouble}, true
		case on < len(healthy):
			alone++
			c = cause{by: "node", what: name, text: text}
		}
	}
	if alone != 1 {
		return cause{}, false
	}
	return c, false
}

// services says how many healthy services share something.
func services(healthy int) string {
	switch healthy {
	case 0:
		return "no healthy service has"
	case 1:
		return "one healthy service has"
	default:
		return fmt.Sprintf("%d healthy services have", healthy)
	}
}

// commonNodes returns the nodes that run pods of every service, sorted.
func commonNodes(found []party) []string {
	return common(found, func(p party) map[string]bool { return p.nodes })
}

// common returns what all services have, sorted.
func common[V any](found []party, of func(party) map[string]V) []string {
	var out []string
	if len(found) == 0 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(of(found[0]))) {
		if !slices.ContainsFunc(found, func(p party) bool { _, has := of(p)[name]; return !has }) {
			out = append(out, name)
		}
	}
	return out
}

// slack is how much later than the breach a change may show: the breach is
// measured over a window.
const slack = 2 * time.Minute

// had returns the services that a change reached before they breached.
func had(found []party, change string) []party {
	var out []party
	for _, p := range found {
		if at, has := p.changes[change]; has && (p.since.IsZero() || !at.After(p.since.Add(slack))) {
			out = append(out, p)
		}
	}
	return out
}

// commonChanges returns the changes that reached this service, the first one, and
// more than half of those that breach before they did: another one may breach for a
// reason of its own. Those that more of them have come first.
func commonChanges(found []party) []string {
	var out []string
	for _, change := range slices.Sorted(maps.Keys(found[0].changes)) {
		if of := had(found, change); len(of) > 1 && 2*len(of) > len(found) && of[0].name() == found[0].name() {
			out = append(out, change)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return len(had(found, b)) - len(had(found, a)) })
	return out
}

// byRelease recognises a change that most services that breach have, and no healthy
// one.
func byRelease(found, healthy []party) shared {
	some, did := healthy[:min(len(healthy), maxRead)], "did"
	if n := unread(some) + len(healthy) - len(some); n > 0 {
		did = fmt.Sprintf("is known to have it (%d could not be read)", n)
	}
	for _, change := range commonChanges(found) {
		if slices.ContainsFunc(healthy, func(p party) bool { _, has := p.changes[change]; return has }) {
			continue
		}
		var when []string
		of := had(found, change)
		for _, p := range of[:min(len(of), 5)] {
			when = append(when, fmt.Sprintf("%s at %s", p.name(), p.changes[change].UTC().Format("15:04Z")))
		}
		return cause{by: "release", what: change, text: fmt.Sprintf("all got %s before (%s), and no healthy service %s", change, strings.Join(when, ", "), did)}.named(of)
	}
	return shared{}
}

// byModel recognises that pods of every service cannot start, and need the same
// registry or model.
func byModel(found []party) cause {
	if slices.ContainsFunc(found, func(p party) bool { return !p.blocked }) {
		return cause{}
	}
	const stuck = "pods of all of them do not become ready, and "
	if host := same(found, func(p party) string { return p.images }); host != "" {
		return cause{by: "model", what: host, text: stuck + "none can pull its image from " + host}
	}
	if host := same(found, func(p party) string { return p.models }); host != "" {
		return cause{by: "model", what: host, text: stuck + "all load their model from " + host}
	}
	if model := same(found, func(p party) string { return p.svc.Model }); model != "" {
		return cause{by: "model", what: model, text: stuck + "all load the model " + model}
	}
	return cause{}
}

// behindGateway recognises that every service that breaches is behind one
// gateway, and few healthy services are.
func behindGateway(found, healthy []party) cause {
	gateway := same(found, func(p party) string { return p.svc.Gateway })
	if gateway == "" {
		return cause{}
	}
	behind := 0
	for _, p := range healthy {
		if p.svc.Gateway == gateway {
			behind++
		}
	}
	if !few(behind, len(found)) {
		return cause{}
	}
	return cause{by: "gateway", what: gateway, text: fmt.Sprintf("all are behind the gateway %s, where %d of %d measured services are well", gateway, behind, behind+len(found))}
}

// wholeFleet recognises that at least three services breach, and half of those
// measured.
func wholeFleet(found []party, measured int) cause {
	if len(found) < 3 || 2*len(found) < measured {
		return cause{}
	}
	return cause{by: "fleet", what: "fleet", text: "that is half of the fleet or more, and nothing narrower that they share was found"}
}

// same returns the value that all services have; empty: they differ, or one has
// none.
func same(found []party, of func(party) string) string {
	if len(found) == 0 {
		return ""
	}
	v := of(found[0])
	if slices.ContainsFunc(found, func(p party) bool { return of(p) != v }) {
		return ""
	}
	return v
}

// hotRoom recognises heat on two nodes or more, under this service and another
// one. hot has the hot nodes of each service; own is this one's name.
func hotRoom(own string, hot map[string][]string) cause {
	tenants := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(hot)) {
		for _, n := range hot[name] {
			tenants[n] = append(tenants[n], name)
		}
	}
	if len(hot[own]) == 0 || len(hot) < 2 || len(tenants) < 2 {
		return cause{}
	}
	var where []string
	nodes := slices.Sorted(maps.Keys(tenants))
	for _, n := range nodes[:min(len(nodes), 8)] {
		where = append(where, fmt.Sprintf("%s (%s)", n, strings.Join(tenants[n], ", ")))
	}
	if more := len(nodes) - len(where); more > 0 {
		where = append(where, fmt.Sprintf("%d more", more))
	}
	return cause{by: "heat", what: "heat", text: fmt.Sprintf("GPUs slow down for heat on %d nodes under %d services at once: %s; that is the room or the rack",
		len(nodes), len(hot), strings.Join(where, ", "))}
}
