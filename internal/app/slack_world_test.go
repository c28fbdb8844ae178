package app

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox"
)

const (
	slackChannelOfTests = "C0ONCALL01"
	slackAda            = "U0ADA00001" // ada, of ml-platform
	slackGrace          = "U0GRACE001" // nobody lists her; her user group is ml-platform
	slackGuest          = "U0GUEST001"
	slackEve            = "U0EVE00001" // nobody
)

// slackRig is a service around a simulated cluster, with a Slack.
type slackRig struct {
	*Service
	slack  *slacktest.Server
	sim    *sandbox.World
	server string
	stop   func() // ends the service and closes its journal
}

// slackConfiguration is that of a service whose Slack is s; over HTTP unless
// clicks come over Socket Mode.
func slackConfiguration(t testing.TB, s *slacktest.Server, socket bool, dir string) config.Config {
	t.Helper()
	transport := fmt.Sprintf("signing_secret_file: %q", tempFile(t, "secret", slacktest.SigningSecret))
	if socket {
		transport = fmt.Sprintf("app_token_file: %q", tempFile(t, "app", slacktest.AppToken))
	}
	c, err := config.Parse(filepath.Join(t.TempDir(), "f.yaml"), fmt.Appendf(nil, `
auth:
  insecure: true
  people: [{name: ada, slack: %s, groups: [ml-platform]}]
autonomy: auto
journal: {dir: %q}
channels:
  - {name: oncall, default: true, slack: {channel: %s}}
slack:
  token_file: %q
  %s
  channel: %s
  groups: [{handle: ml-oncall, name: ml-platform}]
  api_url: %q
`, slackAda, dir, slackChannelOfTests, tempFile(t, "token", slacktest.Token), transport, slackChannelOfTests, s.APIURL()))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// startSlack is a Slack with a channel and people.
func startSlack(t testing.TB) *slacktest.Server {
	t.Helper()
	s := slacktest.Start(t, slacktest.Options{})
	s.AddChannel(slacktest.Conversation{ID: slackChannelOfTests, Name: "oncall", Member: true})
	s.AddUser(slacktest.User{ID: slackAda, Email: "ada@example.com"})
	s.AddUser(slacktest.User{ID: slackGrace, Email: "Grace@example.com"})
	s.AddUser(slacktest.User{ID: slackGuest, Email: "guest@example.com", Restricted: true})
	s.AddUser(slacktest.User{ID: slackEve, Email: "eve@example.com"})
	s.AddGroup(slacktest.Group{ID: "S0ONCALL01", Handle: "ml-oncall", Members: []string{slackGrace, slackGuest}})
	return s
}

// alertmanagerPath is where Alertmanager posts to.
const alertmanagerPath = "/api/v1/alertmanager"

// webhookBody encodes firing alerts as Alertmanager's payload of version 4.
func webhookBody(alerts []playbook.Alert) []byte {
	n := playbook.Notification{Receiver: "test", Status: playbook.Firing, GroupKey: "{}:{}", Version: "4", Alerts: alerts}
	return n.AppendJSON(nil)
}

// withSlack adds the Slack of a configuration to a world.
func withSlack(t testing.TB, c config.Config, w World) World {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	var err error
	if w.Slack, err = openSlack(c, log); err != nil {
		t.Fatal(err)
	}
	if w.Channels, err = openChannels(c, w.Slack, log); err != nil {
		t.Fatal(err)
	}
	w.Slack.pace, w.Deps.Notifier = time.Millisecond, notifier{w.Channels}
	return w
}

// startSlackRig runs the service until stop or the test's end. Its world goes
// on from where sim is.
func startSlackRig(t *testing.T, c config.Config, s *slacktest.Server, sim *sandbox.World) slackRig {
	t.Helper()
	h := startSlackWorld(t, c, s, SandboxWorld(sim))
	h.sim = sim
	until(t, "ready", func() bool { return len(h.missing()) == 0 })
	return h
}

// startSlackWorld runs the service on a world until stop or the test's end.
func startSlackWorld(t testing.TB, c config.Config, s *slacktest.Server, w World) slackRig {
	t.Helper()
	return startSlackLogged(t, c, s, w, slog.New(slog.DiscardHandler))
}

func startSlackLogged(t testing.TB, c config.Config, s *slacktest.Server, w World, log *slog.Logger) slackRig {
	t.Helper()
	svc, err := New(Options{Config: c, World: withSlack(t, c, w), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := slackRig{Service: svc, slack: s, server: "http://" + ln.Addr().String()}
	if !svc.slack.socket {
		s.Interactivity(h.server + "/api/v1/slack/interactivity")
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- svc.Run(ctx, ln) }()
	stopped := false
	h.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the service did not stop in order: %v", err)
		}
		if err := svc.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	t.Cleanup(h.stop)
	return h
}

// alert posts the world's alerts, as Alertmanager would.
func (h slackRig) alert(t *testing.T) {
	t.Helper()
	body, err := h.sim.Notification(t.Context(), h.sim.Clock().Now())
	if err != nil {
		t.Fatal(err)
	}
	if body == nil {
		return
	}
	resp, err := http.Post(h.server+alertmanagerPath, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v %s", err, resp.Status)
	}
}

// question is the run's one message in the channel, once it says text.
func (h slackRig) question(t *testing.T, text string) slacktest.Message {
	t.Helper()
	var found slacktest.Message
	holds := func() bool {
		all := h.messages("")
		if len(all) > 0 {
			found = all[0]
		}
		return len(all) == 1 && strings.Contains(said(found), text)
	}
	for range 3000 {
		if h.slack.Wait(20*time.Millisecond, holds) {
			return found
		}
	}
	t.Fatalf("never said in Slack: %s; said is %s", text, h.seen())
	return found
}

// messages returns those of a thread, or of the channel itself.
func (h slackRig) messages(thread string) []slacktest.Message {
	return slices.DeleteFunc(h.slack.Messages(slackChannelOfTests), func(m slacktest.Message) bool {
		if strings.HasPrefix(m.Text, "A person is needed") {
			return true // a notice of its own
		}
		own := m.ThreadTS == "" || m.ThreadTS == m.TS
		return own != (thread == "") || !own && m.ThreadTS != thread
	})
}

func (h slackRig) seen() string {
	out := ""
	for _, m := range h.slack.Messages(slackChannelOfTests) {
		out += "\n" + said(m)
	}
	return out
}

func said(m slacktest.Message) string {
	return m.Text + "\n" + strings.Join(slacktest.Texts(m.Blocks), "\n")
}

// theRun is the only run.
func (h slackRig) theRun(t *testing.T) machine.State {
	t.Helper()
	all, err := h.AllRuns()
	if err != nil || len(all) != 1 {
		t.Fatalf("%d runs: %v", len(all), err)
	}
	return all[0]
}

// proven ends the service and verifies its journal.
func (h slackRig) proven(t *testing.T) {
	t.Helper()
	if v := h.slack.Violations(); len(v) > 0 {
		t.Errorf("Slack was not treated as it wants: %v", v)
	}
	path, key := h.journal.Path(), h.journal.PublicKey()
	h.stop()
	if report, err := audit.Verify(t.Context(), path, key, audit.VerifyOptions{}); err != nil || !report.OK() {
		t.Errorf("the journal: %v %v", report.FirstBad, err)
	}
}

func burning(t *testing.T, pace float64) *sandbox.World {
	t.Helper()
	clock, err := sandbox.NewClock(time.Now(), pace)
	if err != nil {
		t.Fatal(err)
	}
	sim, err := sandbox.New(DefaultScenario, clock)
	if err != nil {
		t.Fatal(err)
	}
	return sim
}
