//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
	"github.com/inference-responder/responder/test/e2e/rig"
)

const (
	oncallChannel = "C0ONCALL01"
	ada           = "U0ADA00001"
	bob           = "U0BOB00001"
	eve           = "U0EVE00001"
)

// workspace is a Slack of the test's own with a channel and three people, two
// of whom are on call. The responder talks to it as to Slack itself.
type workspace struct {
	t testing.TB
	*slacktest.Server
}

func newWorkspace(t testing.TB) *workspace {
	t.Helper()
	w := &workspace{t, slacktest.Start(t, slacktest.Options{})}
	w.AddChannel(slacktest.Conversation{ID: oncallChannel, Name: "oncall", Member: true})
	for id, email := range map[string]string{ada: "ada@example.com", bob: "bob@example.com", eve: "eve@example.com"} {
		w.AddUser(slacktest.User{ID: id, Email: email})
	}
	return w
}

// settings are those of responder.yaml: Socket Mode, and who is who.
func (w *workspace) settings() string {
	return fmt.Sprintf(`
slack: {token_file: slack-token, app_token_file: slack-app-token, channel: %s, api_url: %q}
auth:
  tokens:
    - {name: alertmanager, file: alertmanager, scopes: [intake]}
    - {name: 'user:oncall', file: oncall, scopes: [read, admin, approve, cancel], groups: ['group:oncall']}
  people:
    - {name: ada, slack: %s, groups: [oncall]}
    - {name: bob, slack: %s, groups: [oncall]}
`, oncallChannel, w.APIURL(), ada, bob)
}

func (w *workspace) files() map[string]string {
	return map[string]string{"slack-token": slacktest.Token, "slack-app-token": slacktest.AppToken}
}

// asked are the messages in the channel, without their threads.
func (w *workspace) asked() []slacktest.Message {
	return slices.DeleteFunc(w.Messages(oncallChannel), func(m slacktest.Message) bool { return m.ThreadTS != "" && m.ThreadTS != m.TS })
}

// click presses a button of the one message there must be.
func (w *workspace) click(user, action string) error {
	switch asked := w.asked(); len(asked) {
	case 0:
		return errors.New("there is no message yet")
	case 1:
		_, err := w.Click(user, oncallChannel, asked[0].TS, action)
		return err
	default:
		w.t.Fatalf("%d messages for one run", len(asked))
		return nil
	}
}

// tells reports whether there is one message, that it says approved, and that
// its thread says what it should; the text is for a failure.
func (w *workspace) tells(want string) (bool, string) {
	asked := w.asked()
	var all []string
	for _, m := range w.Messages(oncallChannel) {
		all = append(all, words(m))
	}
	text := strings.Join(all, "\n---\n")
	return len(asked) == 1 && strings.Contains(words(asked[0]), "Approved") && strings.Contains(text, want), text
}

func words(m slacktest.Message) string {
	return m.Text + "\n" + strings.Join(slacktest.Texts(m.Blocks), "\n")
}

// twoPeople is a policy under which nothing is changed without two of those on call.
const twoPeople = `apiVersion: responder/v1alpha1
kind: Policy
metadata: {name: e2e}
spec:
  rules:
    - name: two-people
      require_approval: {quorum: 2, from: ['group:oncall']}
`

// An alert is asked about in Slack, one person is not enough under the policy,
// somebody else is told who may, and the second person's click rolls back.
func TestApprovedInSlackByTwo(t *testing.T) {
	t.Parallel()
	s := newWorkspace(t)
	files := s.files()
	files["policy.yaml"] = twoPeople
	w := newWorld(t, worldOptions{autonomy: "suggest", settings: s.settings() + "policy: {file: policy.yaml}\n", files: files})
	w.setImage(t, "vllm:v2-bad")
	await := func(what, text string) {
		t.Helper()
		if !s.Wait(time.Minute, func() bool { a := s.asked(); return len(a) == 1 && strings.Contains(words(a[0]), text) }) {
			_, all := s.tells("")
			t.Fatalf("never seen: %s\n%s\n%s", what, all, w.responder.Tail(20))
		}
	}
	press := func(user string) {
		t.Helper()
		if err := s.click(user, "responder.approve"); err != nil {
			t.Fatal(err)
		}
	}
	await("the question", "0 of 2")
	for _, want := range []string{"vllm:v2-bad", "vllm:v1", w.ns + "/chat", "policy two-people, policy.yaml:6"} {
		if !strings.Contains(words(s.asked()[0]), want) {
			t.Errorf("the question does not say %q:\n%s", want, words(s.asked()[0]))
		}
	}
	press(eve)
	if !s.Wait(time.Minute, func() bool { e := s.Ephemerals(); return len(e) == 1 && strings.Contains(words(e[0]), "group:oncall") }) {
		t.Errorf("who may not decide is not told who may")
	}
	press(ada)
	await("the first vote", "1 of 2")
	w.wantWrites(t)
	press(bob)
	run := w.responder.AwaitEnd(t, 2*time.Minute, machine.OutcomeResolved)
	w.wantWrites(t, w.patched(200))
	if voted, decided := run.Has(machine.GateVoted), run.Has(machine.GateDecided); voted != 1 || decided != 1 {
		t.Errorf("%d votes and %d decisions on record, want one each:\n%s", voted, decided, run)
	}
	rig.Await(t, 30*time.Second, "the end in Slack", func(context.Context) (bool, string) { return s.tells("ended resolved") })
	if v := s.Violations(); len(v) > 0 {
		t.Errorf("slack would not have it: %q", v)
	}
	if shown := w.responder.Must(t, "runs", "show", run.ID); !strings.Contains(shown, "user:ada") || !strings.Contains(shown, "user:bob") {
		t.Errorf("runs show does not name both:\n%s", shown)
	}
	wantIntact(t, w.responder)
}
