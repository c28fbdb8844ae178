package service

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// sameMoment is how much earlier than a change a breach may seem to begin that the
// change caused: the beginning is found on a grid of minutes.
const sameMoment = 2 * time.Minute

// settledAfter is how long a service has to be well with a change that is no
// suspect any more.
const settledAfter = time.Hour

// weight is what speaks for and against a change as the cause of a breach. The
// zero value of counts and times means that nobody knows.
type weight struct {
	changed, ours, matters bool

	subject string    // what changed the service: revision 7, or several that were not told apart
	serves  string    // the pods of which revisions have it: those and all that came later
	former  string    // what was there before: revision 6
	moved   []string  // what it moved, by short names, as far as it still stands
	first   time.Time // when it took effect: the first of several
	at      time.Time // when the last of them did
	later   string    // what came later; empty: nothing
	target  int64     // revision that was current before it, where the window has several; 0: not known
	gone    bool      // what runs now is what was current before it
	// acquitted describes a rollback of it that was measured, did not help and was undone; empty: there was none
	acquitted string
	window    time.Duration

	since     time.Time // when the breach began
	objective float64   // of the worst missed objective; 0: not known
	factor    float64   // of its alert
	bad       string    // a bad request in one word
	now       slo.Counts
	before    slo.Counts // before the first took effect
	oldPods   slo.Counts // on pods of the former revision, now
	newPods   slo.Counts // on pods of the current one
	odd       odd        // where all serve the current one
	unserved  bool       // all replicas of the former revision serve, and no pod of the current one is ready

	own    slo.Counts // on pods of the current revision, now
	load   growth     // of the load that may explain the breach
	slower prefill    // that no load explains
	prompt bool       // the missed objective holds the time of a prefill
	fails  bool       // it is one of errors

	unknown string // why something of this is not known; empty: all is
}

// weigh reports whether the change is a suspect, and why, in one sentence. Rules
// are in the order of how much they tell; the first that applies decides.
func (w weight) weigh() (suspect bool, why string) {
	rules := []func() (suspect bool, why string){w.none, w.tried, w.reverted, w.compared, w.late, w.idle, w.uneven, w.settled, w.loaded, w.harmless, w.slowed}
	for _, rule := range rules {
		if suspect, why = rule(); why != "" {
			return suspect, why + w.others(suspect)
		}
	}
	why = fmt.Sprintf("%s changed %s", w.subject, w.movedText())
	switch after := w.since.Sub(w.at); {
	case w.since.IsZero():
	case after < 0 && w.first.Before(w.at):
		why = fmt.Sprintf("the breach began %s after the first of %s took effect, which changed %s", step.DurationText(w.since.Sub(w.first)), w.subject, w.movedText())
	default:
		why = fmt.Sprintf("the breach began %s after %s took effect, which changed %s", step.DurationText(after), w.subject, w.movedText())
	}
	if !math.IsNaN(w.load.times) {
		why += "; " + w.load.text("")
	}
	if w.unknown != "" {
		why += "; " + w.unknown
	}
	return true, why + w.others(true)
}

// excused reports whether the load, or what was before, speaks for a change that can make
// prefill slower.
func (w weight) excused() bool {
	if !w.matters {
		return false
	}
	_, late := w.late()
	_, loaded := w.loaded()
	return late != "" || loaded != ""
}

// worse reports whether the pods of the current revision miss the objective side by side
// with those of the former one, which do not.
func (w weight) worse() bool {
	w.newPods = w.own
	bad, why := w.compared()
	return bad && why != ""
}

// others tells what came after a change, and what was there before it, where there were
// several within the window.
func (w weight) others(suspect bool) string {
	out := ""
	switch {
	case !w.changed || w.ours || w.acquitted != "":
		return ""
	case w.later != "" && suspect:
		out = "; " + w.later + ", which came later, would go back with it"
	case w.later != "" && !w.gone:
		out = "; " + w.later + " came later"
	}
	if w.target > 0 && suspect {
		out += fmt.Sprintf("; revision %d was current before", w.target)
	}
	return out
}

// none: there is no change, or it is a repair.
func (w weight) none() (bool, string) {
	switch {
	case !w.changed:
		return false, "no release within " + step.DurationText(w.window)
	case w.ours:
		return false, w.subject + " is a repair by Responder"
	}
	return false, ""
}

// tried: without the change the service was as bad, or worse.
func (w weight) tried() (bool, string) {
	if w.acquitted == "" {
		return false, ""
	}
	return false, w.acquitted + ": it is not what is to be taken back"
}

// late: the service was as bad before the change took effect. Where prefill has become
// slower since then for another reason than load, the change is bad as well.
func (w weight) late() (bool, string) {
	if w.slower.now > 0 {
		return false, ""
	}
	test := slo.Test{Objective: w.objective, Factor: w.factor, Now: w.before}
	stands, _ := test.Stands()
	ended := w.since.After(w.first) // an earlier breach, which was over when this one began
	switch {
	case w.objective > 0 && stands == slo.Breached && !ended && w.now.Total > 0 && 2*w.before.Ratio() >= w.now.Ratio():
		return false, fmt.Sprintf("%s of requests were %s before %s took effect, and %s are now: it is not what began the breach",
			slo.Percent(w.before.Ratio()), w.bad, w.subject, slo.Percent(w.now.Ratio()))
	case ended || w.objective > 0 && stands != slo.Unknown:
		return false, "" // it was better before, whenever it seems to have begun
	case !w.since.IsZero() && w.since.Before(w.first.Add(-sameMoment)):
		return false, fmt.Sprintf("the breach began %s before %s took effect", step.DurationText(w.first.Sub(w.since)), w.subject)
	}
	return false, ""
}

// reverted: what was there before the change is there again.
func (w weight) reverted() (bool, string) {
	if !w.gone {
		return false, ""
	}
	return false, fmt.Sprintf("%s is there again, as before %s: there is nothing left to take back", w.former, w.subject)
}

// compared: pods of both revisions serve, and either differ or do not.
func (w weight) compared() (bool, string) {
	if w.objective == 0 {
		return false, ""
	}
	old, _ := slo.Test{Objective: w.objective, Factor: w.factor, Now: w.oldPods}.Stands()
	fresh, _ := slo.Test{Objective: w.objective, Factor: w.factor, Now: w.newPods}.Stands()
	heads := slo.Heads(w.oldPods, w.newPods)
	shares := fmt.Sprintf("%s of requests are %s on pods of %s, %s on pods of %s",
		slo.Percent(w.newPods.Ratio()), w.bad, w.serves, slo.Percent(w.oldPods.Ratio()), w.former)
	switch {
	case fresh == slo.Breached && heads == slo.Rising && old != slo.Breached:
		return true, fmt.Sprintf("%s, side by side; it changed %s", shares, w.movedText())
	case old == slo.Breached && fresh != slo.Unknown && heads != slo.Rising:
		return false, shares + ": both revisions suffer alike"
	}
	return false, ""
}

// idle: no pod of the change serves, and it has taken none away that did.
func (w weight) idle() (bool, string) {
	if !w.unserved {
		return false, ""
	}
	return false, fmt.Sprintf("no pod of %s is ready, and as many of %s serve as are wanted: it is not what is %s", w.serves, w.former, w.bad)
}

// uneven: one pod is bad, and the others of the same revision are well.
func (w weight) uneven() (bool, string) {
	if w.odd.pod == "" {
		return false, ""
	}
	others := "the other pod"
	if w.odd.rest > 1 {
		others = fmt.Sprintf("the %d other pods", w.odd.rest)
	}
	return false, fmt.Sprintf("%s of requests are %s on pod %s, %s on %s of %s: it is that pod, not what %s changed: %s",
		slo.Percent(w.odd.own.Ratio()), w.bad, w.odd.pod, slo.Percent(w.odd.others.Ratio()), others, w.serves, w.subject, w.movedText())
}

// settled: the service was well with the change for long.
func (w weight) settled() (bool, string) {
	if served := w.since.Sub(w.at); !w.since.IsZero() && served > settledAfter {
		return false, fmt.Sprintf("%s had served for %s before the breach began: it is not what began it", w.subject, step.DurationText(served))
	}
	return false, ""
}

// loaded: the load explains the breach, and nothing is slower that it does not explain.
// A queue makes few requests fail, and longer prompts make no token late.
func (w weight) loaded() (bool, string) {
	load := w.load
	if !w.prompt {
		load.prompts = 0
	}
	if w.slower.now > 0 || !load.explains() || w.fails && !(load.times >= muchMore && load.waiting >= 1) {
		return false, ""
	}
	only := ""
	if !w.matters {
		only = " only"
	}
	return false, fmt.Sprintf("%s: the load explains it better than %s, which changed %s%s", w.load.text(" the breach"), w.subject, w.movedText(), only)
}

// harmless: what moved cannot change how requests are served.
func (w weight) harmless() (bool, string) {
	if w.matters {
		return false, ""
	}
	return false, fmt.Sprintf("%s changed %s only, which cannot change how requests are served", w.subject, w.movedText())
}

// slowed: the service was bad before the change, or there is more to do, and prefill has
// become slower since the change for another reason.
func (w weight) slowed() (bool, string) {
	if w.slower.now == 0 {
		return false, ""
	}
	return true, fmt.Sprintf("%s changed %s, and %s", w.subject, w.movedText(), w.slower.text())
}

// movedText names what moved, on one line.
func (w weight) movedText() string {
	if len(w.moved) == 0 {
		return "nothing that is shown"
	}
	return step.FirstOf(w.moved, 4, ", ")
}

// shortName returns the name of a field as people say it: --max-num-seqs, image.
func shortName(path string) string {
	switch {
	case strings.HasSuffix(path, ".image"):
		return "image"
	case strings.HasSuffix(path, "]") && (strings.Contains(path, ".args[") || strings.Contains(path, ".command[") || strings.Contains(path, ".env[")):
		return path[strings.LastIndexByte(path, '[')+1 : len(path)-1]
	}
	return path
}
