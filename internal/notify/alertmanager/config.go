package alertmanager

import (
	"time"

	"github.com/inference-responder/responder/internal/setting"
)

// Config is the block silence.
type Config struct {
	Enabled         bool          `yaml:"enabled" doc:"Silence the alert while a change made for it takes effect and is proven, and no longer."`
	AlertmanagerURL string        `yaml:"alertmanager_url" doc:"Base URL of one replica, e.g. http://alertmanager.monitoring:9093."`
	TokenFile       string        `yaml:"token_file" doc:"File with a bearer token for it. It is read for every request."`
	CAFile          string        `yaml:"ca_file" doc:"PEM certificates that vouch for the server."`
	Plaintext       bool          `yaml:"plaintext" doc:"Let the token go over plain http to another machine: it is readable on the way. Without it that is refused."`
	Max             time.Duration `yaml:"max" doc:"Longest life of one silence, from 1m to 24h, whatever becomes of the run or the service."`
}

// Check implements [setting.Block].
func (c *Config) Check(at string, bad setting.Report) {
	if c.Enabled && !setting.IsHTTP(c.AlertmanagerURL) {
		bad(at+".alertmanager_url", "write it like http://alertmanager.monitoring:9093", "%s is not a URL", setting.QuotedURL(c.AlertmanagerURL))
	}
	if c.Max < minSilence || c.Max > maxSilence {
		bad(at+".max", "", "must be from 1m to 24h")
	}
	bad.Sent(setting.Credential{
		Path: at + ".token_file", File: c.TokenFile, URLPath: at + ".alertmanager_url", URL: c.AlertmanagerURL, Plaintext: &c.Plaintext,
	})
}
