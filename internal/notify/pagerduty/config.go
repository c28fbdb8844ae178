package pagerduty

import (
	"github.com/inference-responder/responder/internal/notify"
	"github.com/inference-responder/responder/internal/setting"
)

// Config is the block pagerduty of a channel.
type Config struct {
	RoutingKeyFile string `yaml:"routing_key_file" doc:"File with the integration key. It is read for every event."`
	URL            string `yaml:"url" doc:"Default: https://events.pagerduty.com; in the EU https://events.eu.pagerduty.com."`
	CAFile         string `yaml:"ca_file" doc:"PEM certificates that vouch for the server, where a proxy opens TLS."`
	Changes        bool   `yaml:"changes" doc:"Also record every change that is made or undone as a change event, which pages nobody."`
}

// Check implements [setting.Block].
func (c *Config) Check(at string, bad setting.Report) {
	if c.RoutingKeyFile == "" {
		bad(at+".routing_key_file", "", "must name a file")
	}
	if c.URL != "" && !setting.IsHTTP(c.URL) {
		bad(at+".url", "write it like https://events.eu.pagerduty.com", "%s is not a URL", setting.QuotedURL(c.URL))
	}
	bad.Sent(setting.Credential{Path: at + ".routing_key_file", File: c.RoutingKeyFile, URLPath: at + ".url", URL: c.URL})
}

// Open implements [notify.Settings].
func (c *Config) Open(link notify.Link) (notify.Channel, error) {
	client, err := NewClient(*c)
	if err != nil {
		return nil, err
	}
	return &channel{client: client, changes: c.Changes, link: link}, nil
}
