package config

import (
	"fmt"
	"strings"
)

// sentCredential is a secret that goes to a URL of the configuration.
type sentCredential struct {
	path      string // of the setting that names the secret's file
	file      string // empty: nothing is sent
	urlPath   string // of the setting that says where it goes
	url       string
	plaintext *bool // the setting that allows plain http; nil: nothing does
}

// sentCredentials lists every secret that leaves over HTTP. Argo CD is not
// asked by URL; its own plaintext says the same.
func (c *Config) sentCredentials() []sentCredential {
	p, s, r := &c.Prometheus, &c.Silence, &c.GPU.Repairs
	all := []sentCredential{
		{"prometheus.token_file", p.TokenFile, "prometheus.url", p.URL, &p.Plaintext},
		{"silence.token_file", s.TokenFile, "silence.alertmanager_url", s.AlertmanagerURL, &s.Plaintext},
		{"gpu.repairs.token_file", r.TokenFile, "gpu.repairs.url", r.URL, &r.Plaintext},
	}
	if c.Slack != nil {
		all = append(all, sentCredential{"slack.token_file", c.Slack.TokenFile, "slack.api_url", c.Slack.APIURL, nil})
	}
	for i, ch := range c.Channels {
		at := fmt.Sprintf("channels[%d].", i)
		if w := ch.Webhook; w != nil {
			all = append(all, sentCredential{at + "webhook.token_file", w.TokenFile, at + "webhook.url", w.URL, &w.Plaintext})
		}
		if p := ch.PagerDuty; p != nil {
			all = append(all, sentCredential{at + "pagerduty.routing_key_file", p.RoutingKeyFile, at + "pagerduty.url", p.URL, nil})
		}
	}
	for i := range c.Gitops.Repositories {
		at, g := fmt.Sprintf("gitops.repositories[%d].", i), &c.Gitops.Repositories[i]
		all = append(all, sentCredential{at + "auth.token_file", g.Auth.TokenFile, at + "url", g.URL, &g.Auth.Plaintext})
		if f := g.Forge; f != nil {
			all = append(all, sentCredential{at + "forge.token_file", f.TokenFile, at + "forge.api", f.API, &f.Plaintext})
		}
	}
	return all
}

// checkCredentials refuses secrets that could be read on their way. The URL is
// not repeated: it may hold a secret itself.
func (c *Config) checkCredentials(bad report) {
	for _, s := range c.sentCredentials() {
		if s.file == "" || !InTheClear(s.url) || s.plaintext != nil && *s.plaintext {
			continue
		}
		hint := "give it as https://"
		if s.plaintext != nil {
			block := s.path[:strings.LastIndex(s.path, ".")]
			hint += ", leave the token out, or set " + block + ".plaintext: true where something else encrypts the way"
		}
		bad(s.path, hint, "%s is plain http: whoever is on the way to it could read what is sent", s.urlPath)
	}
}
