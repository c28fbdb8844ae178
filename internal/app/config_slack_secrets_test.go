package app

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
)

// A secret in a file is taken up once it stands there, and one that is no good
// does not put the one in use out of work; but without its signing secret
// nothing is believed.
func TestSlackSecretsAreReadAgain(t *testing.T) {
	s := startSlack(t)
	c := slackConfiguration(t, s, false, t.TempDir())
	var log strings.Builder
	w, err := openSlack(c, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	var before slack.Secrets
	said := ""
	write := func(file, content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		before, said = w.look(before, said)
	}
	works := func() bool {
		_, err := w.client.Identify(t.Context())
		return err == nil
	}
	s.Renew("xoxb-canary-2", slacktest.AppToken, slacktest.SigningSecret)
	write(c.Slack.TokenFile, "xoxb-cana") // half of it
	write(c.Slack.TokenFile, "xoxb-canary-2\n")
	if w.secrets.Token.Read() != slacktest.Token {
		t.Fatal("a token that is being written was taken")
	}
	write(c.Slack.TokenFile, "xoxb-canary-2\n")
	if w.secrets.Token.Read() != "xoxb-canary-2" || said != "" || !works() {
		t.Fatalf("the new token is not in use: %s", said)
	}
	for range 4 {
		write(c.Slack.TokenFile, "xoxp-canary of a user")
	}
	if w.secrets.Token.Read() != "xoxb-canary-2" || !strings.Contains(said, "slack.token_file") || strings.Count(log.String(), "level=ERROR") != 1 {
		t.Errorf("with a file that is no good: %s\n%s", said, log.String())
	}
	for range 2 {
		write(c.Slack.SigningSecretFile, "")
	}
	if !w.secrets.SigningSecret.Empty() || strings.Contains(log.String()+said, "canary") {
		t.Errorf("without a signing secret: %s\n%s", said, log.String())
	}
}
