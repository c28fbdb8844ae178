package golden

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/inference-responder/responder/internal/outbound"
)

// Settings is how one service is probed. [New] checks it and fills in what is 0.
type Settings struct {
	Endpoint      string        // base URL that clients ask; empty: none
	Path          string        // of OpenAI's API; empty: /v1
	Model         string        // name of the model in requests
	Engine        string        // vllm, sglang, dynamo, kserve; empty: unknown
	TokenFile     string        // file with the credential of the endpoint; empty: none is sent
	EngineToken   string        // file with the credential of the replicas; empty: none is sent
	CAFile        string        // authorities that vouch for the endpoint; empty: the system's
	PromptsFile   string        // golden prompts; empty: those of Recorded
	MaxTokens     int           // of one completion; 0: 16
	Timeout       time.Duration // for one completion; 0: 10s
	Every         time.Duration // least time between two probes of one target; 0: 1m
	Replicas      int           // most that are asked at once; 0: 8
	Port          int           // of the replicas; 0: the one that their container declares
	TokensPerHour int           // most that may be asked for, prompts included; 0: 50,000

	Recorded  []Prompt          // golden prompts where PromptsFile is empty; empty: those of [Common]
	Transport http.RoundTripper // that every request takes; nil: the network's

	Networks []netip.Prefix // in which the endpoint is asked; none: all that are not refused always
}

// Probes asks engines, within the budgets of their services. It may be used by many
// goroutines.
type Probes struct {
	services map[string]*service
}

type service struct {
	Settings
	endpoint *url.URL
	budget   *budget
	gateway  *http.Client
	replicas *http.Client
}

// New returns the probes of services, by their names. It reads the authorities, and
// neither prompts nor credentials, which may change.
func New(services map[string]Settings) (*Probes, error) {
	replicas, err := client(outbound.Options{}) // their addresses are the API server's
	if err != nil {
		return nil, err
	}
	p := &Probes{services: map[string]*service{}}
	for name, s := range services {
		one := &service{Settings: s.withDefaults(), replicas: replicas}
		if s.Endpoint != "" {
			if one.endpoint, err = url.Parse(s.Endpoint); err != nil || one.endpoint.Host == "" {
				return nil, fmt.Errorf("probe of service %s: its endpoint is not a URL", name)
			}
		}
		if s.Transport != nil {
			one.gateway, one.replicas = outbound.Client(s.Transport), outbound.Client(s.Transport)
		} else if one.gateway, err = client(outbound.Options{CAFile: s.CAFile, Guarded: true, Networks: s.Networks}); err != nil {
			return nil, fmt.Errorf("probe of service %s: %w", name, err)
		}
		one.budget = newBudget(one.TokensPerHour, one.Every)
		p.services[name] = one
	}
	return p, nil
}

// client returns a client that follows no redirect and uses no proxy: replicas are
// asked by their addresses.
func client(o outbound.Options) (*http.Client, error) {
	o.NoProxy = true
	t, err := o.Transport()
	if err != nil {
		return nil, err
	}
	t.DisableCompression = true // bounds are of what was sent
	return outbound.Client(t), nil
}

func (s Settings) withDefaults() Settings {
	if s.Path == "" {
		s.Path = "/v1"
	}
	for _, f := range []struct {
		to    *int
		value int
	}{{&s.MaxTokens, 16}, {&s.Replicas, 8}, {&s.TokensPerHour, 50_000}} {
		if *f.to == 0 {
			*f.to = f.value
		}
	}
	if s.Timeout == 0 {
		s.Timeout = 10 * time.Second
	}
	if s.Every == 0 {
		s.Every = time.Minute
	}
	return s
}

// Settings returns how a service is probed; false: no probe is configured for it.
func (p *Probes) Settings(name string) (Settings, bool) {
	if p == nil || p.services[name] == nil {
		return Settings{}, false
	}
	return p.services[name].Settings, true
}

// Prompts reads the golden prompts of a service, and returns them with their digest.
func (p *Probes) Prompts(name string) (File, string, error) {
	s, ok := p.Settings(name)
	switch {
	case !ok:
		return File{}, "", errors.New("no probe is configured for this service")
	case s.PromptsFile == "":
		f := Common()
		if len(s.Recorded) > 0 {
			f.Prompts = s.Recorded
		}
		b, err := f.Encode()
		return f, digest(b), err
	}
	return Read(s.PromptsFile)
}

// LastAsked returns when a replica was asked last, as far as that keeps it from being
// asked again.
func (p *Probes) LastAsked(name, replica string) time.Time {
	if s := p.services[name]; s != nil {
		return s.budget.asked("pod/" + replica)
	}
	return time.Time{}
}

// AskGateway asks the service's endpoint.
func (p *Probes) AskGateway(ctx context.Context, name string, prompts []Prompt, now time.Time) Answer {
	s := p.services[name]
	if s == nil || s.endpoint == nil {
		return Answer{State: Skipped, Why: "the service has no endpoint"}
	}
	t := target{base: s.endpoint, path: s.Path, model: s.Model}
	return s.ask(ctx, s.gateway, t, "gateway", s.TokenFile, prompts, now)
}

// Replica is one replica to ask.
type Replica struct {
	Name string // of the pod
	IP   string
	Port int // that its container declares; 0: none
}

// AskReplica asks one replica.
func (p *Probes) AskReplica(ctx context.Context, name string, r Replica, prompts []Prompt, now time.Time) Answer {
	s := p.services[name]
	if s == nil {
		return Answer{State: Skipped, Why: "no probe is configured for this service"}
	}
	port := s.Port
	if port == 0 {
		port = r.Port
	}
	if r.IP == "" || port == 0 {
		return Answer{State: Skipped, Why: "it has no address: its pod has no IP or its container declares no port, set probe.port"}
	}
	t := target{
		base: &url.URL{Scheme: "http", Host: net.JoinHostPort(r.IP, strconv.Itoa(port))}, path: s.Path, model: s.Model,
		dialect: dialect{native: s.Engine == "sglang", ids: s.Engine == "vllm"},
	}
	return s.ask(ctx, s.replicas, t, "pod/"+r.Name, s.EngineToken, prompts, now)
}

// ask asks a target for all prompts, one after the other, up to the first that it
// does not complete.
func (s *service) ask(ctx context.Context, c *http.Client, t target, key, tokenFile string, prompts []Prompt, now time.Time) (a Answer) {
	if tokenFile != "" {
		token, err := outbound.ReadToken(tokenFile)
		if err != nil {
			return Answer{State: Skipped, Why: "its credential cannot be read: " + err.Error()}
		}
		t.token = token
	}
	left := 0
	for _, p := range prompts {
		left += p.size() + s.MaxTokens
	}
	giveBack, why := s.budget.take(key, left, now)
	if giveBack == nil {
		return Answer{State: Skipped, Why: why}
	}
	defer func() { giveBack(left) }()
	a.State = Answered
	for i, p := range prompts {
		if end, ends := ctx.Deadline(); ends && i > 0 && time.Until(end) < s.Timeout {
			break // what it was asked it answered, though not fast
		}
		left -= p.size() + s.MaxTokens
		one, cancel := context.WithTimeout(ctx, s.Timeout)
		completion, status, err := t.complete(one, c, p, s.MaxTokens)
		cancel()
		a.Status = status
		if err == nil {
			a.Completions = append(a.Completions, completion)
			continue
		}
		a.State, a.Why = Failed, err.Error()
		switch no := new(hung); {
		case ctx.Err() != nil: // the check's own time is over, not the engine's
			a.State, a.Why = Skipped, "the time of the check was over before it answered"
		case errors.As(err, no):
			a.State = Hung
		}
		return a
	}
	return a
}
