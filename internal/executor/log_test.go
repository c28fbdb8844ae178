package executor

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// The log tells in words what people are asked, and what was decided, by whom and why.
func TestQuestionsAreLogged(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		var log bytes.Buffer
		h.options = func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) }
		h.start()
		h.post(alertOf("Ask", "a"))
		h.pass(time.Minute)
		h.decide(false)
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`event=gate.opened step=\S+ text="asks .*user:ada.* until 2000-01-01T\S+: \S`, `event=gate.decided step=\S+ text="denied by user:ada: so"`} {
			if !regexp.MustCompile(want).MatchString(log.String()) {
				t.Errorf("no line matches %s:\n%s", want, log.String())
			}
		}
	})
	ada := &machine.Decision{By: "user:ada", Approve: true, Reason: "so"}
	for _, tt := range []struct {
		event machine.Event
		want  string
	}{
		{machine.Event{Kind: machine.GateDecided, Decision: ada}, "approved by user:ada: so"},
		{machine.Event{Kind: machine.GateDecided, Decision: &machine.Decision{By: "user:ada", Approve: true, BreakGlass: true, Reason: "fire"}}, "approved alone (break glass) by user:ada: fire"},
		{machine.Event{Kind: machine.GateVoted, Decision: ada}, "approved by user:ada: so; others are still needed"},
		{machine.Event{Kind: machine.GateVoided, Decision: &machine.Decision{By: "user:ada"}, Message: "user:ada wants a fresh plan"}, "fresh plan requested by user:ada"},
		{machine.Event{Kind: machine.GateVoided, Message: "the world changed since"}, "the world changed since"},
		{machine.Event{Kind: machine.GateExpired, Gate: &machine.Gate{Needs: []machine.Need{{From: []string{"group:sre"}, Quorum: 1}}}}, "nobody of group:sre decided in time"},
		{machine.Event{Kind: machine.GateExpired, Gate: &machine.Gate{Needs: []machine.Need{{From: []string{"user:ada", "user:bob"}, Quorum: 2}}, Votes: []machine.Decision{*ada}}}, "1 approved in time, still needed was 2 of user:ada, user:bob"},
		{machine.Event{Kind: machine.HoldResolved, Decision: ada}, "declared applied by user:ada: so"},
		{machine.Event{Kind: machine.HoldResolved, Decision: &machine.Decision{By: "user:ada"}}, "declared not applied by user:ada"},
		{machine.Event{Kind: machine.CancelRequested, Decision: ada}, "cancellation requested by user:ada: so"},
	} {
		if got, told := stepText(tt.event); got != tt.want || !told {
			t.Errorf("%s: %q, want %q", tt.event.Kind, got, tt.want)
		}
	}
}

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
