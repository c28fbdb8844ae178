package runview

import (
	"fmt"
	"maps"
	"slices"
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
			{Head: "RUN"},

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
		last := ""
		if n := len(a.Runs); n > 0 {
			last = a.Runs[n-1]
		}
		age := ""
		if !list.Now.IsZero() {
			age = Age(list.Now.Sub(a.Seen))
		}
		t.Add(age, alertName(a), state, a.Became, last, a.Reason, fingerprint(a), starts, Time(a.Seen), labelText(a.Labels))
	}
	return t
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
	switch {
	case len(a.Runs) == 1:
		return "it started or joined run " + a.Runs[0]
	case len(a.Runs) > 1:
		return "it started or joined runs " + strings.Join(a.Runs, ", ")
	case a.Became == "resolved":
		return "no run: it resolved before it could start one"
	default:
		return "no run: " + a.Became
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
