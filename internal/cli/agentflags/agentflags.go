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
	ServeShort = "Serve the health of this node's GPUs"
	ServeLong  = `Read the GPUs of this node through NVIDIA's driver library and serve their state
over HTTP. Callers of /v1/health and /metrics have to authenticate; /healthz is
open to everybody. The agent changes nothing. deploy/agent runs it as a DaemonSet.

/metrics names the pods that hold GPUs. Only the service accounts of
--allow-metrics and the client certificates of --allow-client may read it, unless
--metrics-open opens it to everybody who reaches the address. An agent on loopback
without any of the --allow flags does not authenticate its callers.

A driver call that hangs makes its GPU unknown within a second and delays no
answer. Without the driver library the agent serves too, and reports that the
library is missing.

The agent is a separate program, responder-agent, because it needs a tenth of the
memory. 'responder agent' starts the responder-agent in the directory of responder.

Environment:
  NODE_NAME               name of this node, unless --node is given
  NVIDIA_VISIBLE_DEVICES  unless it is empty or all, a GPU on the PCI bus that the
                          driver does not list is not reported as missing

Exit codes:
  0  stopped by a signal
  1  could not start, or failed`
	ServeExample = `  responder agent --listen 127.0.0.1:9443
  responder agent --listen :9443 --cert-file tls.crt --key-file tls.key --allow-account responder/responder --identity-file identity
  responder agent --listen :9443 --cert-file tls.crt --key-file tls.key --client-ca-file ca.crt --allow-client responder`

	ProbeShort = "Judge this machine's GPUs once and print the verdicts"
	ProbeLong  = `Watch this machine's GPUs and print a verdict for each, with the rules behind it.
It needs no cluster and no configuration. A verdict needs two minutes of history.
With a shorter --for, the readings are printed with the verdict unknown, except
for GPUs that are plainly broken.

Exit codes:
  0  every GPU is healthy or busy
  1  at least one is not, or no GPU could be read`
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
	fs.BoolVar(&r.HostPID, "host-pid", false, "find the UIDs of the pods that use a GPU by the cgroups of their processes; the pod needs hostPID: true")
	fs.StringVar(&r.Kubelet, "pod-resources", "", "path of the kubelet's pod-resources socket, to find which pods hold which GPUs (default: none, and pods are not known)")
}

func (r *Reading) check() error {
	switch {
	case r.Node != "" && !IsNode(r.Node):
		return fmt.Errorf("--node %q: %s", r.Node, NodeForm)
	case r.HostPID && r.Kubelet != "":
		return errors.New("--host-pid and --pod-resources exclude each other; prefer --pod-resources, which knows the names of pods")
	case r.Kubelet != "" && !filepath.IsAbs(r.Kubelet):
		return fmt.Errorf("--pod-resources %q: give an absolute path, such as /var/lib/kubelet/pod-resources/kubelet.sock", r.Kubelet)
	}
	return nil
}

// NodeForm is what a node's name looks like, for messages.
const NodeForm = "not the name of a node: a name has lower-case letters, digits, dashes and dots, up to 253, and begins and ends with a letter or digit"

var node = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// IsNode reports whether a node can have that name, which is a DNS subdomain.
func IsNode(name string) bool { return len(name) <= 253 && node.MatchString(name) }

// Serve holds the flags of the agent.
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
	fs.StringVar(&s.ClientCAFile, "client-ca-file", "", "PEM CA certificates of clients")
	fs.StringSliceVar(&s.Clients, "allow-client", nil, "common name of a client certificate whose holder may call, or KIND:NAME with dns, email or uri as the kind; may be repeated")
	fs.StringSliceVar(&s.Accounts, "allow-account", nil, "service account that may call, NAMESPACE/NAME; the API server checks its tokens; may be repeated")
	fs.StringVar(&s.Audience, "audience", "responder-agent", "audience that callers' tokens must be for")
	fs.StringSliceVar(&s.MetricsAccounts, "allow-metrics", nil, "service account that may read /metrics and nothing else, NAMESPACE/NAME; may be repeated")
	fs.StringVar(&s.MetricsAudience, "metrics-audience", "", "audience that the tokens of --allow-metrics must be for (default: the API server's own, which a pod's usual token has)")
	fs.BoolVar(&s.MetricsOpen, "metrics-open", false, "let everybody read /metrics")
	fs.StringVar(&s.IdentityFile, "identity-file", "", "file with a token of this pod's own service account, which proves to callers which node this is")
	fs.StringVar(&s.APIServer, "api-server", "", "URL of the API server that checks tokens (default: the pod's own)")
	fs.StringVar(&s.APICAFile, "api-ca-file", account+"ca.crt", "PEM CA certificates of the API server")
	fs.StringVar(&s.APITokenFile, "api-token-file", account+"token", "file with the token for the API server")
	fs.StringVar(&s.LogLevel, "log-level", "info", "least severity that is logged: debug, info, warn, error")
	fs.StringVar(&s.LogFormat, "log-format", "text", "text for people, json for collectors")
}

// Check returns an error for an invalid value.
func (s *Serve) Check() error {
	var level slog.Level
	switch {
	case level.UnmarshalText([]byte(s.LogLevel)) != nil:
		return fmt.Errorf("--log-level %q: want debug, info, warn or error", s.LogLevel)
	case s.LogFormat != "text" && s.LogFormat != "json":
		return fmt.Errorf("--log-format %q: want text or json", s.LogFormat)
	case s.MetricsOpen && len(s.MetricsAccounts) > 0:
		return errors.New("--metrics-open and --allow-metrics exclude each other; keep one")
	case s.MetricsAudience != "" && len(s.MetricsAccounts) == 0:
		return errors.New("missing --allow-metrics: --metrics-audience is for the tokens of these accounts")
	}
	return s.check()
}

// Probe holds the flags of agent probe.
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

// Check returns an error for an invalid value.
func (p *Probe) Check() error {
	switch {
	case p.For <= 0:
		return fmt.Errorf("--for %s: want a positive duration", p.For)
	case p.Output != "table" && p.Output != "json":
		return fmt.Errorf("-o %q: want table or json", p.Output)
	}
	return p.check()
}
