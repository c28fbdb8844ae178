package config

import (
	"strings"
	"testing"
)

func TestAgentsConfiguration(t *testing.T) {
	const base = "auth: {insecure: true}\nkubernetes: {kubeconfig: k}\ngpu: {agents: {enabled: true, ca_file: ca, token_file: token"
	c, err := Parse("dir/r.yaml", []byte(base+"}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if a := c.GPU.Agents; a.CAFile != "dir/ca" || a.TokenFile != "dir/token" || a.Port != 9443 || a.ServerName != "responder-agent" || a.Audience != "responder" {
		t.Errorf("%+v", a)
	}
	for more, want := range map[string]string{
		", selector: 'a b'":               "gpu.agents.selector",
		", port: 0":                       "gpu.agents.port",
		", ca_file: ''":                   "gpu.agents.ca_file: set twice",
		", server_name: ''":               "gpu.agents.server_name",
		", audience: ''":                  "one agent could speak for another's node",
		", cert_file: x":                  "set both cert_file and key_file",
		", timeout: 1ms":                  "gpu.agents.timeout",
		", concurrent: 0":                 "gpu.agents.concurrent",
		", namespace: ''":                 "gpu.agents.namespace",
		", concurent: 3":                  `did you mean "concurrent"?`,
		"}}\nkubernetes: {}\nx: {y: {":    "kubernetes: set twice",
		", audience: '', server_name: ''": "gpu.agents.server_name",
	} {
		if _, err := Parse("r.yaml", []byte(base+more+"}}\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", more, err, want)
		}
	}
	if _, err := Parse("r.yaml", []byte("auth: {insecure: true}\ngpu: {agents: {enabled: true}}\n")); err == nil ||
		!strings.Contains(err.Error(), "gpu.agents.enabled") || !strings.Contains(err.Error(), "gpu.agents.ca_file") || !strings.Contains(err.Error(), "gpu.agents.token_file") {
		t.Errorf("%v", err)
	}
	if _, err := Parse("r.yaml", []byte(base+", audience: '', server_name: '{node}.agents'}}\n")); err != nil {
		t.Error(err)
	}
}
