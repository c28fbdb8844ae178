package webhook

import (
	"github.com/inference-responder/responder/internal/notify"
	"github.com/inference-responder/responder/internal/setting"
)

// Config is the block webhook of a channel.
type Config struct {
	URL        string   `yaml:"url" doc:"Each message is posted here as a CloudEvent in structured JSON mode, its id the idempotency key."`
	TokenFile  string   `yaml:"token_file" doc:"File with a bearer token for it. It is read for every message."`
	SecretFile string   `yaml:"secret_file" doc:"File with the secret that signs each message, whsec_ and the base64 of 24 to 64 bytes, by Standard Webhooks. With two lines both sign, for rotation. It is read for every message. Empty: messages are not signed."`
	CAFile     string   `yaml:"ca_file" doc:"PEM certificates that vouch for the server."`
	Plaintext  bool     `yaml:"plaintext" doc:"Let the token go over plain http to another machine: it is readable on the way. Without it that is refused."`
	Events     []string `yaml:"events" enum:"run.started,gate.opened,gate.decided,lever.applied,lever.verified,lever.undone,run.held,run.ended" doc:"Facts of every run that are sent too, each at least once, in the journal's order, also those of a time in which the receiver was down."`
}

// Check implements [setting.Block].
func (c *Config) Check(at string, bad setting.Report) {
	if !setting.IsHTTP(c.URL) {
		bad(at+".url", "write it like https://hooks.example/responder", "is not a URL") // not repeated: it may hold a secret
	}
	bad.Sent(setting.Credential{Path: at + ".token_file", File: c.TokenFile, URLPath: at + ".url", URL: c.URL, Plaintext: &c.Plaintext})
}

// Open implements [notify.Settings].
func (c *Config) Open(link notify.Link) (notify.Channel, error) {
	client, err := NewClient(*c)
	if err != nil {
		return nil, err
	}
	return &channel{client: client, events: c.Events, link: link}, nil
}
