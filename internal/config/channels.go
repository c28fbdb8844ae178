package config

import (
	"fmt"
	"regexp"
	"time"

	"github.com/inference-responder/responder/internal/runview"
)

// Channel is one named place where people, or their systems, are told.
type Channel struct {
	Name      string            `yaml:"name" doc:"What playbooks and policies call it: lower-case letters, digits and dashes."`
	Default   bool              `yaml:"default" doc:"Gets everything that names no channel, and above all what needs a person. At least one channel has to be."`
	Webhook   *webhookChannel   `yaml:"webhook" doc:"Anything that takes CloudEvents 1.0."`
	PagerDuty *pagerDutyChannel `yaml:"pagerduty" doc:"A PagerDuty service with an Events API v2 integration."`
	Slack     *slackChannel     `yaml:"slack" doc:"A channel of the workspace that slack describes. It gets notices; questions go where slack.channel says."`
}

type webhookChannel struct {
	URL       string   `yaml:"url" doc:"Each message is posted here as a CloudEvent in structured JSON mode, its id the idempotency key."`
	TokenFile string   `yaml:"token_file" doc:"File with a bearer token for it. It is read for every message."`
	CAFile    string   `yaml:"ca_file" doc:"PEM certificates that vouch for the server."`
	Plaintext bool     `yaml:"plaintext" doc:"Let the token go over plain http to another machine: it is readable on the way. Without it that is refused."`
	Events    []string `yaml:"events" enum:"run.started,gate.opened,gate.decided,lever.applied,lever.verified,lever.undone,run.held,run.ended" doc:"Facts of every run that are sent too, each at least once, in the journal's order, also those of a time in which the receiver was down."`
}

type pagerDutyChannel struct {
	RoutingKeyFile string `yaml:"routing_key_file" doc:"File with the integration key. It is read for every event."`
	URL            string `yaml:"url" doc:"Default: https://events.pagerduty.com; in the EU https://events.eu.pagerduty.com."`
	CAFile         string `yaml:"ca_file" doc:"PEM certificates that vouch for the server, where a proxy opens TLS."`
	Changes        bool   `yaml:"changes" doc:"Also record every change that is made or undone as a change event, which pages nobody."`
}

type slackChannel struct {
	Channel string `yaml:"channel" doc:"Id of the channel, e.g. C0123456789."`
}

// Silence configures silences at Alertmanager.
type Silence struct {
	Enabled         bool          `yaml:"enabled" doc:"Silence the alert while a change made for it takes effect and is proven, and no longer."`
	AlertmanagerURL string        `yaml:"alertmanager_url" doc:"Base URL of one replica, e.g. http://alertmanager.monitoring:9093."`
	TokenFile       string        `yaml:"token_file" doc:"File with a bearer token for it. It is read for every request."`
	CAFile          string        `yaml:"ca_file" doc:"PEM certificates that vouch for the server."`
	Plaintext       bool          `yaml:"plaintext" doc:"Let the token go over plain http to another machine: it is readable on the way. Without it that is refused."`
	Max             time.Duration `yaml:"max" doc:"Longest life of one silence, from 1m to 24h, whatever becomes of the run or the service."`
}

// channelName is the form of names, as playbooks write them.
func channelName(s string) bool {
	ok, err := regexp.MatchString(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`, s)
	return ok && err == nil
}

// checkChannels finds what is wrong with the channels and silences.
func (c *Config) checkChannels(bad report) {
	names, defaults := map[string]string{}, 0
	for i, ch := range c.Channels {
		path := fmt.Sprintf("channels[%d]", i)
		if !channelName(ch.Name) {
			bad(path+".name", "lower-case letters, digits and dashes, beginning with a letter", "%q is not a channel's name", runview.Cut(ch.Name, 60))
		}
		if other, dup := names[ch.Name]; dup {
			bad(path+".name", "give each channel a name of its own", "%q is also the name of %s", ch.Name, other)
		}
		names[ch.Name] = path
		if ch.Default {
			defaults++
		}
		ch.check(path, bad)
	}
	if len(c.Channels) > 0 && defaults == 0 {
		bad("channels", "set default: true on the one that somebody reads", "none is the default: what needs a person would reach nobody")
	}
	if c.ExternalURL != "" && !IsHTTP(c.ExternalURL) {
		bad("external_url", "write it like https://responder.example", "%s is not a URL", QuotedURL(c.ExternalURL))
	}
	if c.Silence.Enabled && !IsHTTP(c.Silence.AlertmanagerURL) {
		bad("silence.alertmanager_url", "write it like http://alertmanager.monitoring:9093", "%s is not a URL", QuotedURL(c.Silence.AlertmanagerURL))
	}
	if c.Silence.Max < time.Minute || c.Silence.Max > 24*time.Hour {
		bad("silence.max", "", "must be from 1m to 24h")
	}
}

func (ch Channel) check(path string, bad report) {
	kinds := 0
	if w := ch.Webhook; w != nil {
		kinds++
		if !IsHTTP(w.URL) {
			bad(path+".webhook.url", "write it like https://hooks.example/responder", "is not a URL") // not repeated: it may hold a secret
		}
	}
	if p := ch.PagerDuty; p != nil {
		kinds++
		if p.RoutingKeyFile == "" {
			bad(path+".pagerduty.routing_key_file", "", "must name a file")
		}
		if p.URL != "" && !IsHTTP(p.URL) {
			bad(path+".pagerduty.url", "write it like https://events.eu.pagerduty.com", "%s is not a URL", QuotedURL(p.URL))
		}
	}
	if s := ch.Slack; s != nil {
		kinds++
		if !slackChannelID.MatchString(s.Channel) {
			bad(path+".slack.channel", slackChannelHint, "%q is not the id of a channel", runview.Cut(s.Channel, 60))
		}
	}
	if kinds != 1 {
		bad(path, "keep one", "must be exactly one of webhook, pagerduty and slack")
	}
}

// channelPaths are the files that channels and silences name.
func (c *Config) channelPaths() []*string {
	paths := []*string{&c.Silence.TokenFile, &c.Silence.CAFile}
	for _, ch := range c.Channels {
		if w := ch.Webhook; w != nil {
			paths = append(paths, &w.TokenFile, &w.CAFile)
		}
		if p := ch.PagerDuty; p != nil {
			paths = append(paths, &p.RoutingKeyFile, &p.CAFile)
		}
	}
	return paths
}
