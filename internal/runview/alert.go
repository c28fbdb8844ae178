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

			{Head: HeadRepeated, Wide: true},
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
		t.Add(age, alertName(a), state, BecameWord(a.Became), again, lastRun(a), last, a.Reason, fingerprint(a), starts, Time(a.Seen), labelText(a.Labels))
	}
	return t
}

// HeadRepeated is the heading of when an alert was last repeated.
const HeadRepeated = "REPEATED (UTC)"

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
	fmt.Fprintf(&b, "\n%s\n", Inline(alertName(a)+" "+fingerprint(a)))
	line := func(head, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-8s %s\n", head, Inline(text))
		}
	}
	line("became", becameLine(a))
	line("why", a.Reason)
	if a.Repeats > 0 {
		line("repeated", Count(a.Repeats, "time")+", last "+clock.Ago(a.Repeated)+"; nothing new came of it")
	}
	line("labels", labelText(a.Labels))
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
	line("do", a.Remedy)
	return b.String()
}

// becameLine is what became of an alert.
func becameLine(a api.ReceivedAlert) string {
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

func alertName(a api.ReceivedAlert) string {
	if name := a.Labels["alertname"]; name != "" {
		return name
	}
	return fingerprint(a)
}

func fingerprint(a api.ReceivedAlert) string {
	hash, _, _ := strings.Cut(a.Episode, "@")
	return hash
}

// labelText returns labels as Alertmanager writes them, without the alert's name.
func labelText(labels map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if name != "alertname" {
			out = append(out, fmt.Sprintf("%s=%q", name, labels[name]))
		}
	}
	return strings.Join(out, ", ")
}
