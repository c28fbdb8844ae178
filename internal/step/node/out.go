package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/judge"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// wentOut is what was known of a node and its GPUs when Responder took it out.
// An agent forgets its XIDs when it restarts, and a driver forgets its
// counters. The node's annotation [kube.GPUsWhenOut] keeps them, so that a GPU
// that needs a reset is not taken for healthy without one.
type wentOut struct {
	at         time.Time
	boot       string   // which boot of its kernel it was; empty: not known
	reset      []string // UUIDs of GPUs that needed a reset, or a reboot of the node
	replace    []string // UUIDs of GPUs that were to be replaced
	conditions []string // conditions by which others on it told of a fault of its GPUs; of which, and what mends it, they do not say
	unseen     bool     // of others too little was known to say that they needed nothing
}

// someGPU stands for a GPU that has left the bus, so that its UUID is unknown.
const someGPU = "some"

// String writes it as the annotation has it:
// 2026-05-04T12:00:00Z boot=ID reset=UUID,UUID replace=UUID told=CONDITION unseen.
func (o wentOut) String() string {
	parts := []string{o.at.UTC().Format(time.RFC3339)}
	for _, list := range []struct {
		key    string
		values []string
	}{{"boot", []string{o.boot}}, {"reset", o.reset}, {"replace", o.replace}, {"told", o.conditions}} {
		if v := strings.Join(list.values, ","); v != "" {
			parts = append(parts, list.key+"="+v)
		}
	}
	if o.unseen {
		parts = append(parts, "unseen")
	}
	return strings.Join(parts, " ")
}

// readWentOut parses the annotation, which people can write, too.
func readWentOut(s string) (wentOut, error) {
	when, rest, _ := strings.Cut(s, " ")
	at, err := time.Parse(time.RFC3339, when)
	if err != nil {
		return wentOut{}, fmt.Errorf("%q does not begin with a time", step.Shorten(s))
	}
	o := wentOut{at: at}
	for _, part := range strings.Fields(rest) {
		switch key, value, _ := strings.Cut(part, "="); key {
		case "boot":
			o.boot = value
		case "reset":
			o.reset = strings.Split(value, ",")
		case "replace":
			o.replace = strings.Split(value, ",")
		case "told":
			o.conditions = strings.Split(value, ",")
		case "unseen":
			o.unseen = true
		default:
			return wentOut{}, fmt.Errorf("%q is an unknown field of it", step.Shorten(part))
		}
	}
	return o, nil
}

// mends reports whether something needs a reboot or a repair.
func (o wentOut) mends() bool { return len(o.reset)+len(o.replace)+len(o.conditions) > 0 || o.unseen }

// heldOut reports whether Responder already keeps pods off the node.
func heldOut(n kube.NodeState) bool {
	return n.Unschedulable && n.CordonedBy == kube.FieldManager || slices.ContainsFunc(n.Taints, keepsAway)
}

// keepsAway reports whether a taint is Responder's and keeps pods off.
func keepsAway(t kube.Taint) bool {
	return strings.HasPrefix(t.Key, taintPrefix) && t.Effect != preferNoSchedule
}

// noted returns the annotations that an undo restores when the node comes back.
func noted(n kube.NodeState) map[string]string {
	if !heldOut(n) {
		return map[string]string{kube.GPUsWhenOut: ""} // what is there is of another time
	}
	return map[string]string{kube.GPUsWhenOut: n.Annotations[kube.GPUsWhenOut]}
}

// keepsOut reports whether the edit keeps pods off the node, or relies on one
// that does.
func (p nodePayload) keepsOut() bool {
	return p.Cordoned || p.Do.Cordon != nil && *p.Do.Cordon || p.Do.Taint != nil && keepsAway(*p.Do.Taint)
}

// remembering returns the edit with the record of the node's GPUs at the moment
// when it goes out. The record is not part of the plan: people decide whether
// the node goes out, not what is found on it then.
func (l node) remembering(ctx context.Context, p nodePayload, name string) (kube.NodeEdit, error) {
	if !p.keepsOut() {
		return p.Do, nil
	}
	n, err := l.n.Node(ctx, name)
	if err != nil {
		return p.Do, err
	}
	edit := p.Do
	seen, snap := l.seenGoing(ctx, n)
	text := seen.String()
	if !n.HasGPUs && !seen.mends() {
		text = "" // the note of a node with GPUs says, by being there, that it had some
	}
	if before := n.Annotations[kube.GPUsWhenOut]; before != "" && heldOut(n) {
		text = l.joinWentOut(ctx, n, before, seen, snap)
	}
	edit.Annotate = map[string]string{kube.GPUsWhenOut: text}
	maps.Copy(edit.Annotate, p.Do.Annotate)
	return edit, nil
}

// joinWentOut adds findings on a node that is out already. An existing
// annotation that cannot be parsed stays, because it may record a fault. The
// later time counts from then on, and anything unknown in between is recorded
// as unseen.
func (l node) joinWentOut(ctx context.Context, n kube.NodeState, before string, now wentOut, snap gpu.Snapshot) string {
	was, err := readWentOut(before)
	if err != nil || !now.mends() {
		return before
	}
	union := func(a, b []string) []string { return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b)))) }
	now.conditions = union(was.conditions, now.conditions)
	now.reset, now.replace, now.unseen = union(was.reset, now.reset), union(was.replace, now.replace), was.unseen || now.unseen || l.xidGap(ctx, n, was, now.at, snap) != ""
	if was.mends() && was.boot == "" {
		now.boot = "" // a reboot since then cannot be told
	}
	return now.String()
}

// seenGoing reads what the node's GPUs need. Conditions that others set on the
// node count even if the GPUs look healthy: node-problem-detector and its like
// forget them at a restart.
func (l node) seenGoing(ctx context.Context, n kube.NodeState) (o wentOut, snap gpu.Snapshot) {
	o = wentOut{at: l.now(), boot: n.BootID}
	for _, c := range kube.GPUTroubles(n.Conditions) {
		name, _, _ := strings.Cut(c, "=")
		o.conditions = append(o.conditions, name)
	}
	switch {
	case !n.HasGPUs:
		return o, snap
	case l.gpus == nil:
		o.unseen = true
		return o, snap
	}
	answers := l.gpus.Snapshots(ctx, []string{n.Name}, 0)
	// The verdict is that of the worst finding, and hides what is not known beside it.
	uncertain := func(r judge.Reason) bool { return r.Verdict == judge.Uncertain }
	o.unseen = len(answers) == 0
	if !o.unseen {
		snap = answers[0].Snapshot
	}
	for _, j := range judge.Answers(l.now(), answers) {
		o.unseen = o.unseen || slices.ContainsFunc(j.Reasons, uncertain)
		if j.Repair != "" {
			o.reset = append(o.reset, someGPU)
		}
		for _, g := range j.GPUs {
			switch {
			case !g.Reset && !g.RMA:
				o.unseen = o.unseen || slices.ContainsFunc(g.Reasons, uncertain)
			case strings.ContainsAny(g.UUID, " ,="):
				o.unseen = true
			case g.RMA:
				o.replace = append(o.replace, g.UUID)
			default:
				o.reset = append(o.reset, g.UUID)
			}
		}
	}
	return o, snap
}

// unmended describes what has not been repaired since the node went out; empty:
// everything has, or nothing was needed. A new boot id of the kernel proves a
// reboot. A reset without a reboot is proven only by people: they removed the
// annotation, or the label of a request that was made after it.
func (o wentOut) unmended(n kube.NodeState) string {
	const hand = "; if it was repaired without a reboot, or needs no repair, remove the annotation " + kube.GPUsWhenOut
	if !o.mends() || o.toldMended(n) {
		return ""
	}
	why := strings.Join(o.findings(), ", and ")
	why += " when it went out at " + o.at.UTC().Format("2006-01-02 15:04") + " UTC, "
	if o.answered(n) || !o.told(n).at.IsZero() {
		why += "the requests that were answered since did not cover all of that, "
	}
	why += "and "
	switch {
	case o.boot == "" || n.BootID == "":
		return why + "it is unknown whether it was rebooted since" + hand
	case !o.rebooted(n):
		return why + "it was not rebooted since" + hand
	}
	return ""
}

// findings lists the faults at the time when the node went out.
func (o wentOut) findings() []string {
	var out []string
	if len(o.reset)+len(o.replace) > 0 {
		names := strings.Join(slices.Concat(o.reset, o.replace), ", ")
		out = append(out, strings.Replace(names, someGPU, "one of its GPUs", 1)+" needed a reset or a reboot")
	}
	if len(o.conditions) > 0 {
		out = append(out, strings.Join(o.conditions, ", ")+" told of a fault of its GPUs")
	}
	switch {
	case o.unseen && len(out) == 0:
		out = append(out, "too little was known of its GPUs")
	case o.unseen:
		out = append(out, "of others too little was known")
	}
	return out
}

// rebooted reports whether the node was rebooted since it went out.
func (o wentOut) rebooted(n kube.NodeState) bool {
	return o.boot != "" && n.BootID != "" && o.boot != n.BootID
}

// toldMended reports whether requests for a reset of all GPUs that needed one
// were answered after the node went out. Requests do not cover GPUs that they
// do not name.
func (o wentOut) toldMended(n kube.NodeState) bool {
	told := o.told(n)
	named := !o.unseen && len(o.conditions) == 0 && !slices.ContainsFunc(slices.Concat(o.reset, o.replace), func(uuid string) bool {
		return uuid == someGPU || !slices.Contains(told.gpus, uuid)
	})
	return (told.all || named) && !told.at.IsZero()
}

// answered reports whether a request for a reset was made after the node went
// out and its label was removed, which its receiver does when the reset is
// done.
func (o wentOut) answered(n kube.NodeState) bool {
	key, at := kube.ParseMark(n.Annotations[kube.MarkReset])
	action := key[strings.LastIndexByte(key, '/')+1:]
	apply := action == string(machine.ActionApply) || strings.HasPrefix(action, string(machine.ActionApply)+"#")
	return apply && openReset(n) == "" && !at.Before(o.at.Truncate(time.Second))
}

// unreplaced names the GPUs that were to be replaced and are still there;
// empty: there are none, or somebody has stated that they need no replacement.
func (o wentOut) unreplaced(n kube.NodeState, uuids []string) string {
	if o.toldMended(n) {
		return ""
	}
	still := slices.DeleteFunc(slices.Clone(o.replace), func(u string) bool { return !slices.Contains(uuids, u) })
	if len(still) == 0 {
		return ""
	}
	return fmt.Sprintf("%s was to be replaced when it went out at %s UTC, and is still there; if it needs no replacement, remove the annotation %s",
		strings.Join(still, ", "), o.at.UTC().Format("2006-01-02 15:04"), kube.GPUsWhenOut)
}
