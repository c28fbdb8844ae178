package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/notify/slack/approvals"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// workspace is the Slack workspace of a configuration, with who is who there.
type workspace struct {
	*slack.Workspace
	directory *approvals.Directory
	pace      time.Duration // between two messages in a channel; 0: as Slack asks
}

// openSlack opens the configured workspace; nil when there is none. It reads the
// secrets and does not connect.
func openSlack(c config.Config, log *slog.Logger) (*workspace, error) {
	if c.Slack == nil {
		return nil, nil
	}
	w, errs := slack.OpenWorkspace(*c.Slack, log)
	var problems yamldoc.Problems
	for _, err := range errs {
		path := "slack"
		if field := new(slack.FieldError); errors.As(err, &field) {
			path, err = "slack."+field.Field, field.Err
		}
		problems = append(problems, c.Problem(path, err))
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return &workspace{Workspace: w, directory: approvals.NewDirectory(directoryOptions(c, slack.NewPeople(w.Client, 0)))}, nil
}

// directoryOptions are the people and credentials of a configuration.
func directoryOptions(c config.Config, people *slack.People) approvals.DirectoryOptions {
	o := approvals.DirectoryOptions{People: people, Members: members(c.Auth)}
	if c.Slack != nil {
		o.Groups = c.Slack.Groups
	}
	o.ListedOnly = c.Auth.OIDC != nil && !namedByEmail(c.Auth)
	for _, p := range c.Auth.People {
		for _, h := range p.Handles() {
			o.Taken = append(o.Taken, h[1])
		}
	}
	for _, name := range credentialNames(c.Auth) {
		o.Taken = append(o.Taken, strings.TrimPrefix(name, "user:"))
	}
	return o
}

// members are the people of the configuration.
func members(a config.Auth) []approvals.Member {
	var all []approvals.Member
	for _, p := range a.People {
		g := config.GrantOf(p.Name, nil, p.Groups)
		m := approvals.Member{Person: approvals.Person{Name: g.Name, Groups: g.Groups, Declared: true}, Slack: p.Slack}
		if p.Email != "" {
			m.Emails = append(m.Emails, p.Email)
		}
		if p.OIDC != "" && namedByEmail(a) {
			m.Emails = append(m.Emails, p.OIDC)
		}
		all = append(all, m)
	}
	return all
}

// namedByEmail reports whether the issuer names people by their e-mail address.
func namedByEmail(a config.Auth) bool {
	return a.OIDC != nil && (a.OIDC.UsernameClaim == "" || a.OIDC.UsernameClaim == "email")
}

// credentialNames returns the names of the credentials.
func credentialNames(a config.Auth) []string {
	var all []string
	for _, t := range a.Tokens {
		all = append(all, t.Name)
	}
	for _, b := range a.Basic {
		all = append(all, b.Name)
	}
	if a.MTLS != nil {
		for _, m := range a.MTLS.Clients {
			all = append(all, m.Name)
		}
	}
	return all
}

// slackParts are the approvals in Slack, and the receiver of clicks.
type slackParts struct {
	approvals *approvals.Approvals
	receiver  *slack.Receiver
	socket    bool

	socketState atomic.Pointer[slack.SocketState] // as it was last; nil: none, or not yet
}

// watchSocket records the state of the Socket Mode connection.
func (p *slackParts) watchSocket(s slack.SocketState) {
	p.socketState.Store(&s)
	p.approvals.Socket(s)
}

// openApprovals makes the approvals of the service's workspace; nil when there is
// none.
func (s *Service) openApprovals(o Options) (*slackParts, error) {
	w := s.world.Slack
	if w == nil {
		return nil, nil
	}
	p := &slackParts{socket: w.Transport() == slack.SocketMode}
	options := approvals.Options{
		Runs: slackRuns{s.executor}, Control: control{s.executor, s.rights}, Memory: approvals.Journal{Journal: s.journal}, Slack: w.Client, Names: w.directory,
		Channel: func(st machine.State) string { return w.ChannelOf(st.Start.Service.Name, st.Start.Playbook) },
		Link:    s.link.Run,
		Burst:   w.Burst, Pace: w.pace, Now: s.world.Now, Log: o.Log,
		Registry: s.metrics.registry, Socket: p.socket,
	}
	if s.world.Deps.Querier != nil {
		options.Budget = approvals.ErrorBudget{Querier: s.world.Deps.Querier, Objectives: step.Objectives, Now: s.world.Now}.Of
	}
	var err error
	if p.approvals, err = approvals.New(options); err != nil {
		return nil, err
	}
	p.receiver, err = slack.NewReceiver(w.Client, slack.ReceiverOptions{Consume: p.approvals.Click, Refused: p.approvals.Refused, Logger: o.Log})
	return p, err
}

// runApprovals shows runs once they are loaded. Clicks are accepted before, and
// wait.
func (s *Service) runApprovals(ctx context.Context) error {
	if !s.library.await(ctx) {
		return nil
	}
	return s.slack.approvals.Run(ctx)
}

// slackRuns are the executor's runs, as the approvals see them.
type slackRuns struct{ executor *executor.Executor }

// Changes implements [approvals.Runs]. A run that changes while nobody reads is
// named once.
func (r slackRuns) Changes(ctx context.Context) <-chan string {
	updates, out := r.executor.Subscribe(ctx), make(chan string)
	go func() {
		defer close(out)
		var waiting []string
		known := map[string]bool{}
		for {
			var to chan<- string
			var next string
			if len(waiting) > 0 {
				to, next = out, waiting[0]
			}
			select {
			case <-ctx.Done():
				return
			case u, ok := <-updates:
				if !ok {
					return
				}
				if !known[u.Run] {
					known[u.Run], waiting = true, append(waiting, u.Run)
				}
			case to <- next:
				delete(known, next)
				waiting = waiting[1:]
			}
		}
	}()
	return out
}

// Open implements [approvals.Runs].
func (r slackRuns) Open() []machine.State {
	open := true
	return r.executor.Runs(executor.Filter{Open: &open})
}

// Run implements [approvals.Runs].
func (r slackRuns) Run(id string) (machine.State, []machine.Event, bool) {
	s, events, err := r.executor.RunHistory(id)
	return s, events, err == nil
}

// Finding is one line of a check.
type Finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

// SlackCheck says how Slack is checked.
type SlackCheck struct {
	NoEmail bool // the app was made without the scope for e-mail addresses
	Silent  bool // nothing is posted
}

// CheckSlack asks Slack whether the configured workspace, its channels, people
// and groups can be used.
func CheckSlack(ctx context.Context, c config.Config, o SlackCheck) ([]Finding, error) {
	w, err := openSlack(c, slog.New(slog.DiscardHandler))
	switch {
	case err != nil:
		return nil, err
	case w == nil:
		return nil, fmt.Errorf("%s describes no Slack workspace; slack.token_file begins it, and docs/reference/config.md has the rest", c.File)
	}
	people := members(c.Auth)
	// Who is listed with an ID is not looked up by e-mail address.
	listed := len(people) > 0 && !slices.ContainsFunc(people, func(m approvals.Member) bool { return m.Slack == "" })
	found := w.Client.Check(ctx, slack.CheckOptions{
		Transport: w.Transport(), Channels: c.SlackChannels(), NoEmail: o.NoEmail || listed, Silent: o.Silent, NoGroups: len(c.Slack.Groups) == 0,
	})
	if len(found) == 0 || found[0].OK { // with a token that does not work nothing else can be asked
		found = append(found, w.directory.Check(ctx, people)...)
	}
	var out []Finding
	for _, f := range found {
		out = append(out, Finding(f))
	}
	return out, nil
}
