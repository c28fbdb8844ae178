package runview

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/inference-responder/responder/internal/api"
)

// Age is a duration in at most four characters or so, like 3m or 2d4h. One below zero
// is 0s: clocks differ.
func Age(d time.Duration) string { return duration.HumanDuration(max(d, 0)) }

// AlertTable returns the table of received alerts. AGE is by the service's clock, and
// empty if the answer does not have its time.
func AlertTable(list api.AlertList) *Table {
	t := &Table{
		Columns: []Column{
			{Head: "AGE"},
			{Head: "ALERT", Flex: true},
			{Head: "STATE"},
			{Head: "BECAME"},
			{Head: "REPEATED"},
			{Head: "RUN", Brief: BriefRuns(lastRuns(list.Alerts))},

			{Head: "REPEATED (UTC)", Wide: true},
			{Head: "REASON", Wide: true},
			{Head: "FINGERPRINT", Wide: true},
			{Head: "STARTED (UTC)", Wide: true},
			{Head: "SEEN (UTC)", Wide: true},
			{Head: "LABELS", Wide: true},
		},
		Empty: "no alert was received",
	}
	for _, a := range list.Alerts {
		state, starts := "resolved", ""
		if a.Firing {
			state = "firing"
		}
		if !a.Starts.IsZero() {
			starts = Time(a.Starts)
		}
		again, last := "", ""
		if a.Repeats > 0 {
			again, last = strconv.Itoa(a.Repeats), Time(a.Repeated)
		}
		age := ""
		if !list.Now.IsZero() {
			age = Age(list.Now.Sub(a.Seen))
		}
		t.Add(age, AlertName(a), state, BecameWord(a.Became), again, lastRun(a), last, a.Reason, Fingerprint(a), starts, Time(a.Seen), AlertLabels(a))
	}
	return t
}

// BecameWord returns in words what became of an alert, from a value of
// [api.ReceivedAlert].Became.
func BecameWord(became string) string {
	switch became {
	case "unmatched":
		return "no playbook"
	case "no-service":
		return "no service"
	default:
		return became
	}
}

// lastRun returns the newest run of an alert; empty: it has none.
func lastRun(a api.ReceivedAlert) string {
	if n := len(a.Runs); n > 0 {
		return a.Runs[n-1]
	}
	return ""
}

func lastRuns(alerts []api.ReceivedAlert) (ids []string) {
	for _, a := range alerts {
		if id := lastRun(a); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// AlertReason returns in one line why an alert has no run, with the playbook that is nearest and the
// matchers of it that fail; empty: it has one, or none is wanted.
func AlertReason(a api.ReceivedAlert) string {
	if len(a.Runs) > 0 || a.Nearest == "" {
		return a.Reason
	}
	return a.Reason + "; nearest is playbook " + a.Nearest + ": " + strings.Join(a.Mismatches, "; ")
}

// AlertWhy explains what became of an alert: when it was received, its run or why it has
// none, and what to do.
func AlertWhy(a api.ReceivedAlert, clock Clock) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", Inline(AlertName(a)+" "+Fingerprint(a)))
	line := func(head, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-8s %s\n", head, Inline(text))
		}
	}
	line("became", AlertBecame(a))
	line("why", a.Reason)
	if a.Repeats > 0 {
		line("repeated", Count(a.Repeats, "time")+", last "+clock.Ago(a.Repeated)+"; nothing new came of it")
	}
	line("labels", AlertLabels(a))
	line("started", clock.Ago(a.Starts))
	line("seen", clock.Ago(a.Seen))
	if !a.Resolved.IsZero() {
		line("resolved", clock.Ago(a.Resolved))
	}
	if a.Nearest != "" {
		line("nearest", "playbook "+a.Nearest)
		for _, m := range a.Mismatches {
			line("", m)
		}
	}
	if a.Entry > 0 {
		line("entry", strconv.FormatUint(a.Entry, 10)+" of the audit log has its notification")
	}
	line("do", a.Remedy)
	return b.String()
}

// AlertBecame tells in a sentence what became of an alert, with its runs.
func AlertBecame(a api.ReceivedAlert) string {
	switch all := strings.Join(a.Runs, ", "); {
	case len(a.Runs) == 1 && a.Became == "joined":
		return "joined: it was added to run " + all + ", which it did not start"
	case a.Became == "joined":
		return "joined: it was added to runs " + all + ", none of which it started"
	case len(a.Runs) == 1:
		return "run: it started run " + all
	case len(a.Runs) > 1:
		return "run: it has a part in runs " + all + ", and started at least one of them"
	case a.Became == "resolved":
		return "no run: it resolved before it could start one"
	default:
		return "no run: " + BecameWord(a.Became)
	}
}

// AlertName returns the name of an alert, or its fingerprint if its labels are not known.
func AlertName(a api.ReceivedAlert) string {
	if name := a.Labels["alertname"]; name != "" {
		return name
	}
	return Fingerprint(a)
}

// Fingerprint returns the hash of the labels by which Alertmanager knows an alert.
func Fingerprint(a api.ReceivedAlert) string {
	hash, _, _ := strings.Cut(a.Episode, "@")
	return hash
}

// AlertLabels returns the labels of an alert as Alertmanager writes them, without its name.
func AlertLabels(a api.ReceivedAlert) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(a.Labels)) {
		if name != "alertname" {
			out = append(out, fmt.Sprintf("%s=%q", name, a.Labels[name]))
		}
	}
	return strings.Join(out, ", ")
}
