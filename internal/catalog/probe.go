package catalog

import (
	"fmt"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/setting"
)

// Probe declares how engine.probe asks a service for completions. Only configured
// services have one: what it sends costs tokens, and a credential.
type Probe struct {
	Endpoint      string        `yaml:"endpoint" doc:"Base URL that clients ask. Default: the service's endpoint."`
	Path          string        `yaml:"path" doc:"Path of OpenAI's API below it and below the replicas' addresses. Default: /v1."`
	Model         string        `yaml:"model" doc:"Name of the model in requests. Default: the service's model."`
	TokenFile     string        `yaml:"token_file" doc:"File with the bearer token that the endpoint wants. Read each time."`
	EngineToken   string        `yaml:"engine_token_file" doc:"File with the bearer token that the engines themselves want, as vLLM with --api-key does. Read each time."`
	Plaintext     bool          `yaml:"plaintext" doc:"Let the tokens go over plain http to another machine: they are readable on the way. Without it that is refused; replicas are asked over plain http."`
	CAFile        string        `yaml:"ca_file" doc:"PEM certificates that vouch for the endpoint."`
	PromptsFile   string        `yaml:"prompts_file" doc:"Golden prompts and the answers expected, as responder engine probe --record writes them. Read each time. Default: a few common ones, without expected answers."`
	MaxTokens     int           `yaml:"max_tokens" doc:"Tokens of one completion, at most 256. Default: 16."`
	Timeout       time.Duration `yaml:"timeout" doc:"For one completion; what takes longer hung. At most 20s, because a check may take 30s. Default: 10s."`
	Every         time.Duration `yaml:"every" doc:"Least time between two probes of one replica, and of the endpoint; at least 10s. Default: 1m."`
	Replicas      int           `yaml:"replicas" doc:"Most replicas that one probe asks, at most 64. Default: 8."`
	Port          int           `yaml:"port" doc:"Port of the engines. Default: the one that the engine's container declares with the name http, else its first, else that of its readiness probe."`
	TokensPerHour int           `yaml:"tokens_per_hour" doc:"Most tokens that all probes of the service may ask for in an hour, prompts included, over all runs since the start of the process. Default: 50000."`
}

// Probed is a service with how it is probed.
type Probed struct {
	Service playbook.Service
	Probe   Probe
}

// ProbedServices returns the declared services that have a probe, with what the probe
// takes from them.
func ProbedServices(list []Declaration) []Probed {
	var out []Probed
	for _, d := range list {
		if d.Probe == nil {
			continue
		}
		one := Probed{Service: d.service(), Probe: *d.Probe}
		if one.Probe.Endpoint == "" {
			one.Probe.Endpoint = one.Service.Endpoint
		}
		if one.Probe.Model == "" {
			one.Probe.Model = one.Service.Model
		}
		out = append(out, one)
	}
	return out
}

// checkProbe reports what is wrong with the probe of a service at a path.
func checkProbe(p *Probe, s playbook.Service, at string, bad setting.Report) {
	if p == nil {
		return
	}
	at += ".probe"
	if err := checkEndpoint(p.Endpoint); err != nil {
		bad(at+".endpoint", "like http://chat.serving:8000", "%s", err)
	}
	if p.Path != "" && (!strings.HasPrefix(p.Path, "/") || strings.ContainsAny(p.Path, "?#%") || strings.Contains(p.Path+"/", "/../")) {
		bad(at+".path", "like /v1 or /openai/v1", "is not a plain path that begins with a slash")
	}
	if p.Model == "" && s.Model == "" {
		bad(at+".model", "set it here or as the service's model", "is missing: requests name a model")
	}
	for _, f := range []struct {
		name     string
		value    int
		from, to int
	}{
		{"max_tokens", p.MaxTokens, 1, 256}, {"replicas", p.Replicas, 1, 64}, {"port", p.Port, 1, 65535}, {"tokens_per_hour", p.TokensPerHour, 100, 100_000_000},
	} {
		if f.value != 0 && (f.value < f.from || f.value > f.to) {
			bad(at+"."+f.name, "remove it for the default", "%d is not between %d and %d", f.value, f.from, f.to)
		}
	}
	for _, f := range []struct {
		name     string
		value    time.Duration
		from, to time.Duration
	}{{"timeout", p.Timeout, time.Second, 20 * time.Second}, {"every", p.Every, 10 * time.Second, 24 * time.Hour}} {
		if f.value != 0 && (f.value < f.from || f.value > f.to) {
			bad(at+"."+f.name, "remove it for the default", "%s is not between %s and %s", f.value, playbook.FormatDuration(f.from), playbook.FormatDuration(f.to))
		}
	}
	endpoint, where := p.Endpoint, at+".endpoint"
	if endpoint == "" {
		endpoint, where = s.Endpoint, strings.TrimSuffix(at, ".probe")+".endpoint"
	}
	bad.Sent(setting.Credential{Path: at + ".token_file", File: p.TokenFile, URLPath: where, URL: endpoint, Plaintext: &p.Plaintext})
	if p.TokenFile != "" && endpoint == "" {
		bad(at+".token_file", "set endpoint, or engine_token_file for the replicas", "is of no use without an endpoint")
	}
	if p.EngineToken != "" && !p.Plaintext {
		bad(at+".engine_token_file", fmt.Sprintf("set %s.plaintext: true where something else encrypts the way", at), "replicas are asked over plain http: whoever is on the way to them could read what is sent")
	}
}
