package step

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// RefText formats a reference: Deployment serving/chat.
func RefText(r kube.Ref) string { return r.Kind + " " + r.Namespace + "/" + r.Name }

// RefOf returns the reference to the service's workload.
func RefOf(svc playbook.Service) kube.Ref {
	return kube.Ref{Kind: svc.Workload.Kind, Namespace: svc.Namespace, Name: svc.Workload.Name}
}

// Shorten cuts an expression to fit a line.
func Shorten(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 120 {
		return string(r[:117]) + "..."
	}
	return s
}

// IsFinite reports whether v is neither NaN nor infinite.
func IsFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// OrNone returns s, or "none" when it is empty.
func OrNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}

// DurationText formats a duration for people: 12m, 3h, 4d.
func DurationText(d time.Duration) string {
	switch {
	case d < time.Minute:
		d = d.Round(time.Second)
	case d < 48*time.Hour:
		d = d.Round(time.Minute)
	default:
		d = d.Truncate(24 * time.Hour)
	}
	return playbook.FormatDuration(max(d, 0))
}

// FirstOf joins the first items of a list and counts the rest.
func FirstOf(all []string, most int, by string) string {
	if len(all) > most {
		all = append(all[:most:most], fmt.Sprintf("and %d more", len(all)-most))
	}
	return strings.Join(all, by)
}
