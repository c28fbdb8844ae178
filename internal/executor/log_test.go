package executor

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// The log tells each step of a run, once, and warns when it is left to people.
func TestRunsAreLogged(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		var log bytes.Buffer
		h.options = func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) }
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(time.Hour)
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		out := log.String()
		for _, want := range []string{"event=run.started", "event=edge.taken", "event=plan.completed", "event=lever.applied", "event=run.ended"} {
			if n := strings.Count(out, want); n == 0 {
				t.Errorf("no line says %s:\n%s", want, out)
			}
		}
		ended := h.runs()[0].Ending
		for line := range strings.Lines(out) {
			if !strings.Contains(line, "msg=run ") {
				continue
			}
			for _, want := range []string{"run=r-", "playbook=", "service="} {
				if !strings.Contains(line, want) {
					t.Errorf("a line has no %s: %s", want, line)
				}
			}
			if warns := strings.Contains(line, "level=WARN"); warns != (strings.Contains(line, "event=run.ended") && ended.Outcome.WithPeople()) {
				t.Errorf("wrong level for a run that ended %s: %s", ended.Outcome, line)
			}
		}
	})
}
