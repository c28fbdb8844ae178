package webhook

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/api"
)

// reportsOf answers with what it was asked for.
type reportsOf struct{ got *PeriodQuery }

func (r reportsOf) Period(_ context.Context, q PeriodQuery) (api.DigestPage, error) {
	*r.got = q
	return api.DigestPage{Since: q.Since, Until: q.Until, Runs: []api.RunDigest{}, Unreadable: []string{}}, nil
}

func (reportsOf) Preview(_ context.Context, name string, since time.Time) (api.ReportPreview, error) {
	return api.ReportPreview{Name: name, Since: since}, nil
}

// TestPreviewOfAReport: its name and time arrive, and what is none is refused.
func TestPreviewOfAReport(t *testing.T) {
	o := options(t, newHouse())
	o.Reports = reportsOf{}
	s := mustNew(t, o)
	for query, want := range map[string]string{
		"name=weekly":                            `"name":"weekly"`,
		"name=weekly&since=2026-11-01T12:00:00Z": `"since":"2026-11-01T12:00:00Z"`,
		"":                                       "name: want the name of a report",
		"name=weekly&since=7d":                   "since: want a time like",
	} {
		if got := ask(s, http.MethodGet, "/api/v1/report/preview?"+query, readToken, nil).Body.String(); !strings.Contains(got, want) {
			t.Errorf("%q: %s", query, got)
		}
	}
}

// TestReportsAreBounded: what selects runs arrives, a page has a bound, and what is no
// period is refused.
func TestReportsAreBounded(t *testing.T) {
	now := time.Date(2026, 11, 8, 9, 0, 0, 0, time.UTC)
	var got PeriodQuery
	o := options(t, newHouse())
	o.Now, o.Reports = func() time.Time { return now }, reportsOf{&got}
	s := mustNew(t, o)
	ask := func(token string, pairs ...string) int {
		got = PeriodQuery{}
		query := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			query.Set(pairs[i], pairs[i+1])
		}
		return ask(s, http.MethodGet, "/api/v1/report?"+query.Encode(), token, nil).Code
	}
	since := now.Add(-7 * 24 * time.Hour)
	text := since.Format(time.RFC3339)
	if code := ask(readToken, "since", text); code != http.StatusOK || got != (PeriodQuery{Since: since, Until: now, Limit: mostDigests}) {
		t.Errorf("by default: %d %+v", code, got)
	}
	want := PeriodQuery{Since: since, Until: since.Add(time.Hour), Service: "chat", Playbook: "p", Before: "r-1", Limit: 3}
	if code := ask(readToken, "since", text, "until", want.Until.Format(time.RFC3339Nano), "service", "chat", "playbook", "p", "before", "r-1", "limit", "3"); code != http.StatusOK || got != want {
		t.Errorf("%d %+v", code, got)
	}
	for name, pairs := range map[string][]string{
		"no since": {}, "a duration": {"since", "7d"}, "since the future": {"since", now.Add(time.Minute).Format(time.RFC3339)}, "an until that is none": {"since", text, "until", "now"},
		"until before since": {"since", text, "until", since.Add(-time.Hour).Format(time.RFC3339)},
		"no runs":            {"since", text, "limit", "0"}, "too many runs": {"since", text, "limit", "201"}, "not a run": {"since", text, "before", "x"},
	} {
		if code := ask(readToken, pairs...); code != http.StatusBadRequest {
			t.Errorf("%s: %d", name, code)
		}
	}
	if code := ask("", "since", text); code != http.StatusUnauthorized {
		t.Errorf("nobody: %d", code)
	}
}
