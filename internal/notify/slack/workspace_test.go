package slack

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
)

// A secret in a file is taken up once it stands there, and one that is no good
// does not put the one in use out of work; but without its signing secret
// nothing is believed.
func TestSlackSecretsAreReadAgain(t *testing.T) {
	s := slacktest.Start(t, slacktest.Options{})
	c := Config{TokenFile: filepath.Join(t.TempDir(), "token"), SigningSecretFile: filepath.Join(t.TempDir(), "secret"), APIURL: s.APIURL()}
	for file, content := range map[string]string{c.TokenFile: slacktest.Token, c.SigningSecretFile: slacktest.SigningSecret} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log strings.Builder
	w, problems := OpenWorkspace(c, slog.New(slog.NewTextHandler(&log, nil)))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var before Secrets
	said := ""
	write := func(file, content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		before, said = w.look(before, said, func() {})
	}
	works := func() bool {
		_, err := w.Client.Identify(t.Context())
		return err == nil
	}
	s.Renew("xoxb-canary-2", slacktest.AppToken, slacktest.SigningSecret)
	write(c.TokenFile, "xoxb-cana") // half of it
	write(c.TokenFile, "xoxb-canary-2\n")
	if w.secrets.Token.Read() != slacktest.Token {
		t.Fatal("a token that is being written was taken")
	}
	write(c.TokenFile, "xoxb-canary-2\n")
	if w.secrets.Token.Read() != "xoxb-canary-2" || said != "" || !works() {
		t.Fatalf("the new token is not in use: %s", said)
	}
	for range 4 {
		write(c.TokenFile, "xoxp-canary of a user")
	}
	if w.secrets.Token.Read() != "xoxb-canary-2" || !strings.Contains(said, "slack.token_file") || strings.Count(log.String(), "level=ERROR") != 1 {
		t.Errorf("with a file that is no good: %s\n%s", said, log.String())
	}
	for range 2 {
		write(c.SigningSecretFile, "")
	}
	if !w.secrets.SigningSecret.Empty() || strings.Contains(log.String()+said, "canary") {
		t.Errorf("without a signing secret: %s\n%s", said, log.String())
	}
}
