package app

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/webhook"
)

// namedAlerts bounds the unmatched alerts whose notifications are read for their names.
const namedAlerts = 1000

// reports reads what reports over a period are made of.
type reports struct {
	executor *executor.Executor
	received received
	now      func() time.Time
}

// Period returns one page of the runs that began in a period.
func (r reports) Period(ctx context.Context, q webhook.PeriodQuery) (api.DigestPage, error) {
	page := api.DigestPage{
		Since: q.Since.UTC(), Until: q.Until.UTC(), Service: q.Service, Playbook: q.Playbook, Runs: []api.RunDigest{}, Unreadable: []string{},
	}
	part, err := r.executor.Began(ctx, executor.Period{Since: q.Since, Until: q.Until, Before: q.Before, Limit: q.Limit}, func(s machine.State, events []machine.Event) {
		if (q.Service == "" || q.Service == s.Start.Service.Name) && (q.Playbook == "" || q.Playbook == s.Start.Playbook) {
			page.Runs = append(page.Runs, runview.DigestOf(s, events))
		}
	})
	if err != nil {
		return page, err
	}
	page.Archived, page.Next = len(part.Archived), part.Next
	page.Unreadable = append(page.Unreadable, part.Unreadable...)
	if q.Before == "" && q.Service == "" && q.Playbook == "" {
		page.Alerts = r.alerts(q)
	}
	return page, nil
}

// alerts counts the alerts that began to fire in a period.
func (r reports) alerts(q webhook.PeriodQuery) *api.AlertTally {
	f := dispatch.SeenFilter{Since: q.Since, Until: q.Until}
	out := &api.AlertTally{KnownSince: r.now().Add(-dispatch.EpisodesKept).UTC(), UnmatchedNames: []api.UnmatchedAlert{}}
	for kind, n := range r.executor.AlertTally(f) {
		out.Received += n
		switch kind {
		case dispatch.KindMatched, dispatch.KindReleased: // that run was released
			out.WithRun += n
		case dispatch.KindUnmatched:
			out.Unmatched += n
		case dispatch.KindNoService:
			out.NoService += n
		case dispatch.KindSuppressed:
			out.Suppressed += n
		case dispatch.KindQuarantined:
			out.Quarantined += n
		default:
			out.Resolved += n
		}
	}
	f.NoRun, f.Kind = true, dispatch.KindUnmatched
	out.UnmatchedNames, out.MoreUnmatched = r.unmatched(f)
	return out
}

// unmatched returns the names of alerts that no playbook matches, the most frequent first.
func (r reports) unmatched(f dispatch.SeenFilter) ([]api.UnmatchedAlert, bool) {
	seen, more := r.executor.Alerts(f, namedAlerts)
	at := map[string]int{}
	out := []api.UnmatchedAlert{}
	for _, s := range seen {
		a := r.received.alert(s)
		name := a.Labels["alertname"]
		key := name + "\x00" + a.Nearest
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, api.UnmatchedAlert{Alert: name, Nearest: a.Nearest, Mismatch: strings.Join(a.Mismatches, "; ")})
		}
		out[i].Count++
	}
	slices.SortStableFunc(out, func(a, b api.UnmatchedAlert) int { return cmp.Or(b.Count-a.Count, cmp.Compare(a.Alert, b.Alert)) })
	return out, more
}
