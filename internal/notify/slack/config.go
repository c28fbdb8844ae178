package slack

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/setting"
)

// ChannelConfig is the block slack of a channel. The workspace opens it.
type ChannelConfig struct {
	Channel string `yaml:"channel" doc:"Id of the channel, e.g. C0123456789."`
}

// Check implements [setting.Block].
func (c *ChannelConfig) Check(at string, bad setting.Report) { checkID(at+".channel", c.Channel, bad) }

// Config is the block slack: the workspace in which people are asked and decide.
type Config struct {
	TokenFile         string  `yaml:"token_file" doc:"File with the bot token, xoxb-... It is read again when it changes, as the files of the next two are."`
	AppTokenFile      string  `yaml:"app_token_file" doc:"File with the app-level token, xapp-..., for clicks over Socket Mode, which needs no ingress. This or signing_secret_file."`
	SigningSecretFile string  `yaml:"signing_secret_file" doc:"File with the signing secret, for clicks over HTTP: Slack posts them to /api/v1/slack/interactivity."`
	AppID             string  `yaml:"app_id" doc:"Whose clicks are taken, e.g. A0123456789. Empty: the app's that the bot token belongs to."`
	TeamID            string  `yaml:"team_id" doc:"The workspace, e.g. T0123456789. Empty: the bot token's."`
	Channel           string  `yaml:"channel" doc:"Id of the channel in which runs ask, e.g. C0123456789. Empty: runs that no entry of channels is about are not shown in Slack."`
	Channels          []Route `yaml:"channels" doc:"Other channels for some runs. The first entry that fits counts."`
	Groups            []Group `yaml:"groups" doc:"User groups of Slack whose members are in a group of ours when they decide in Slack."`
	Burst             Burst   `yaml:"storm" doc:"When many questions become one list."`
	APIURL            string  `yaml:"api_url" doc:"Where the Web API is, for tests. Empty: Slack's. The tokens are sent there."`
}

// Route sends some runs to a channel of their own.
type Route struct {
	Service  string `yaml:"service" doc:"Name of the service. Empty: any."`
	Playbook string `yaml:"playbook" doc:"Name of the playbook. Empty: any."`
	Channel  string `yaml:"channel" doc:"Id of the channel."`
}

// Group is a user group of Slack.
type Group struct {
	Handle string `yaml:"handle" doc:"Slack's handle of the user group, e.g. ml-oncall, or its id."`
	Name   string `yaml:"name" doc:"The group as approval rules name it after group:, e.g. ml-platform."`
}

// Burst configures when many questions are grouped into one list.
type Burst struct {
	Gates  int           `yaml:"gates" doc:"More questions than that in a channel within the window become one list. 0: 5."`
	Window time.Duration `yaml:"window" doc:"0: 1m."`
}

// configuredID matches the ID of a channel. A name can be given to another
// channel.
var configuredID = regexp.MustCompile(`^[CG][A-Z0-9]{2,30}$`)

const idHint = "copy it from the channel's details in Slack, e.g. C0123456789; a name is not enough"

func checkID(path, id string, bad setting.Report) {
	if !configuredID.MatchString(id) {
		bad(path, idHint, "%q is not the id of a channel", cut(id, 60))
	}
}

// Check implements [setting.Block].
func (c *Config) Check(at string, bad setting.Report) {
	if c.TokenFile == "" {
		bad(at+".token_file", "", "must name a file")
	}
	if (c.AppTokenFile == "") == (c.SigningSecretFile == "") {
		bad(at, "app_token_file for Socket Mode, signing_secret_file for HTTP", "clicks come over one transport: set one of app_token_file and signing_secret_file")
	}
	if c.Channel != "" {
		checkID(at+".channel", c.Channel, bad)
	}
	for i, r := range c.Channels {
		path := fmt.Sprintf("%s.channels[%d]", at, i)
		checkID(path+".channel", r.Channel, bad)
		if r.Service == "" && r.Playbook == "" {
			bad(path, "set "+at+".channel for all the others", "fits every run: name a service or a playbook")
		}
	}
	if c.Channel == "" && len(c.Channels) == 0 {
		bad(at+".channel", idHint, "no run would be shown in Slack")
	}
	for i, g := range c.Groups {
		if strings.TrimPrefix(g.Handle, "@") == "" || strings.TrimPrefix(g.Name, "group:") == "" {
			bad(fmt.Sprintf("%s.groups[%d]", at, i), "e.g. {handle: ml-oncall, name: ml-platform}", "needs handle and name")
		}
	}
	if c.Burst.Gates < 0 || c.Burst.Window < 0 {
		bad(at+".storm", "", "must not be negative")
	}
	if c.APIURL != "" && !setting.IsHTTP(c.APIURL) {
		bad(at+".api_url", "leave it out: the default is Slack", "%s is not a URL", setting.QuotedURL(c.APIURL))
	}
	bad.Sent(setting.Credential{Path: at + ".token_file", File: c.TokenFile, URLPath: at + ".api_url", URL: c.APIURL})
}

// Transport returns how clicks arrive.
func (c *Config) Transport() Transport {
	if c.AppTokenFile != "" {
		return SocketMode
	}
	return HTTP
}

// ChannelOf returns the channel in which a run is shown; empty: none.
func (c *Config) ChannelOf(service, playbook string) string {
	for _, r := range c.Channels {
		if (r.Service == "" || r.Service == service) && (r.Playbook == "" || r.Playbook == playbook) {
			return r.Channel
		}
	}
	return c.Channel
}
