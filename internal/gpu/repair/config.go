package repair

import (
	"time"

	"github.com/inference-responder/responder/internal/setting"
)

// Config is the block gpu.repairs.
type Config struct {
	URL        string        `yaml:"url" doc:"Each request is posted here as JSON: action (request, or withdraw), key, node, gpus, reason, run, service. A 2xx is a yes; the member id of its answer is what the run calls the request."`
	TokenFile  string        `yaml:"token_file" doc:"File with a bearer token for it. It is read for every request."`
	CAFile     string        `yaml:"ca_file" doc:"PEM certificates that vouch for the server."`
	Plaintext  bool          `yaml:"plaintext" doc:"Let the token go over plain http to another machine: it is readable on the way. Without it that is refused."`
	Timeout    time.Duration `yaml:"timeout" doc:"For one request; 50ms to 30s. Default: 10s."`
	Idempotent bool          `yaml:"idempotent" doc:"It takes two requests with the same Idempotency-Key for one, so that one whose answer was lost may be sent again. Otherwise the run is held and people say what is true."`
}

// maxTimeout is well below the time that an effect has.
const maxTimeout = 30 * time.Second

// Check implements [setting.Block].
func (c *Config) Check(at string, bad setting.Report) {
	if *c == (Config{}) {
		return
	}
	if !setting.IsHTTP(c.URL) {
		bad(at+".url", "write it like https://tickets.example/hooks/gpu", "is not a URL") // not repeated: it may hold a secret
	}
	if c.Timeout != 0 && (c.Timeout < 50*time.Millisecond || c.Timeout > maxTimeout) {
		bad(at+".timeout", "50ms to 30s", "%s is out of range", c.Timeout)
	}
	bad.Sent(setting.Credential{Path: at + ".token_file", File: c.TokenFile, URLPath: at + ".url", URL: c.URL, Plaintext: &c.Plaintext})
}
