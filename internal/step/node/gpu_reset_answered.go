package node

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// resetAnswered is the annotation that lists the GPUs of answered requests
// before the last one: the other annotations describe only the last one.
const resetAnswered = "responder.dev/gpu-reset-answered"

// mended holds the GPUs of requests that were answered while a node was out.
type mended struct {
	at   time.Time // when the first of them was made; zero: there was none
	all  bool      // one was for all of the node's
	gpus []string
}

// String writes it as the annotation has it: 2026-05-04T12:00:00Z UUID,UUID, or
// all in place of the UUIDs; empty: there were none.
func (m mended) String() string {
	switch {
	case m.all:
		return m.at.UTC().Format(time.RFC3339) + " all"
	case len(m.gpus) > 0:
		return m.at.UTC().Format(time.RFC3339) + " " + strings.Join(m.gpus, ",")
	default:
		return ""
	}
}

// readMended parses the annotation. A value that Responder did not write counts
// as none.
func readMended(s string) mended {
	when, list, _ := strings.Cut(s, " ")
	at, err := time.Parse(time.RFC3339, when)
	switch {
	case err != nil:
		return mended{}
	case list == "all":
		return mended{at: at, all: true}
	default:
		return mended{at: at, gpus: gpusListed(list)}
	}
}

// and adds the GPUs of another request.
func (m mended) and(o mended) mended {
	if m.at.IsZero() || !o.at.IsZero() && o.at.Before(m.at) {
		m.at = o.at
	}
	m.all, m.gpus = m.all || o.all, gpusListed(strings.Join(slices.Concat(m.gpus, o.gpus), ","))
	return m
}

// without removes GPUs that are requested again: earlier answers do not cover
// the new request. None means all.
func (m mended) without(gpus []string) mended {
	if m.all || len(gpus) == 0 {
		return mended{}
	}
	m.gpus = slices.DeleteFunc(slices.Clone(m.gpus), func(g string) bool { return slices.Contains(gpus, g) })
	return m
}

// told returns the GPUs of the requests that were answered since the node went
// out.
func (o wentOut) told(n kube.NodeState) mended {
	var out mended
	if openReset(n) != "" {
		return out
	}
	if before := readMended(n.Annotations[resetAnswered]); !before.at.Before(o.at.Truncate(time.Second)) {
		out = before
	}
	if o.answered(n) {
		_, at := kube.ParseMark(n.Annotations[kube.MarkReset])
		gpus, all := asksFor(n.Annotations[resetWhy])
		out = out.and(mended{at: at, all: all, gpus: gpus})
	}
	return out
}

// answeredBefore returns what a request for these GPUs has to keep of earlier
// requests: then, once it is answered, and now, while that is unknown. A
// request that is sent again has kept it already.
func answeredBefore(n kube.NodeState, gpus []string) (then, now mended) {
	if openReset(n) != "" {
		then = readMended(n.Annotations[resetAnswered])
		return then, then
	}
	out, err := readWentOut(n.Annotations[kube.GPUsWhenOut])
	if err != nil {
		return mended{}, mended{}
	}
	then = out.told(n)
	return then, then.without(gpus)
}

// openReset returns the label of an open request for a reset, whatever value
// its receiver gave it; empty: there is none. Responder sets no other labels on
// nodes.
func openReset(n kube.NodeState) string {
	for _, k := range sortedKeys(n.Labels) {
		if strings.HasPrefix(k, taintPrefix) {
			return k + "=" + n.Labels[k]
		}
	}
	return ""
}

// unlabel returns the command that removes a request's label by hand.
func unlabel(n kube.NodeState) string {
	key, _, _ := strings.Cut(openReset(n), "=")
	return "kubectl label node " + n.Name + " " + key + "-"
}

// unasked refuses a node with an open request. This run's own request, whose
// answer was lost, may be sent again if the receiver deduplicates by key.
func (l gpuResetRequest) unasked(in step.Input, n kube.NodeState, label string, gpus []string) error {
	open := openReset(n)
	asking := strings.HasSuffix(open, "="+resetAsking)
	switch {
	case open == "":
		return nil
	case open == label+"="+resetAsking && oursOn(n, kube.MarkReset, in, machine.ActionApply) && (l.repairs == nil || l.repairs.Once()):
		return nil
	}
	text := fmt.Sprintf("gpu.reset_request: node %s has the label %s already%s", n.Name, open, askedBy(n))
	switch of, all := asksFor(n.Annotations[resetWhy]); {
	case asking:
		text += "; an answer was lost: if nobody has the request, remove the label"
	case all || len(gpus) > 0 && !slices.ContainsFunc(gpus, func(g string) bool { return !slices.Contains(of, g) }):
		text += ": it is requested; its receiver removes the label when it is done"
	default:
		text += fmt.Sprintf(": one request at a time; tell its receiver about %s, too, or ask again once it is done and its label is removed", whichGPUs(gpus))
	}
	return &fault.Error{Reason: fault.NothingToDo, Message: text + ": " + unlabel(n)}
}

// askedBy describes who made the request of a label, as far as the node tells.
func askedBy(n kube.NodeState) string {
	key, at := kube.ParseMark(n.Annotations[kube.MarkReset])
	why := step.Shorten(n.Annotations[resetWhy])
	if key == "" || at.IsZero() || why == "" {
		return ""
	}
	run, _, _ := strings.Cut(key, "/")
	return fmt.Sprintf(" (run %s at %s UTC%s: %s)", run, at.UTC().Format("2006-01-02 15:04"), as(step.Shorten(n.Annotations[resetTicket])), why)
}
