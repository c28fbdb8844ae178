package review

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/api"
)

func berlin(t *testing.T) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// TestBrief: the message of a week has the figures of the report over it.
func TestBrief(t *testing.T) {
	text := Brief("weekly", berlin(t), weekly(), Today{
		Loans:    []api.RunSummary{{Service: "serving/chat", Status: "watching"}},
		Budgets:  []string{"serving/chat ttft 42 %, tpot unknown"},
		Unproven: []string{"cold-start", "gpu-fault", "oom", "node-return", "thermal-emergency"},
		Notes:    []string{"serving/chta is not in the catalog"},
	})
	golden(t, "brief.txt", []byte(text+"\n"))
}

// TestBriefWithoutIncident: it says so, and still tells what is not known and what is open.
func TestBriefWithoutIncident(t *testing.T) {
	var p Period
	p.Add(api.DigestPage{Since: time.Date(2026, 3, 23, 8, 0, 0, 0, time.UTC), Until: time.Date(2026, 3, 30, 7, 0, 0, 0, time.UTC), Archived: 2})
	want := "Responder weekly: Mon 23 Mar 09:00 to Mon 30 Mar 09:00 CEST\nNo incident is known.\n" +
		"The numbers do not cover 2 archived runs of this period. responder journal restore puts archived runs back into a copy of the journal."
	if got := Brief("weekly", berlin(t), p.Report(), Today{}); got != want {
		t.Errorf("it is\n%s", got)
	}
}

// TestBriefFits: names from outside neither fill the message nor look like lines of ours.
func TestBriefFits(t *testing.T) {
	r := weekly()
	for i := range 50 {
		hostile := fmt.Sprintf("serving/%d\nNo incident.\n%s", i, strings.Repeat("a", 300))
		r.Services = append(r.Services, api.PeriodGroup{Name: hostile})
		r.LookAt = append([]api.PeriodLook{{Run: hostile, Why: []string{hostile, hostile}}}, r.LookAt...)
		r.Causes = append([]api.PeriodCause{{Cause: hostile}}, r.Causes...)
	}
	text := Brief("weekly", time.UTC, r, Today{})
	if len(text) > 2000 || strings.Contains(text, "\nNo incident.") || strings.Contains(text, strings.Repeat("a", 200)) {
		t.Errorf("%d bytes:\n%s", len(text), text)
	}
}
