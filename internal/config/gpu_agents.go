package config

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	agents "github.com/inference-responder/responder/internal/gpu/client"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/setting"
)

// Agents reads the node agents.
type Agents struct {
	Enabled    bool          `yaml:"enabled" doc:"Ask them."`
	Namespace  string        `yaml:"namespace" doc:"Namespace of their pods."`
	Selector   string        `yaml:"selector" doc:"Labels of their pods, as a selector."`
	Port       int           `yaml:"port" doc:"Port they listen on."`
	CAFile     string        `yaml:"ca_file" doc:"PEM certificates of the authorities that vouch for the agents' certificates."`
	ServerName string        `yaml:"server_name" doc:"Name that an agent's certificate must have. With {node} in it each node has a certificate of its own, which is then what proves its node."`
	TokenFile  string        `yaml:"token_file" doc:"File with the service account's token that agents are shown: projected, for the audience that they expect. Read again when it changes."`
	CertFile   string        `yaml:"cert_file" doc:"PEM client certificate, instead of a token."`
	KeyFile    string        `yaml:"key_file" doc:"Its key."`
	Audience   string        `yaml:"audience" doc:"Audience of the tokens with which agents prove which pod, and so which node, they are; the API server checks them. Empty: agents show none, and server_name must hold {node}."`
	Timeout    time.Duration `yaml:"timeout" doc:"For one agent to answer. One that does not is unknown."`
	Concurrent int           `yaml:"concurrent" doc:"How many are asked at once."`
}

// agentsWithin is the most time that may be given to one agent: a verdict that
// comes later helps nobody.
const agentsWithin = 30 * time.Second

func defaultAgents() Agents {
	return Agents{
		Namespace: "responder", Selector: "app.kubernetes.io/name=responder-agent", Port: 9443, ServerName: "responder-agent",
		Audience: "responder", Timeout: time.Second, Concurrent: 64,
	}
}

// checkAgents finds what is wrong with it.
func (c *Config) checkAgents(bad setting.Report) {
	a := c.GPU.Agents
	if !a.Enabled {
		return
	}
	if !c.Kubernetes.Configured() {
		bad("gpu.agents.enabled", "set kubernetes", "the agents are found through the API server, and there is none")
	}
	if _, err := labels.Parse(a.Selector); err != nil || a.Selector == "" {
		bad("gpu.agents.selector", "write it like app.kubernetes.io/name=responder-agent", "%q is not a valid label selector", runview.Cut(a.Selector, 100))
	}
	if a.Namespace == "" {
		bad("gpu.agents.namespace", "the one of the DaemonSet", "is empty")
	}
	if a.Port < 1 || a.Port > 65535 {
		bad("gpu.agents.port", "1 to 65535", "%d is no port", a.Port)
	}
	if a.CAFile == "" {
		bad("gpu.agents.ca_file", "use ca.crt of the Secret responder-agent-tls", "is empty, so no agent can be authenticated")
	}
	if a.ServerName == "" {
		bad("gpu.agents.server_name", "e.g. responder-agent", "is empty")
	}
	if a.Audience == "" && !strings.Contains(a.ServerName, agents.NodePlaceholder) {
		bad("gpu.agents.audience", "set it, or put "+agents.NodePlaceholder+" into server_name", "is empty, so one agent could speak for another's node")
	}
	if (a.CertFile == "") != (a.KeyFile == "") {
		bad("gpu.agents.cert_file", "set both cert_file and key_file", "a client certificate needs its key")
	}
	if a.CertFile == "" && a.TokenFile == "" {
		bad("gpu.agents.token_file", "set it, or cert_file and key_file", "agents refuse callers without a credential")
	}
	if a.Timeout < 50*time.Millisecond || a.Timeout > agentsWithin {
		bad("gpu.agents.timeout", "50ms to 30s", "%s is out of range", a.Timeout)
	}
	if a.Concurrent < 1 || a.Concurrent > 1024 {
		bad("gpu.agents.concurrent", "1 to 1024", "%d is out of range", a.Concurrent)
	}
}
