package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// Slack is the workspace in which people are asked and decide.
type Slack struct {
	TokenFile         string       `yaml:"token_file" doc:"File with the bot token, xoxb-... It is read again when it changes, as the files of the next two are."`
	AppTokenFile      string       `yaml:"app_token_file" doc:"File with the app-level token, xapp-..., for clicks over Socket Mode, which needs no ingress. This or signing_secret_file."`
	SigningSecretFile string       `yaml:"signing_secret_file" doc:"File with the signing secret, for clicks over HTTP: Slack posts them to /api/v1/slack/interactivity."`
	AppID             string       `yaml:"app_id" doc:"Whose clicks are taken, e.g. A0123456789. Empty: the app's that the bot token belongs to."`
	TeamID            string       `yaml:"team_id" doc:"The workspace, e.g. T0123456789. Empty: the bot token's."`
	Channel           string       `yaml:"channel" doc:"Id of the channel in which runs ask, e.g. C0123456789. Empty: runs that no entry of channels is about are not shown in Slack."`
	Channels          []SlackRoute `yaml:"channels" doc:"Other channels for some runs. The first entry that fits counts."`
	Groups            []slackGroup `yaml:"groups" doc:"User groups of Slack whose members are in a group of ours when they decide in Slack."`
	Storm             slackStorm   `yaml:"storm" doc:"When many questions become one list."`
	APIURL            string       `yaml:"api_url" doc:"Where the Web API is, for tests. Empty: Slack's. The tokens are sent there."`
}

// SlackRoute sends some runs to a channel of their own.
type SlackRoute struct {
	Service  string `yaml:"service" doc:"Name of the service. Empty: any."`
	Playbook string `yaml:"playbook" doc:"Name of the playbook. Empty: any."`
	Channel  string `yaml:"channel" doc:"Id of the channel."`
}

type slackGroup struct {
	Handle string `yaml:"handle" doc:"Slack's handle of the user group, e.g. ml-oncall, or its id."`
	Name   string `yaml:"name" doc:"The group as approval rules name it after group:, e.g. ml-platform."`
}

type slackStorm struct {
	Gates  int           `yaml:"gates" doc:"More questions than that in a channel within the window become one list. 0: 5."`
	Window time.Duration `yaml:"window" doc:"0: 1m."`
}

// slackChannelID is the form of a channel's id; a name can be given to another
// channel.
var slackChannelID = regexp.MustCompile(`^[CG][A-Z0-9]{2,30}$`)

const slackChannelHint = "copy it from the channel's details in Slack, e.g. C0123456789; a name is not enough"

// checkSlack finds what is wrong with the workspace.
func (c *Config) checkSlack(bad report) {
	for i, ch := range c.Channels {
		if ch.Slack != nil && c.Slack == nil {
			bad(fmt.Sprintf("channels[%d].slack", i), "set slack.token_file and the rest of slack", "there is no workspace to post to")
		}
	}
	s := c.Slack
	if s == nil {
		return
	}
	if s.TokenFile == "" {
		bad("slack.token_file", "", "must name a file")
	}
	if (s.AppTokenFile == "") == (s.SigningSecretFile == "") {
		bad("slack", "app_token_file for Socket Mode, signing_secret_file for HTTP", "clicks come over one transport: set one of app_token_file and signing_secret_file")
	}
	channel := func(path, id string) {
		if !slackChannelID.MatchString(id) {
			bad(path, slackChannelHint, "%q is not the id of a channel", runview.Cut(id, 60))
		}
	}
	if s.Channel != "" {
		channel("slack.channel", s.Channel)
	}
	for i, r := range s.Channels {
		path := fmt.Sprintf("slack.channels[%d]", i)
		channel(path+".channel", r.Channel)
		if r.Service == "" && r.Playbook == "" {
			bad(path, "set slack.channel for all the others", "fits every run: name a service or a playbook")
		}
	}
	if s.Channel == "" && len(s.Channels) == 0 {
		bad("slack.channel", slackChannelHint, "no run would be shown in Slack")
	}
	for i, g := range s.Groups {
		if strings.TrimPrefix(g.Handle, "@") == "" || strings.TrimPrefix(g.Name, "group:") == "" {
			bad(fmt.Sprintf("slack.groups[%d]", i), "e.g. {handle: ml-oncall, name: ml-platform}", "needs handle and name")
		}
	}
	if s.Storm.Gates < 0 || s.Storm.Window < 0 {
		bad("slack.storm", "", "must not be negative")
	}
	if s.APIURL != "" && !IsHTTP(s.APIURL) {
		bad("slack.api_url", "leave it out: the default is Slack", "%s is not a URL", QuotedURL(s.APIURL))
	}
}

// slackPaths are the files that the workspace names.
func (c *Config) slackPaths() []*string {
	if c.Slack == nil {
		return nil
	}
	return []*string{&c.Slack.TokenFile, &c.Slack.AppTokenFile, &c.Slack.SigningSecretFile}
}

// Transport is how clicks come.
func (s *Slack) Transport() slack.Transport {
	if s.AppTokenFile != "" {
		return slack.SocketMode
	}
	return slack.HTTP
}

// ChannelOf is where a run is shown; empty: nowhere.
func (s *Slack) ChannelOf(service, playbook string) string {
	for _, r := range s.Channels {
		if (r.Service == "" || r.Service == service) && (r.Playbook == "" || r.Playbook == playbook) {
			return r.Channel
		}
	}
	return s.Channel
}

// Problem returns an error with the place of the setting that it is about.
func (c Config) Problem(path string, err error) yamldoc.Problem {
	at := c.set.of(path)
	return yamldoc.Problem{File: c.File, Line: at.line, Column: at.column, Path: path, Message: err.Error()}
}

// AllSlackChannels lists every channel that is posted to.
func (c *Config) AllSlackChannels() []string {
	all := []string{}
	if s := c.Slack; s != nil {
		all = append(all, s.Channel)
		for _, r := range s.Channels {
			all = append(all, r.Channel)
		}
	}
	for _, ch := range c.Channels {
		if ch.Slack != nil {
			all = append(all, ch.Slack.Channel)
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(id string) bool { return id == "" })
}
