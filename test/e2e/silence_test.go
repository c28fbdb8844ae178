//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/alertmanager"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// A silence at a real Alertmanager keeps its alert, and only that one, from
// being told; it is found again after a crash, lasts longer when asked, and
// ends when asked.
func TestSilenceAtAlertmanager(t *testing.T) {
	t.Parallel()
	hook := rig.StartWebhook(t)
	config := strings.Replace(rig.WebhookConfig(hook.URL, ""), "repeat_interval: 30s", "repeat_interval: 1s", 1)
	am := rig.StartAlertmanager(t, 1, config)[0]
	silences, err := alertmanager.NewSilences(alertmanager.Config{AlertmanagerURL: am.URL, Max: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	chat := map[string]string{"alertname": "InferenceTTFTFastBurn", "namespace": "serving", "service": "chat", "model": `a "b" \c`}
	code := map[string]string{"alertname": "InferenceTTFTFastBurn", "namespace": "serving", "service": "code"}
	am.Post(t, []map[string]string{chat, code})
	told := func(service string) int {
		n := 0
		for _, got := range hook.Notifications() {
			for _, a := range got.Alerts {
				if a.Labels["service"] == service && a.Status == "firing" {
					n++
				}
			}
		}
		return n
	}
	more := func(service string, than int) {
		t.Helper()
		rig.Await(t, 20*time.Second, "another notification of "+service, func(context.Context) (bool, string) {
			return told(service) > than, fmt.Sprint(told(service))
		})
	}
	more("chat", 0)
	more("code", 0)

	request := alertmanager.Request{Run: "r-01JE2E", Link: "http://responder.example/api/v1/runs/r-01JE2E", Labels: chat, For: 10 * time.Minute}
	made, err := silences.Create(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	more("code", told("code")+1) // a flush that began before may still be on its way
	before := told("chat")
	more("code", told("code")+3)
	if n := told("chat"); n != before {
		t.Errorf("the silenced alert was told %d times more", n-before)
	}

	if firing, err := silences.Firing(t.Context(), chat); err != nil || !firing { // what is silenced still fires
		t.Errorf("chat fires: %v, %v", firing, err)
	}
	gone := maps.Clone(chat)
	gone["service"] = "gone"
	var young *fault.Error
	if firing, err := silences.Firing(t.Context(), gone); firing || !errors.As(err, &young) || !strings.Contains(young.Message, "was started") {
		t.Errorf("what a young Alertmanager lacks may fire all the same: %v, %v", firing, err)
	}
	again, err := silences.Create(t.Context(), request)
	if err != nil || again.ID != made.ID {
		t.Errorf("asked twice: %s and %s, %v", made.ID, again.ID, err)
	}
	found, err := silences.List(t.Context())
	if err != nil || len(found) != 1 || found[0].ID != made.ID || found[0].Run != request.Run || found[0].Labels["model"] != chat["model"] {
		t.Errorf("found %+v, %v", found, err)
	}
	longer, err := silences.Extend(t.Context(), made.ID, 30*time.Minute)
	if err != nil || longer.ID != made.ID || longer.EndsAt.Before(made.EndsAt.Add(15*time.Minute)) {
		t.Errorf("extended to %s, silence %s, %v", longer.EndsAt, longer.ID, err)
	}
	for range 2 { // the second time it has ended already
		if err := silences.Expire(t.Context(), made.ID); err != nil {
			t.Fatal(err)
		}
	}
	more("chat", told("chat"))
	if left, err := silences.List(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("still there: %+v, %v", left, err)
	}

	// The run goes on, and silences again; this time a person ends it.
	second, err := silences.Create(t.Context(), request)
	if err != nil || second.ID == made.ID {
		t.Fatalf("a second one: %+v, %v", second, err)
	}
	am.ExpireSilence(t, second.ID)
	_, err = silences.Create(t.Context(), request)
	var refused *fault.Error
	if !errors.As(err, &refused) || refused.Reason != fault.Conflict {
		t.Errorf("after a person ended it: %v", err)
	}
}
