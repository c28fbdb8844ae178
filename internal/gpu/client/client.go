package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/outbound"
)

// NodePlaceholder in Options.ServerName stands for the node's name.
const NodePlaceholder = "{node}"

// Pod is a running pod of the agent, as the API server reports it.
type Pod struct {
	UID     string
	Node    string
	Address string // IP
	Account string // user name of its service account
	Started time.Time
}

// Pods lists the agents of the cluster.
type Pods interface {
	AgentPods(ctx context.Context) ([]Pod, error)
}

// Owner is the pod that a token belongs to.
type Owner struct {
	User   string
	PodUID string
	Node   string // empty: the API server does not say
}

// Reviewer looks up the owner of a token that an agent has presented.
type Reviewer interface {
	// ReviewAgent returns false if the token is not valid for our audience.
	ReviewAgent(ctx context.Context, token string) (Owner, bool, error)
}

// Options configure how agents are found and asked.
type Options struct {
	Pods     Pods
	Reviewer Reviewer // nil: agents prove their node by their certificate; ServerName must hold {node}

	Port       int    // of the agents
	CAFile     string // authorities that vouch for their certificates
	ServerName string // that their certificate must have; {node} stands for the node's name
	CertFile   string // our own certificate and key; empty: none is shown
	KeyFile    string
	TokenFile  string // our own token; read again when it changes; empty: none is shown

	Timeout    time.Duration // for one agent, from the first byte to the last; 0: 1 s
	Concurrent int           // agents asked at once; 0: 64
	Log        *slog.Logger
}

// noAgent makes the error of a node without an agent a [gpu.ErrNoAgent].
type noAgent struct{ error }

// Is reports whether target is gpu.ErrNoAgent.
func (noAgent) Is(target error) bool { return target == gpu.ErrNoAgent }

// Unwrap returns the [*fault.Error].
func (a noAgent) Unwrap() error { return a.error }

// Client asks agents. It is safe for concurrent use.
type Client struct {
	o   Options
	tls *outbound.Watched

	mu     sync.Mutex // guards what follows
	pods   map[string]Pod
	listed time.Time
	proven map[proof]time.Time // until when
}

// proof is the verified owner of a token. Tokens themselves are not kept.
type proof struct {
	token [32]byte // SHA-256
	uid   string
}

// How long answers of the API server are cached.
const (
	podsFor  = 15 * time.Second
	againFor = 2 * time.Second // the least time between two lists, however many agents are missed
	proofFor = 5 * time.Minute
)

// New returns a client. It loads the certificates once and does not connect.
func New(o Options) (*Client, error) {
	o.Timeout = cmp.Or(o.Timeout, time.Second)
	o.Concurrent = cmp.Or(o.Concurrent, 64)
	switch {
	case o.CAFile == "":
		return nil, errors.New("gpu agents: missing CA file: it verifies the agents' certificates")
	case o.ServerName == "":
		return nil, errors.New("gpu agents: the name in the agents' certificates is needed")
	case o.Reviewer == nil && !strings.Contains(o.ServerName, NodePlaceholder):
		return nil, errors.New("gpu agents: without tokens of the agents, the name in their certificates must contain " + NodePlaceholder + "; otherwise an agent could answer for another node")
	case (o.CertFile == "") != (o.KeyFile == ""):
		return nil, errors.New("gpu agents: a client certificate needs both a certificate file and a key file")
	case o.CertFile == "" && o.TokenFile == "":
		return nil, errors.New("gpu agents: missing credential: give a token file or a client certificate")
	}
	c := &Client{o: o, proven: map[proof]time.Time{}}
	var err error
	if c.tls, err = outbound.Watch(o.load, o.Log, o.CAFile, o.CertFile, o.KeyFile); err != nil {
		return nil, err
	}
	return c, nil
}

func (o Options) load() (*tls.Config, error) {
	pool, err := outbound.Authorities(o.CAFile)
	if err != nil {
		return nil, fmt.Errorf("gpu agents: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	if o.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("gpu agents: load certificate %s and key %s: %w", o.CertFile, o.KeyFile, err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return config, nil
}

// Snapshots asks the agents of nodes, each once, and returns one answer per node
// in the same order. An Err is an [*fault.Error], or the reason why no agent could
// be found at all. Each snapshot reaches back by back, as far as its agent
// remembers; 0: what a verdict needs.
func (c *Client) Snapshots(ctx context.Context, nodes []string, back time.Duration) []gpu.Answer {
	answers := make([]gpu.Answer, len(nodes))
	fail := func(err error) []gpu.Answer {
		for i, node := range nodes {
			answers[i] = gpu.Answer{Node: node, Err: err}
		}
		return answers
	}
	pods, err := c.agents(ctx, nodes)
	if err != nil {
		return fail(fmt.Errorf("find the gpu agents: %w", err))
	}
	round, err := c.newRound(back)
	if err != nil {
		return fail(err)
	}
	work := make(chan int)
	var wait sync.WaitGroup
	for range min(c.o.Concurrent, len(nodes)) {
		wait.Go(func() {
			var body bytes.Buffer // one for all answers: they are long, and what is kept of them is copied
			for i := range work {
				answers[i] = round.answer(ctx, nodes[i], pods, &body)
			}
		})
	}
	for i := range nodes {
		work <- i
	}
	close(work)
	wait.Wait()
	return answers
}

// Nodes returns the nodes that have an agent, sorted.
func (c *Client) Nodes(ctx context.Context) ([]string, error) {
	pods, err := c.agents(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("find the gpu agents: %w", err)
	}
	nodes := make([]string, 0, len(pods))
	for n := range pods {
		nodes = append(nodes, n)
	}
	slices.Sort(nodes)
	return nodes, nil
}

// agents returns the agents by node. A list is cached for a while, unless one of
// the nodes is missing from it.
func (c *Client) agents(ctx context.Context, nodes []string) (map[string]Pod, error) {
	c.mu.Lock()
	pods, age := c.pods, time.Since(c.listed)
	c.mu.Unlock()
	missed := slices.ContainsFunc(nodes, func(n string) bool { _, ok := pods[n]; return !ok })
	if pods != nil && (age < againFor || age < podsFor && !missed) {
		return pods, nil
	}
	list, err := c.o.Pods.AgentPods(ctx)
	if err != nil {
		return nil, err
	}
	pods = make(map[string]Pod, len(list))
	for _, p := range list {
		// During an update of a DaemonSet there may be two: the newer one stays.
		if have, ok := pods[p.Node]; !ok || p.Started.After(have.Started) {
			pods[p.Node] = p
		}
	}
	c.mu.Lock()
	c.pods, c.listed = pods, time.Now()
	c.mu.Unlock()
	return pods, nil
}

// moved drops the cached list after an agent was not found at its address.
func (c *Client) moved() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.listed) >= againFor {
		c.pods = nil
	}
}
