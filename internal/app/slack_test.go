package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify"
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/notify/slack/approvals"
	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
)

// A person approves in Slack, and sees it carried out and proven there.
func TestApproveInSlackAndSeeItProven(t *testing.T) {
	for name, socket := range map[string]bool{"http": false, "socket": true} {
		t.Run(name, func(t *testing.T) {
			s := startSlack(t)
			h := startSlackRig(t, slackConfiguration(t, s, socket, t.TempDir()), s, burning(t, 120))
			if socket && !s.Wait(time.Minute, func() bool { return s.Connections() > 0 }) {
				t.Fatal("no connection")
			}
			h.alert(t)
			m := h.question(t, "Approval needed")
			for _, want := range []string{"roll Deployment serving/inference-chat back", "max-num-batched-tokens", "release 2026.47", "group:ml-platform"} {
				if !strings.Contains(said(m), want) {
					t.Errorf("the question does not say %q: %s", want, said(m))
				}
			}
			if _, err := s.Click(slackAda, slackChannelOfTests, m.TS, "responder.approve"); err != nil {
				t.Fatal(err)
			}
			h.question(t, "Approved")
			until(t, "the run ended", func() bool { h.alert(t); return h.theRun(t).Phase == machine.PhaseEnded })
			if end := h.theRun(t).Ending; end.Outcome != machine.OutcomeResolved {
				t.Fatalf("ended %s: %s", end.Outcome, end.Message)
			}
			until(t, "the end in the thread", func() bool {
				thread := h.messages(m.TS)
				return len(thread) > 0 && strings.Contains(said(thread[len(thread)-1]), "ended resolved")
			})
			if last := h.question(t, "Approved"); !strings.Contains(said(last), "user:ada") {
				t.Errorf("who decided is not shown: %s", said(last))
			}
			got := scrape(t, h.metrics)
			if got[`responder_slack_calls_total{result="ok"}`] == "0" || got[`responder_slack_down{scope="workspace"}`] != "0" {
				t.Errorf("metrics: %v", got)
			}
			h.proven(t)
		})
	}
}

// A person denies in Slack, with a reason; who may not decide is told why, and
// a repeated click changes nothing.
func TestDenyInSlack(t *testing.T) {
	s := startSlack(t)
	h := startSlackRig(t, slackConfiguration(t, s, false, t.TempDir()), s, burning(t, 10))
	h.alert(t)
	m := h.question(t, "Approval needed")
	for i, c := range []struct{ user, want string }{
		{slackGuest, "guests of the workspace may not decide"},
		{slackEve, "group:ml-platform"}, // her name is her address, and that decides nothing
	} {
		if _, err := s.Click(c.user, slackChannelOfTests, m.TS, "responder.approve"); err != nil {
			t.Fatal(err)
		}
		until(t, "an answer to "+c.user, func() bool {
			e := s.Ephemerals()
			return len(e) == i+1 && e[i].User == c.user && strings.Contains(said(e[i]), c.want)
		})
	}
	if _, err := s.Click(slackGrace, slackChannelOfTests, m.TS, "responder.deny"); err != nil {
		t.Fatal(err)
	}
	until(t, "the dialog", func() bool { return len(s.Views(slackGrace)) == 1 })
	if _, err := s.Submit(slackGrace, s.Views(slackGrace)[0].ID, "reason", "responder.reason", "the release manager is on it"); err != nil {
		t.Fatal(err)
	}
	last := h.question(t, "Denied")
	for _, want := range []string{"user:grace@example.com", "the release manager is on it"} {
		if !strings.Contains(said(last), want) {
			t.Errorf("the end does not say %q: %s", want, said(last))
		}
	}
	if _, err := s.ClickStale(slackAda, slackChannelOfTests, m.TS, "responder.approve"); err != nil {
		t.Fatal(err)
	}
	until(t, "an answer to who comes too late", func() bool { return len(s.Ephemerals()) == 3 })
	var decisions []*machine.Decision
	run := h.theRun(t).Start.Run
	events, err := h.executor.RunEvents(run)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Kind == machine.GateDecided {
			decisions = append(decisions, e.Decision)
		}
		if e.Kind == machine.Applied {
			t.Error("a denied change was made")
		}
	}
	if len(decisions) != 1 || decisions[0].Channel != "slack" || decisions[0].Approve || decisions[0].Strong || !slices.Contains(decisions[0].Groups, "ml-platform") {
		t.Errorf("decided: %+v", decisions)
	}
	if got := scrape(t, h.metrics)[`responder_slack_clicks_refused_total{reason="unknown_person"}`]; got != "1" {
		t.Errorf("refused clicks: %s", got)
	}
	h.proven(t)
}

// While Slack is down a click decides nothing and the command line does; after
// a restart the same message says how it ended.
func TestDecidedElsewhereWhileSlackIsDown(t *testing.T) {
	s := startSlack(t)
	sim := burning(t, 10)
	c := slackConfiguration(t, s, false, t.TempDir())
	h := startSlackRig(t, c, s, sim)
	h.alert(t)
	m := h.question(t, "Approval needed")
	s.Outage(true)
	run := h.theRun(t).Start.Run
	q := newestQuestion(t, h.Service)
	h.Service.slack.approvals.Click(t.Context(), slack.Click{Kind: slack.KindApprove, ID: q.ID, UserID: slackAda, Channel: slackChannelOfTests, MessageTS: m.TS})
	if h.theRun(t).Gate == nil {
		t.Fatal("while nobody could say who clicked, the click decided")
	}
	if err := h.executor.Command(t.Context(), run, machine.Command{Kind: machine.CmdDecide, Decision: &machine.Decision{By: "user:ada", Groups: []string{"ml-platform"}, Approve: true, Channel: "cli"}}); err != nil {
		t.Fatal(err)
	}
	until(t, "the outage is shown", func() bool { return scrape(t, h.metrics)[`responder_slack_down{scope="workspace"}`] == "1" })
	h.stop()
	s.Outage(false)
	h = startSlackRig(t, c, s, sim)
	last := h.question(t, "Approved")
	if !strings.Contains(said(last), "user:ada") || last.TS != m.TS {
		t.Errorf("after the restart: %s", h.seen())
	}
	until(t, "the recovery is shown", func() bool { return scrape(t, h.metrics)[`responder_slack_down{scope="workspace"}`] == "0" })
	h.proven(t)
}

// newestQuestion returns the newest question that was shown.
func newestQuestion(t *testing.T, s *Service) approvals.Record {
	t.Helper()
	var last approvals.Record
	if err := (approvals.Journal{Journal: s.journal}).Fold(func(r approvals.Record) {
		if r.Kind == approvals.KindAsking {
			last = r
		}
	}); err != nil {
		t.Fatal(err)
	}
	return last
}

// What is forged, old or of another app is refused, counted and journaled,
// without what it carried.
func TestForgedClicks(t *testing.T) {
	s := startSlack(t)
	h := startSlackRig(t, slackConfiguration(t, s, false, t.TempDir()), s, burning(t, 10))
	h.alert(t)
	m := h.question(t, "Approval needed")
	payload, _, err := s.Payload(slackAda, slackChannelOfTests, m.TS, "responder.approve", false)
	if err != nil {
		t.Fatal(err)
	}
	foreign := bytes.Replace(payload, []byte(slacktest.AppID), []byte("A0OTHER001"), 1)
	form := func(p []byte) []byte { return []byte("payload=" + url.QueryEscape(string(p))) }
	forged := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "X-Slack-Request-Timestamp": {fmt.Sprint(time.Now().Unix())}, "X-Slack-Signature": {"v0=canary"}}
	for reason, c := range map[string]struct {
		body   []byte
		header http.Header
		status int
	}{
		"bad_signature": {form(payload), forged, http.StatusUnauthorized},
		"stale":         {form(payload), s.Sign(form(payload), time.Now().Add(-6*time.Minute)), http.StatusUnauthorized},
		"wrong_app":     {form(foreign), s.Sign(form(foreign), time.Now()), http.StatusForbidden},
	} {
		d, err := s.Post(c.body, c.header)
		if err != nil || d.Status != c.status {
			t.Errorf("%s: %d, %v", reason, d.Status, err)
		}
		name := `responder_slack_clicks_refused_total{reason="` + reason + `"}`
		if got := scrape(t, h.metrics)[name]; got != "1" {
			t.Errorf("%s is %s", name, got)
		}
	}
	journaled := func() (n int) {
		for rec, err := range h.journal.Stream("desk", 0) {
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(rec.Data, []byte("canary")) {
				t.Errorf("journaled: %s", rec.Data)
			}
			if rec.Kind == approvals.KindRefused {
				n++
			}
		}
		return n
	}
	until(t, "they are in the journal", func() bool { return journaled() == 3 })
	if h.theRun(t).Gate == nil {
		t.Error("a forged click decided")
	}
	h.proven(t)
}

// Whoever has the signing secret can claim to be any member. They need the value of the
// button all the same, which only the message has.
func TestSigningSecretAlone(t *testing.T) {
	s := startSlack(t)
	h := startSlackRig(t, slackConfiguration(t, s, false, t.TempDir()), s, burning(t, 10))
	h.alert(t)
	m := h.question(t, "Approval needed")
	payload, _, err := s.Payload(slackGrace, slackChannelOfTests, m.TS, "responder.deny", false)
	if err != nil {
		t.Fatal(err)
	}
	post := func(p []byte) {
		t.Helper()
		body := []byte("payload=" + url.QueryEscape(string(p)))
		if d, err := s.Post(body, s.Sign(body, time.Now())); err != nil || d.Status != http.StatusOK {
			t.Fatalf("%d, %v", d.Status, err)
		}
	}
	value := regexp.MustCompile(`("value":")[^"]+`)
	if !value.Match(payload) {
		t.Fatalf("no value: %s", payload)
	}
	post(value.ReplaceAll(payload, []byte("${1}QUFBQUFBQUFBQUFBQUFBQQ")))
	until(t, "an answer to a guessed value", func() bool { return len(s.Ephemerals()) == 1 })
	if len(s.Views(slackGrace)) > 0 || h.theRun(t).Gate == nil {
		t.Error("a guessed value decided")
	}
	post(payload)
	until(t, "the dialog in Grace's name", func() bool { return len(s.Views(slackGrace)) == 1 })
}

// A Slack channel is told each notice once, also when Slack did not say that it
// has it, and after a restart.
func TestSlackNoticesOnce(t *testing.T) {
	s := startSlack(t)
	c := slackConfiguration(t, s, false, t.TempDir())
	open := func() *notify.Router {
		log := slog.New(slog.DiscardHandler)
		w, err := openSlack(c, log)
		if err != nil {
			t.Fatal(err)
		}
		all, err := openChannels(c, w, log)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	all := open()
	n := testNotice()
	n.At = time.Now()
	s.Fail("chat.postMessage", 1, slacktest.Fault{Cut: true, After: true})
	var e *fault.Error
	if err := all.Notify(t.Context(), n); !errors.As(err, &e) || !e.Reason.Retryable() {
		t.Errorf("Slack has it and does not say so: %v", err)
	}
	for range 2 {
		if err := all.Notify(t.Context(), n); err != nil {
			t.Error(err)
		}
	}
	if err := open().Notify(t.Context(), n); err != nil { // by a service that was restarted
		t.Error(err)
	}
	if got := s.Messages(slackChannelOfTests); len(got) != 1 || !strings.Contains(said(got[0]), "scaling did not help") {
		t.Errorf("%d messages", len(got))
	}
	asks := testNotice()
	asks.Key, asks.Asks, asks.At = "gate", true, time.Now()
	if err := all.Notify(t.Context(), asks); err != nil || len(s.Messages(slackChannelOfTests)) != 1 {
		t.Errorf("a question is asked twice: %v", err)
	}
	s.Archive(slackChannelOfTests, true)
	asks.Key, asks.Asks = "other", false
	if err := all.Notify(t.Context(), asks); !errors.As(err, &e) || e.Reason != fault.NotFound || !strings.Contains(err.Error(), "unarchive") {
		t.Errorf("archived: %v", err)
	}
}

// A run that changes often while nobody reads is named once.
func TestSlackRunsCoalesce(t *testing.T) {
	s, _ := startService(t, SandboxConfig())
	ctx, cancel := context.WithCancel(t.Context())
	changes := slackRuns{s.executor}.Changes(ctx)
	for range 50 {
		appendEvents(t, s.journal, "r-1", machine.Event{Kind: machine.CheckCompleted, At: time.Now()})
	}
	appendEvents(t, s.journal, "r-2", machine.Event{Kind: machine.CheckCompleted, At: time.Now()})
	time.Sleep(50 * time.Millisecond) // nobody reads meanwhile
	var got []string
	for run := range changes {
		if got = append(got, run); run == "r-2" {
			break
		}
	}
	if len(got) > 3 || got[0] != "r-1" {
		t.Errorf("named: %q", got)
	}
	cancel()
	for range changes { // until it is closed
	}
}
