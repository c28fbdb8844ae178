package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/outbound"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// openSlack makes the client of the configured workspace; nil when there is
// none. It reads the secrets, and connects to nothing.
func openSlack(c config.Config, log *slog.Logger) (*workspace, error) {
	if c.Slack == nil {
		return nil, nil
	}
	secrets, problems := readSlackSecrets(c)
	if len(problems) > 0 {
		return nil, problems.Err()
	}
	o := slack.Options{Secrets: secrets, AppID: c.Slack.AppID, TeamID: c.Slack.TeamID, APIURL: c.Slack.APIURL, Logger: log}
	client, err := slack.New(o)
	if err != nil {
		return nil, yamldoc.Problems{c.Problem("slack", err)}
	}
	return &workspace{
		Slack: *c.Slack, client: client, names: newSlackNames(c, slack.NewPeople(client, 0)),
		log: log, secrets: secrets, read: func() (slack.Secrets, yamldoc.Problems) { return readSlackSecrets(c) },
	}, nil
}

// workspace is Slack as the configuration describes it.
type workspace struct {
	config.Slack
	client *slack.Client
	names  *slackNames
	pace   time.Duration // between two messages in a channel; 0: as Slack asks
	log    *slog.Logger

	secrets slack.Secrets // in use
	read    func() (slack.Secrets, yamldoc.Problems)
	renewed func() // told of others in use; nil: nobody
}

// renew follows the files of the secrets until ctx is done.
func (w *workspace) renew(ctx context.Context) error {
	tick := time.NewTicker(slackSecretsEvery)
	defer tick.Stop()
	var before slack.Secrets // as read the last time
	said := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		before, said = w.look(before, said)
	}
}

// look takes up secrets that were read twice the same, so that none is taken
// that is being written. A token that cannot be read leaves the one in use where
// it is; without its signing secret no request is believed any more, as without
// any other credential of those who ask.
func (w *workspace) look(before slack.Secrets, said string) (read slack.Secrets, problem string) {
	read, problems := w.read()
	if read != before {
		return read, said
	}
	next := read
	if next.Token.Empty() {
		next.Token = w.secrets.Token
	}
	if next.AppToken.Empty() {
		next.AppToken = w.secrets.AppToken
	}
	var err error
	if len(problems) > 0 {
		err = problems.Err()
	}
	if next != w.secrets {
		if refused := w.client.Renew(next); refused != nil {
			err = errors.Join(err, refused)
		} else {
			w.secrets = next
			if w.renewed != nil {
				w.renewed()
			}
			w.log.Info("slack secrets were renewed")
		}
	}
	if err == nil {
		return read, ""
	}
	if said != err.Error() {
		w.log.Error("secrets of slack cannot be used: a token in use stays, a signing secret does not", "err", err)
	}
	return read, err.Error()
}

// slackSecretsEvery is how often the files of the secrets are looked at.
const slackSecretsEvery = 2 * time.Second

// readSlackSecrets reads the files that the workspace names. What it gives
// beside problems is what could be read.
func readSlackSecrets(c config.Config) (slack.Secrets, yamldoc.Problems) {
	var problems yamldoc.Problems
	secret := func(field, file string) slack.Secret {
		s, err := readSlackSecret(file)
		if err != nil {
			problems = append(problems, c.Problem("slack."+field, err))
		}
		return s
	}
	s := slack.Secrets{
		Token: secret("token_file", c.Slack.TokenFile), AppToken: secret("app_token_file", c.Slack.AppTokenFile),
		SigningSecret: secret("signing_secret_file", c.Slack.SigningSecretFile),
	}
	if !s.Token.Empty() && !strings.HasPrefix(s.Token.Read(), "xoxb-") {
		problems = append(problems, c.Problem("slack.token_file", errors.New("the token does not begin with xoxb-: copy the bot token from OAuth & Permissions")))
		s.Token = slack.Secret{}
	}
	return s, problems
}

// readSlackSecret reads a file with one secret; none without a name.
func readSlackSecret(file string) (slack.Secret, error) {
	if file == "" {
		return slack.Secret{}, nil
	}
	text, err := outbound.ReadToken(file)
	if err != nil {
		return slack.Secret{}, err
	}
	return slack.NewSecret(text), nil
}
