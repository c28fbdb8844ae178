package config

import (
	"fmt"

	"github.com/inference-responder/responder/internal/setting"
)

// checkCredentials refuses secrets that would be sent in plain text, for the blocks
// that do not check their own. Argo CD has no URL; its own field plaintext covers it.
func (c *Config) checkCredentials(bad setting.Report) {
	p := &c.Prometheus
	bad.Sent(setting.Credential{Path: "prometheus.token_file", File: p.TokenFile, URLPath: "prometheus.url", URL: p.URL, Plaintext: &p.Plaintext})
	w := &c.Journal.Checkpoints
	bad.Sent(setting.Credential{Path: "journal.checkpoints.token_file", File: w.TokenFile, URLPath: "journal.checkpoints.url", URL: w.URL, Plaintext: &w.Plaintext})
	for i := range c.Gitops.Repositories {
		at, g := fmt.Sprintf("gitops.repositories[%d].", i), &c.Gitops.Repositories[i]
		bad.Sent(setting.Credential{Path: at + "auth.token_file", File: g.Auth.TokenFile, URLPath: at + "url", URL: g.URL, Plaintext: &g.Auth.Plaintext})
		if f := g.Forge; f != nil {
			bad.Sent(setting.Credential{Path: at + "forge.token_file", File: f.TokenFile, URLPath: at + "forge.api", URL: f.API, Plaintext: &f.Plaintext})
		}
	}
}
