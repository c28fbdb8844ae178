package trace

import (
	"fmt"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	good := Config{
		Endpoint: "https://tempo.example:4318/v1/traces", HeadersFile: "headers", Link: "https://tempo.example/trace/${trace}", ServiceName: "responder",
		Attributes: map[string]string{"deployment.environment.name": "production"},
	}
	for name, test := range map[string]struct {
		change func(*Config)
		want   string // path: text; empty: it is good
	}{
		"good":              {func(*Config) {}, ""},
		"left out":          {func(c *Config) { *c = DefaultConfig() }, ""},
		"no URL":            {func(c *Config) { c.Endpoint = "tempo:4318" }, "tracing.endpoint: \"tempo:4318\" is not an http or https URL"},
		"no path":           {func(c *Config) { c.Endpoint = "https://tempo.example:4318/" }, "tracing.endpoint: must have a path"},
		"port of gRPC":      {func(c *Config) { c.Endpoint = "https://tempo.example:4317/v1/traces" }, "tracing.endpoint: port 4317"},
		"secret in the URL": {func(c *Config) { c.Endpoint = "https://u:" + secret + "@tempo.example/v1/traces" }, "tracing.endpoint: must have no user"},
		"query":             {func(c *Config) { c.Endpoint += "?token=" + secret }, "tracing.endpoint: must have no user"},
		"plain http":        {func(c *Config) { c.Endpoint = "http://tempo.example/v1/traces" }, "tracing.headers_file: tracing.endpoint is plain http"},
		"plain http wanted": {func(c *Config) { c.Endpoint, c.Plaintext = "http://tempo.example/v1/traces", true }, ""},
		"no endpoint":       {func(c *Config) { c.Endpoint = "" }, "tracing.endpoint: must not be empty"},
		"link without":      {func(c *Config) { c.Link = "https://tempo.example/" }, "tracing.link: "},
		"link with another": {func(c *Config) { c.Link = "https://tempo.example/${trace}/${run}" }, "tracing.link: "},
		"link of script":    {func(c *Config) { c.Link = "javascript:alert(${trace})" }, "tracing.link: "},
		"no name":           {func(c *Config) { c.ServiceName = "" }, "tracing.service_name: "},
		"attribute":         {func(c *Config) { c.Attributes = map[string]string{"Cluster": "a"} }, "tracing.attributes: \"Cluster\" is not the name"},
		"name twice":        {func(c *Config) { c.Attributes = map[string]string{"service.name": "a"} }, "tracing.attributes: service.name must not be here"},
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			test.change(&c)
			var got []string
			c.Check("tracing", func(path, _, format string, args ...any) { got = append(got, path+": "+fmt.Sprintf(format, args...)) })
			switch all := strings.Join(got, "\n"); {
			case strings.Contains(all, secret):
				t.Errorf("a message has a secret: %s", all)
			case test.want == "" && all != "", len(got) > 1, !strings.HasPrefix(all, test.want):
				t.Errorf("got %q, want %q", all, test.want)
			}
		})
	}
}

// The identifier of a trace is stored by others, in links and in their databases.
func TestID(t *testing.T) {
	const want = "ecdfa3a734bf121fa66f47545d079bbe"
	if got := ID("r-01JD2Y3Z4A5B6C7D8E9F0G1H2J"); got != want {
		t.Errorf("ID is %s, want %s: links that people keep would break", got, want)
	}
	c := Config{Endpoint: "https://tempo.example/v1/traces", Link: "https://tempo.example/trace/${trace}"}
	if got := c.LinkOf("r-01JD2Y3Z4A5B6C7D8E9F0G1H2J"); got != "https://tempo.example/trace/"+want {
		t.Errorf("link is %s", got)
	}
	if got := (Config{Link: c.Link}).LinkOf("r-1"); got != "" {
		t.Errorf("no traces are sent, and one is linked: %s", got)
	}
}

func TestHeadersFile(t *testing.T) {
	for _, name := range []string{"no colon " + secret, ": " + secret, "Bad Name: " + secret, "Authorization:", "A: \x01" + secret} {
		file := t.TempDir() + "/headers"
		writeFile(t, file, name)
		if _, err := headers(file); err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), ":1: not a header") {
			t.Errorf("%q: %v", name, err)
		}
	}
	file := t.TempDir() + "/headers"
	writeFile(t, file, "# X-Scope-OrgID: sre\n")
	if _, err := headers(file); err == nil || !strings.Contains(err.Error(), "has no header") {
		t.Errorf("a file without headers: %v", err)
	}
}
