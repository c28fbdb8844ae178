package config

import (
	"regexp"

	"github.com/inference-responder/responder/internal/gpu/repair"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/setting"
)

// GPU is where the state of GPUs is read.
type GPU struct {
	Agents Agents `yaml:"agents" doc:"The node agents, found through the API server."`
	DCGM   DCGM   `yaml:"dcgm" doc:"Series of dcgm-exporter in Prometheus, about nodes without a node agent."`

	Repairs repair.Config `yaml:"repairs" doc:"Whoever repairs GPUs, for gpu.reset_request. Left out: it asks by a label on the node."`
}

// DCGM reads the series of dcgm-exporter.
type DCGM struct {
	Enabled   bool   `yaml:"enabled" doc:"Ask for them. A GPU is judged healthy only where the exporter is told to give DCGM_FI_DEV_CLOCKS_EVENT_REASONS, DCGM_FI_DEV_ECC_DBE_VOL_TOTAL and DCGM_FI_DEV_ROW_REMAP_PENDING too, which it does not by default; otherwise it is unknown, or worse. node.uncordon asks for DCGM_FI_DEV_SLOWDOWN_TEMP or DCGM_FI_DEV_GPU_MAX_OP_TEMP as well, and Prometheus for DCGM_FI_DEV_XID_ERRORS of all the time that the node was out, also of one whose agent has forgotten it."`
	NodeLabel string `yaml:"node_label" doc:"Label with the name of the node as Kubernetes has it. Default: Hostname, which is that where the exporter's NODE_NAME is set."`
	Selector  string `yaml:"selector" doc:"More label matchers, without braces, e.g. job=\"dcgm-exporter\"."`
}

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// checkGPU finds what is wrong with it.
func (c *Config) checkGPU(bad setting.Report) {
	c.checkAgents(bad)
	c.GPU.Repairs.Check("gpu.repairs", bad)
	d := c.GPU.DCGM
	if d.Enabled && c.Prometheus.URL == "" {
		bad("gpu.dcgm.enabled", "set prometheus.url", "there is no Prometheus to ask")
	}
	if d.NodeLabel != "" && !labelName.MatchString(d.NodeLabel) {
		bad("gpu.dcgm.node_label", "e.g. Hostname or node", "%q is no name of a label", runview.Cut(d.NodeLabel, 100))
	}
	if d.Selector != "" {
		clean, err := playbook.CleanSelector(d.Selector)
		if err != nil {
			bad("gpu.dcgm.selector", `write it like job="dcgm-exporter"`, "%v", err)
		}
		c.GPU.DCGM.Selector = clean
	}
}
