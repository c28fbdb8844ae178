package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify/slack/approvals"
	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
	"github.com/inference-responder/responder/internal/playbook"
)

// betweenClicks is more than a run needs to carry on after its decision.
const betweenClicks = 30 * time.Millisecond

// manyQuestions runs a service until n runs of the shipped playbook each ask in
// a message of their own. It gives the messages by run.
func manyQuestions(b *testing.B, c config.Config, s *slacktest.Server, n int) (slackRig, map[string]string) {
	b.Helper()
	c.Slack.Burst.Gates = n + 1
	h := startSlackWorld(b, c, s, waitingWorld(waitingRuns))
	until(b, "ready", func() bool { return h.executor.Ready() == nil })
	var alerts []playbook.Alert
	for i := range n {
		alerts = append(alerts, waitingAlert(i))
	}
	resp, err := http.Post(h.server+alertmanagerPath, "application/json", bytes.NewReader(webhookBody(alerts)))
	if err != nil {
		b.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		b.Fatalf("%v %s", err, resp.Status)
	}
	messages := map[string]string{}
	until(b, "all ask", func() bool {
		sent := 0
		if err := (approvals.Journal{Journal: h.journal}).Fold(func(r approvals.Record) {
			switch r.Kind {
			case approvals.KindPosted:
				messages[r.Run] = r.TS
			case approvals.KindSent:
				sent++
			}
		}); err != nil {
			b.Fatal(err)
		}
		return sent >= n && len(messages) == n
	})
	return h, messages
}

// BenchmarkClickToDecision is the time from the press of Approve, at a Slack on
// the same machine, until the decision is on disk: signature, acknowledgement,
// who it is, the run's own judgement, two syncs. One person clicks after
// another: on an idle service, which has done what the last decision led to,
// and at once, while the runs approved before are being worked on.
func BenchmarkClickToDecision(b *testing.B) {
	for name, pause := range map[string]time.Duration{"idle": betweenClicks, "at-once": 0} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				took := clickAll(b, pause)
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// clickAll approves 500 runs one after another, and tells how long each took.
func clickAll(b *testing.B, pause time.Duration) []time.Duration {
	b.Helper()
	s := startSlack(b)
	h, messages := manyQuestions(b, slackConfiguration(b, s, false, b.TempDir()), s, 500)
	defer h.stop()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	updates := h.executor.Subscribe(ctx)
	var took []time.Duration
	for run, ts := range messages {
		began := time.Now()
		if _, err := s.Click(slackAda, slackChannelOfTests, ts, "responder.approve"); err != nil {
			b.Fatal(err)
		}
		for u := range updates {
			if u.Run == run && u.Event.Kind == machine.GateDecided {
				break
			}
		}
		took = append(took, time.Since(began))
		time.Sleep(pause)
	}
	return took
}

// BenchmarkReattach1000 is a restart over 1,000 open questions: the time until
// a click on each of them would be taken. Nothing is said to Slack about it.
func BenchmarkReattach1000(b *testing.B) {
	const questions = 1000
	for b.Loop() {
		s := startSlack(b)
		c := slackConfiguration(b, s, false, b.TempDir())
		h, messages := manyQuestions(b, c, s, questions)
		h.stop()
		before := len(s.Calls(""))
		began := time.Now()
		h = startSlackWorld(b, c, s, waitingWorld(waitingRuns))
		<-h.Service.slack.approvals.Started()
		b.ReportMetric(time.Since(began).Seconds(), "s-to-attach")
		run, clicked := clickOne(b, h, messages)
		until(b, "the edit", func() bool { return len(s.Calls("chat.update")) > 0 })
		others := 0
		for _, call := range s.Calls("")[before:] {
			about := strings.HasPrefix(call.Method, "user") || call.Method == "auth.test" || call.Method == "bots.info" // who clicked
			if !about && call.Args["ts"] != clicked && call.Args["thread_ts"] != clicked && !strings.Contains(call.Args["blocks"], run) {
				others++
				b.Errorf("after a restart over nothing new: %s %v", call.Method, call.Args)
			}
		}
		b.ReportMetric(float64(others), "other-calls")
		h.stop()
	}
	b.ReportMetric(0, "ns/op")
}

// clickOne approves any of the runs and gives it and its message.
func clickOne(b *testing.B, h slackRig, messages map[string]string) (run, ts string) {
	b.Helper()
	for run, ts := range messages {
		if _, err := h.slack.Click(slackAda, slackChannelOfTests, ts, "responder.approve"); err != nil {
			b.Fatal(err)
		}
		until(b, "the decision on "+run, func() bool { st, _ := h.executor.RunState(run); return st.Gate == nil })
		return run, ts
	}
	b.Fatal("there is no question")
	return "", ""
}

// BenchmarkApprovalsStart is a start over questions that are long closed,
// none and 100,000 of them: the time until clicks are taken.
func BenchmarkApprovalsStart(b *testing.B) {
	for _, closed := range []int{0, 100_000} {
		b.Run(strconv.Itoa(closed), func(b *testing.B) {
			journal, err := audit.OpenTemp("")
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = journal.Close() })
			memory := approvals.Journal{Journal: journal}
			closeQuestions(b, memory, closed)
			startApprovals(b, memory) // the first start after them finds where the next begins
			for b.Loop() {
				startApprovals(b, memory)
			}
		})
	}
}

// closeQuestions journals questions from their beginning to their end.
func closeQuestions(b *testing.B, memory approvals.Journal, n int) {
	b.Helper()
	var batch []approvals.Record
	for i := range n {
		run := fmt.Sprintf("r-%d", i)
		batch = append(batch,
			approvals.Record{Kind: approvals.KindAsking, Run: run, Gate: run + "/scale#1/gate#1", Digest: "sha256:0123456789abcdef", ID: "0123456789abcdef" + run, Channel: slackChannelOfTests},
			approvals.Record{Kind: approvals.KindPosted, Run: run, Channel: slackChannelOfTests, TS: "1700000000.000100"},
			approvals.Record{Kind: approvals.KindSent, Run: run, Head: 9},
			approvals.Record{Kind: approvals.KindClosed, Run: run},
		)
		if len(batch) < 2000 && i < n-1 {
			continue
		}
		if _, err := memory.Append(b.Context(), batch...); err != nil {
			b.Fatal(err)
		}
		batch = batch[:0]
	}
}

// startApprovals runs approvals until they know their questions.
func startApprovals(b *testing.B, memory approvals.Journal) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var none noRuns
	d, err := approvals.New(approvals.Options{Runs: none, Control: none, Memory: memory, Slack: struct{ approvals.Slack }{}, Names: none, Channel: func(machine.State) string { return "" }})
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	<-d.Started()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		b.Fatal(err)
	}
}

// noRuns is an executor without runs.
type noRuns struct{}

func (noRuns) Changes(context.Context) <-chan string                  { return nil }
func (noRuns) Open() []machine.State                                  { return nil }
func (noRuns) Run(string) (machine.State, []machine.Event, bool)      { return machine.State{}, nil, false }
func (noRuns) Command(context.Context, string, machine.Command) error { return nil }
func (noRuns) Person(context.Context, string) (approvals.Person, error) {
	return approvals.Person{}, nil
}
