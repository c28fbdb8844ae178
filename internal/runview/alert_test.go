package runview

import (
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/api"
)

// The age of an alert is by the service's clock: in a sandbox it differs from the
// client's by days. An answer without the time shows no age.
func TestAgeOfAlerts(t *testing.T) {
	seen := time.Date(2030, 3, 4, 12, 0, 0, 0, time.UTC)
	list := api.AlertList{Alerts: []api.ReceivedAlert{{Episode: "aa@x", Seen: seen}}}
	if age := AlertTable(list).Rows[0][0]; age != "" {
		t.Errorf("without a time: %q", age)
	}
	list.Now = seen.Add(90 * time.Second)
	if age := AlertTable(list).Rows[0][0]; age != "90s" {
		t.Errorf("after 90 s: %q", age)
	}
}
