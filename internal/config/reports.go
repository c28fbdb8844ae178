package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/setting"
	"github.com/inference-responder/responder/internal/spelling"
)

// checkReports reports what is wrong with the reports: each block by itself, and what it
// names elsewhere.
func (c *Config) checkReports(bad setting.Report) {
	names := map[string]string{}
	for i, r := range c.Reports {
		path := fmt.Sprintf("reports[%d]", i)
		r.Check(path, bad)
		if other, dup := names[r.Name]; dup {
			bad(path+".name", "give each report a name of its own", "%q is also the name of %s", r.Name, other)
		}
		names[r.Name] = path
		for j, to := range r.To {
			c.checkReader(fmt.Sprintf("%s.to[%d]", path, j), to, bad)
		}
		for j, name := range r.Services {
			c.checkReported(fmt.Sprintf("%s.services[%d]", path, j), name, bad)
		}
	}
}

// checkReader checks a channel that a report goes to.
func (c *Config) checkReader(path, name string, bad setting.Report) {
	var known []string
	for _, ch := range c.Channels {
		if ch.Name == name && ch.PagerDuty != nil {
			bad(path, "name a channel of Slack or a webhook", "channel %q would page people for a report", name)
		}
		known = append(known, ch.Name)
	}
	if !slices.Contains(known, name) {
		bad(path, oneOf(name, known), "no channel is called %.60q", name)
	}
}

// checkReported checks a service that a report is about. Which services discovery finds is
// not known here.
func (c *Config) checkReported(path, name string, bad setting.Report) {
	var known []string
	for _, s := range c.Services {
		known = append(known, s.ServiceName())
	}
	if !c.Discovery.Enabled && !slices.Contains(known, name) {
		bad(path, oneOf(name, known), "no service is called %.60q: its report would be empty", name)
	}
}

// oneOf is the hint of what a name can be.
func oneOf(name string, known []string) string {
	hint := "allowed: " + strings.Join(known[:min(len(known), 10)], ", ")
	if len(known) == 0 {
		hint = "there are none"
	}
	if near := spelling.Nearest(name, known); near != "" {
		hint = fmt.Sprintf("did you mean %q? ", near) + hint
	}
	return hint
}
