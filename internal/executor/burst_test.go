package executor

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/inference-responder/responder/internal/playbook"
)

// manyPlaybooks is a set in which so many playbooks match each alert.
func manyPlaybooks(t *testing.T, n int) *playbook.Set {
	t.Helper()
	return loadSet(t, func(text string) string {
		first, _, _ := strings.Cut(text, "\n---\n")
		for i := range n - 1 {
			text += "\n---\n" + strings.Replace(first, "name: ladder,", fmt.Sprintf("name: ladder-%d,", i), 1)
		}
		return strings.ReplaceAll(text, "autonomy: auto", "autonomy: suggest") // they wait for people
	})
}

func stormOf(n int) []playbook.Alert {
	var alerts []playbook.Alert
	for i := range n {
		alerts = append(alerts, alertOf("Slow", fmt.Sprintf("n%d", i)))
	}
	return alerts
}

// A burst whose runs are more facts than one append takes starts all of them:
// no notification is blamed for those beside it.
func TestBurstOfManyPlaybooks(t *testing.T) {
	const alerts, playbooks = 1440, 2
	for name, post := range map[string]func(h *rig){
		"one notification": func(h *rig) { h.post(stormOf(alerts)...) },
		"many at once": func(h *rig) {
			for part := range 40 {
				h.post(stormOf(alerts)[part*36 : part*36+36]...)
			}
		},
	} {
		for _, paused := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/paused=%v", name, paused), func(t *testing.T) {
				bubble(t, func(t *testing.T, h *rig) {
					h.set = manyPlaybooks(t, playbooks)
					if paused {
						h.start()
						if err := h.e.Pause(t.Context(), Scope{}, "user:ada", "storm"); err != nil {
							t.Fatal(err)
						}
						post(h)
						if err := h.e.Unpause(t.Context(), Scope{}, "user:ada", "over"); err != nil {
							t.Fatal(err)
						}
						synctest.Wait()
					} else {
						post(h)
						h.start()
					}
					if n := h.e.countOpen(); n != alerts || h.e.Ready() != nil || h.world.told("quarantined") != 0 {
						t.Errorf("%d runs, want %d; ready: %v; people were told %.2000q", n, alerts, h.e.Ready(), h.world.notices)
					}
				})
			})
		}
	}
}
