package trace

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/inference-responder/responder/internal/setting"
)

// Config is the block tracing.
type Config struct {
	Endpoint    string            `yaml:"endpoint" doc:"URL that traces are posted to as OTLP over HTTP (protobuf), with its path, e.g. http://tempo.monitoring:4318/v1/traces. Empty: none are sent."`
	HeadersFile string            `yaml:"headers_file" doc:"File of HTTP headers for endpoint, one NAME: VALUE a line, such as Authorization. It is read for every request."`
	CAFile      string            `yaml:"ca_file" doc:"PEM certificates that vouch for endpoint. Empty: the system's."`
	Plaintext   bool              `yaml:"plaintext" doc:"Let the headers go over plain http to another machine: they are readable on the way. Without it that is refused."`
	Link        string            `yaml:"link" doc:"Address of the page of a trace, e.g. https://tempo.example/trace/${trace}; ${trace} stands for its identifier. Empty: traces have no links."`
	ServiceName string            `yaml:"service_name" doc:"The attribute service.name of the traces."`
	Attributes  map[string]string `yaml:"attributes" doc:"Further attributes of the resource, e.g. deployment.environment.name: production."`
}

// DefaultConfig is what holds where the file says nothing.
func DefaultConfig() Config { return Config{ServiceName: "responder"} }

// Enabled reports whether traces are sent.
func (c Config) Enabled() bool { return c.Endpoint != "" }

// traceVariable stands for the identifier in Config.Link.
const traceVariable = "${trace}"

// LinkOf returns the address of the page of a run's trace; empty: there is none.
func (c Config) LinkOf(run string) string {
	if !c.Enabled() || c.Link == "" {
		return ""
	}
	return strings.ReplaceAll(c.Link, traceVariable, ID(run))
}

// attributeName matches the names of attributes, as OpenTelemetry's conventions write them.
var attributeName = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,127}$`)

// Check implements [setting.Block].
func (c *Config) Check(at string, bad setting.Report) {
	if c.Endpoint != "" {
		c.checkEndpoint(at+".endpoint", bad)
	}
	bad.Sent(setting.Credential{
		Path: at + ".headers_file", File: c.HeadersFile, URLPath: at + ".endpoint", URL: c.Endpoint, Plaintext: &c.Plaintext,
	})
	if c.Endpoint == "" && (c.HeadersFile != "" || c.CAFile != "" || c.Link != "" || len(c.Attributes) > 0) {
		bad(at+".endpoint", "write it like http://tempo.monitoring:4318/v1/traces, or leave the block out", "must not be empty: no traces would be sent")
	}
	if c.Link != "" && (!setting.IsHTTP(c.Link) || strings.Count(c.Link, traceVariable) != 1 || strings.Count(c.Link, "${") != 1) {
		bad(at+".link", "write it like https://tempo.example/trace/${trace}", "must be a URL with ${trace} once, and no other variable")
	}
	if c.ServiceName == "" {
		bad(at+".service_name", "leave it out for responder", "must not be empty")
	}
	for name := range c.Attributes {
		switch {
		case !attributeName.MatchString(name):
			bad(at+".attributes", "use up to 128 lower-case letters, digits, dots, dashes and underscores, e.g. deployment.environment.name", "%q is not the name of an attribute", name)
		case name == "service.name":
			bad(at+".attributes", "set "+at+".service_name", "service.name must not be here, because it has a field of its own")
		}
	}
}

func (c *Config) checkEndpoint(at string, bad setting.Report) {
	u, err := url.Parse(c.Endpoint)
	switch {
	case err != nil || !setting.IsHTTP(c.Endpoint):
		bad(at, "write it like http://tempo.monitoring:4318/v1/traces", "%s is not an http or https URL", setting.QuotedURL(c.Endpoint))
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		bad(at, "send credentials by headers_file", "must have no user, query or fragment")
	case strings.Trim(u.Path, "/") == "":
		bad(at, "receivers of OTLP take traces at /v1/traces", "must have a path")
	case u.Port() == "4317":
		bad(at, "OTLP over HTTP is on port 4318", "port 4317 is that of OTLP over gRPC, which is not supported")
	}
}
