// Package agentflags holds the flags and help of the node agent. The agent is a
// binary of its own, which `responder agent` starts, and both have the same.
package agentflags

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"time"

	"github.com/spf13/pflag"
)

// Binary is the name of the agent's own program.
const Binary = "responder-agent"

// What --help says.
const (
	ServeShort = "Read this node's GPUs and serve what is known of them"
	ServeLong  = `Read the GPUs of this node through NVIDIA's driver library and serve what is
known of them: GET /v1/health and /metrics for callers that prove who they are,
/healthz for everybody. It changes nothing. deploy/agent runs it as a DaemonSet.

/metrics names the pods that hold GPUs. It is for the accounts of --allow-metrics
and for client certificates of --allow-client; --metrics-open lets everybody read
it who reaches the address. An agent on loopback that was told of no callers asks
nobody who they are.

A driver call that hangs makes its GPU unknown within a second; it never keeps
anybody waiting. Without the driver library the agent serves, too, and says what
is missing.

The agent is a program of its own, responder-agent, because it takes a tenth of
the memory; responder agent starts the one that stands beside responder.

Environment:
  NODE_NAME               name of this node, unless --node gives it
  NVIDIA_VISIBLE_DEVICES  unless it is all or empty, GPUs that the PCI bus shows
                          and the driver does not list are not missed

Exit codes:
  0  stopped by a signal
  1  could not start, or failed`
	ServeExample = `  responder agent --listen 127.0.0.1:9443
  responder agent --listen :9443 --cert-file tls.crt --key-file tls.key --allow-account responder/responder --identity-file identity
  responder agent --listen :9443 --cert-file tls.crt --key-file tls.key --client-ca-file ca.crt --allow-client responder`

	ProbeShort = "Print the verdict about this machine's GPUs once"
	ProbeLong  = `Watch this machine's GPUs for a while and print the verdict about each, with
the rules that say so. It needs no cluster and no configuration. A verdict needs
two minutes of history; what is plainly broken is said as soon as it is seen,
and --for 5s shows the readings sooner, with verdicts of unknown.

Exit codes:
  0  every GPU is healthy or busy
  1  one is not, or nothing could be read`
	ProbeExample = `  responder agent probe
  responder agent probe --for 5s -o json
  responder agent probe --library /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1`
)

// Reading reports how GPUs are read.
type Reading struct {
	Library string
	Period  time.Duration
	Node    string
	HostPID bool
	Kubelet string // socket of its pod-resources API
}

func (r *Reading) add(fs *pflag.FlagSet) {
	fs.StringVar(&r.Library, "library", "", "name or path of NVIDIA's driver library (default libnvidia-ml.so.1)")
	fs.DurationVar(&r.Period, "period", time.Second, "time between two samples, 100ms to 1m")
	fs.StringVar(&r.Node, "node", "", "name of this node (default: NODE_NAME, else the host's name)")
	fs.BoolVar(&r.HostPID, "host-pid", false, "the host's processes are seen (hostPID: true), so the UIDs of the pods that use a GPU can be told by their cgroups")
	fs.StringVar(&r.Kubelet, "pod-resources", "", "path of the kubelet's pod-resources socket, which says which pods hold which GPUs (default: that is not known)")
}

func (r *Reading) check() error {
	switch {
	case r.Node != "" && !IsNode(r.Node):
		return fmt.Errorf("--node %q: %s", r.Node, NodeForm)
	case r.HostPID && r.Kubelet != "":
		return errors.New("--host-pid and --pod-resources: one says which pods use a GPU, the other which hold it; give --pod-resources alone, which knows their names")
	case r.Kubelet != "" && !filepath.IsAbs(r.Kubelet):
		return fmt.Errorf("--pod-resources %q: give an absolute path, such as /var/lib/kubelet/pod-resources/kubelet.sock", r.Kubelet)
	}
	return nil
}

// NodeForm is what a node's name looks like, for messages.
const NodeForm = "no name of a node: it has lower-case letters, digits, dashes and dots, up to 253, and begins and ends with a letter or digit"

var node = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// IsNode reports whether a node can have that name, which is a DNS subdomain.
func IsNode(name string) bool { return len(name) <= 253 && node.MatchString(name) }

// Serve is what the agent is asked when it serves.
type Serve struct {
	Reading
	Listen            string
	CertFile, KeyFile string
	ClientCAFile      string
	Clients           []string
	Accounts          []string
	Audience          string
	MetricsAccounts   []string
	MetricsAudience   string
	MetricsOpen       bool
	IdentityFile      string
	APIServer         string
	APICAFile         string
	APITokenFile      string
	LogLevel          string
	LogFormat         string
}

// Where a pod finds its service account.
const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

// Add declares the flags.
func (s *Serve) Add(fs *pflag.FlagSet) {
	s.add(fs)
	fs.StringVar(&s.Listen, "listen", "127.0.0.1:9443", "address to serve on")
	fs.StringVar(&s.CertFile, "cert-file", "", "PEM certificate chain; needed for any address but loopback")
	fs.StringVar(&s.KeyFile, "key-file", "", "PEM private key")
	fs.StringVar(&s.ClientCAFile, "client-ca-file", "", "PEM certificates of the authorities that vouch for clients")
	fs.StringSliceVar(&s.Clients, "allow-client", nil, "name in the client certificates that may ask; may be repeated")
	fs.StringSliceVar(&s.Accounts, "allow-account", nil, "service account that may ask, NAMESPACE/NAME; may be repeated; the API server checks its tokens")
	fs.StringVar(&s.Audience, "audience", "responder-agent", "audience that callers' tokens must be for")
	fs.StringSliceVar(&s.MetricsAccounts, "allow-metrics", nil, "service account that may read /metrics and nothing else, NAMESPACE/NAME; may be repeated")
	fs.StringVar(&s.MetricsAudience, "metrics-audience", "", "audience that its tokens must be for (default: the API server's own, as every pod's usual token is)")
	fs.BoolVar(&s.MetricsOpen, "metrics-open", false, "let everybody read /metrics, which names the pods that hold GPUs")
	fs.StringVar(&s.IdentityFile, "identity-file", "", "file with a token of this pod's own service account, which proves to callers which node this is")
	fs.StringVar(&s.APIServer, "api-server", "", "URL of the API server that checks tokens (default: the pod's own)")
	fs.StringVar(&s.APICAFile, "api-ca-file", account+"ca.crt", "PEM certificates that vouch for it")
	fs.StringVar(&s.APITokenFile, "api-token-file", account+"token", "token to ask it with")
	fs.StringVar(&s.LogLevel, "log-level", "info", "least severity that is logged: debug, info, warn, error")
	fs.StringVar(&s.LogFormat, "log-format", "text", "text for people, json for collectors")
}

// Check reports which value cannot be.
func (s *Serve) Check() error {
	var level slog.Level
	switch {
	case level.UnmarshalText([]byte(s.LogLevel)) != nil:
		return fmt.Errorf("--log-level %q: there is debug, info, warn, error", s.LogLevel)
	case s.LogFormat != "text" && s.LogFormat != "json":
		return fmt.Errorf("--log-format %q: there is text, json", s.LogFormat)
	case s.MetricsOpen && len(s.MetricsAccounts) > 0:
		return errors.New("--metrics-open and --allow-metrics: everybody, or only these; keep one")
	case s.MetricsAudience != "" && len(s.MetricsAccounts) == 0:
		return errors.New("--metrics-audience: of whose tokens? --allow-metrics names the accounts")
	}
	return s.check()
}

// Probe is what the agent is asked when it looks once.
type Probe struct {
	Reading
	For    time.Duration
	Output string
}

// Add declares the flags.
func (p *Probe) Add(fs *pflag.FlagSet) {
	p.add(fs)
	fs.DurationVar(&p.For, "for", 2*time.Minute+5*time.Second, "how long to watch")
	fs.StringVarP(&p.Output, "output", "o", "table", "how to print: table or json")
}

// Check reports which value cannot be.
func (p *Probe) Check() error {
	switch {
	case p.For <= 0:
		return fmt.Errorf("--for %s: it must be more than nothing", p.For)
	case p.Output != "table" && p.Output != "json":
		return fmt.Errorf("-o %q: there is table, json", p.Output)
	}
	return p.check()
}
