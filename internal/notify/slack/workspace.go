package slack

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/outbound"
)

// Workspace is the configured workspace: its client, whose secrets are read
// again when their files change.
type Workspace struct {
	Config
	Client *Client
	log    *slog.Logger

	secrets Secrets // in use
}

// FieldError is what is wrong with a field of [Config].
type FieldError struct {
	Field string
	Err   error
}

// Error names the field.
func (e *FieldError) Error() string { return "slack." + e.Field + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FieldError) Unwrap() error { return e.Err }

// OpenWorkspace reads the secrets and returns the workspace. It does not
// connect. An error about one field is a [*FieldError].
func OpenWorkspace(c Config, log *slog.Logger) (*Workspace, []error) {
	secrets, problems := c.readSecrets()
	if len(problems) > 0 {
		return nil, problems
	}
	client, err := New(Options{Secrets: secrets, AppID: c.AppID, TeamID: c.TeamID, APIURL: c.APIURL, Logger: log})
	if err != nil {
		return nil, []error{err}
	}
	return &Workspace{Config: c, Client: client, log: log, secrets: secrets}, nil
}

// secretsEvery is how often the files of the secrets are read.
const secretsEvery = 2 * time.Second

// RenewSecrets follows the files of the secrets until ctx ends. It calls renewed
// after other secrets are in use.
func (w *Workspace) RenewSecrets(ctx context.Context, renewed func()) error {
	tick := time.NewTicker(secretsEvery)
	defer tick.Stop()
	var before Secrets // as read the last time
	logged := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		before, logged = w.look(before, logged, renewed)
	}
}

// look uses secrets that were read twice the same, so that no half-written
// secret is used. A token that cannot be read leaves the one in use. Without its
// signing secret no request is accepted any more.
func (w *Workspace) look(before Secrets, logged string, renewed func()) (read Secrets, problem string) {
	read, problems := w.readSecrets()
	if read != before {
		return read, logged
	}
	next := read
	if next.Token.Empty() {
		next.Token = w.secrets.Token
	}
	if next.AppToken.Empty() {
		next.AppToken = w.secrets.AppToken
	}
	if next != w.secrets {
		if err := w.Client.Renew(next); err != nil {
			problems = append(problems, err)
		} else {
			w.secrets = next
			renewed()
			w.log.Info("slack secrets were renewed")
		}
	}
	err := errors.Join(problems...)
	if err == nil {
		return read, ""
	}
	if logged != err.Error() {
		w.log.Error("slack secrets cannot be used: a token in use stays, a signing secret does not", "err", err)
	}
	return read, err.Error()
}

// readSecrets reads the files of the secrets. Next to problems it returns what
// could be read.
func (c Config) readSecrets() (Secrets, []error) {
	var problems []error
	read := func(field, file string) Secret {
		if file == "" {
			return Secret{}
		}
		text, err := outbound.ReadToken(file)
		if err != nil {
			problems = append(problems, &FieldError{field, err})
			return Secret{}
		}
		return NewSecret(text)
	}
	s := Secrets{
		Token: read("token_file", c.TokenFile), AppToken: read("app_token_file", c.AppTokenFile),
		SigningSecret: read("signing_secret_file", c.SigningSecretFile),
	}
	if !s.Token.Empty() && !strings.HasPrefix(s.Token.Read(), "xoxb-") {
		problems = append(problems, &FieldError{"token_file", errors.New("the token does not begin with xoxb-: copy the bot token from OAuth & Permissions")})
		s.Token = Secret{}
	}
	return s, problems
}
