package cli

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/app/cluster"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/spf13/cobra"
)

func newConfigCommand(p *command.Process) *cobra.Command {
	return group("config", "Check the configuration, and name the services that commands ask",
		newConfigCheckCommand(p), newConfigGetContextsCommand(p), newConfigSetContextCommand(p), newConfigUseContextCommand(p))
}

func newConfigCheckCommand(p *command.Process) *cobra.Command {
	var out command.Output
	var file string
	cmd := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Check a configuration as the service does when it starts, and connect to nothing",
		Args:  none,
		Example: `  responder config check --config responder.yaml
  responder config check --config responder.yaml -o json`,
		RunE: func(*cobra.Command, []string) error {
			summary, err := app.CheckConfig(file, func(c config.Config) (app.World, error) {
				return cluster.Open(c, p.Temp.Dir, slog.New(slog.DiscardHandler))
			})
			if err != nil {
				return err
			}
			return out.Print(p.Stdout, summary, func(w io.Writer) error { return writeConfigSummary(w, summary) })
		},
	}
	cmd.Flags().StringVar(&file, "config", "responder.yaml", "configuration file")
	out.AddFlag(cmd)
	return cmd
}

// summaryIndent is where values stand in the summary.
const summaryIndent = 14

// policyLines describes the policy for people: the file, and below it who may break the
// glass by which rule.
func policyLines(s *api.ConfigPolicy) []string {
	if s == nil {
		return []string{"none: playbooks, services and guards alone decide"}
	}
	out := []string{fmt.Sprintf("%s, %s", s.File, runview.Count(s.Rules, "rule"))}
	for _, r := range s.BreakGlass {
		who := fmt.Sprintf("alone, with a reason: %s\n(%s)", strings.Join(r.BreakGlass, ", "), r.Place)
		out = append(out, runview.Wrap(runview.Printable(who), runview.Width-summaryIndent)...)
	}
	return out
}

// playbookLines counts the playbooks, and lists the levels that the configuration sets
// for them.
func playbookLines(s api.ConfigCheck) []string {
	out := []string{fmt.Sprint(s.Playbooks)}
	for _, l := range s.Levels {
		out = append(out, runview.Wrap(runview.Printable(l), runview.Width-summaryIndent)...)
	}
	return out
}

// rightsLines lists who has which right; those that are the same share a line.
func rightsLines(s api.ConfigCheck) []string {
	var who []string
	of := map[string][]string{}
	for _, r := range s.Rights {
		whose := runview.OrText(strings.Join(r.Who, ", "), "nobody")
		if len(of[whose]) == 0 {
			who = append(who, whose)
		}
		of[whose] = append(of[whose], r.Right)
	}
	var out []string
	for _, w := range who {
		out = append(out, runview.Wrap(runview.Printable(strings.Join(of[w], ", ")+": "+w), runview.Width-summaryIndent)...)
	}
	return out
}

func archiveLine(s api.ConfigCheck) string {
	if s.Archive == "" {
		return "none: the journal keeps everything and grows (journal.archive)"
	}
	return fmt.Sprintf("%s, of what is older than %s", s.Archive, s.Keep)
}

// incidentLine describes incident.window.
func incidentLine(s api.ConfigCheck) string {
	if s.IncidentWindow == "" {
		return "over with its run: further alerts start another one at once\n" + strings.Repeat(" ", summaryIndent) + "(incident.window)"
	}
	return fmt.Sprintf("for %s after a run that ended with people, further alerts about\n%sits service start no other one (incident.window)", s.IncidentWindow, strings.Repeat(" ", summaryIndent))
}

// objectiveLines says which services are judged by the defaults.
func objectiveLines(s api.ConfigCheck) []string {
	const most = 5
	defaults := "the defaults (" + strings.Join(s.DefaultSLOs, ", ") + ")"
	text := "declared by every service"
	switch n := len(s.Defaulted); {
	case n > most:
		text = fmt.Sprintf("%s for %s: %s and %d more", defaults, runview.Count(n, "service"), strings.Join(s.Defaulted[:most], ", "), n-most)
	case n > 0:
		text = fmt.Sprintf("%s for %s: %s", defaults, runview.Count(n, "service"), strings.Join(s.Defaulted, ", "))
	case s.Services == 0:
		text = defaults + " for services that declare none"
	}
	return runview.Wrap(runview.Printable(text), runview.Width-summaryIndent)
}

func writeConfigSummary(w io.Writer, s api.ConfigCheck) error {
	services := runview.Count(s.Services, "service")
	switch {
	case s.Discovery && len(s.DiscoveryNamespaces) > 0:
		services += ", and those found in " + strings.Join(s.DiscoveryNamespaces, ", ")
	case s.Discovery:
		services += ", and those found in the cluster"
	}
	lines := []struct{ name, text string }{
		{"listen", s.Listen},
		{"autonomy", "at most " + s.Autonomy},
		{"services", services},
		{"objectives", strings.Join(objectiveLines(s), "\n"+strings.Repeat(" ", summaryIndent))},
		{"incident", incidentLine(s)},
		{"node pools", runview.OrText(strings.Join(s.NodePools, "\n"+strings.Repeat(" ", summaryIndent)), "none: the owners of a service decide about its nodes")},
		{"playbooks", strings.Join(playbookLines(s), "\n"+strings.Repeat(" ", summaryIndent))},
		{"policy", strings.Join(policyLines(s.Policy), "\n"+strings.Repeat(" ", summaryIndent))},
		{"rights", strings.Join(rightsLines(s), "\n"+strings.Repeat(" ", summaryIndent))},
		{"prometheus", runview.OrText(s.Prometheus, "none: no PromQL, so nothing can be verified")},
		{"cluster", runview.OrText(s.Cluster, "none: no kube checks and levers")},
		{"git", runview.OrText(strings.Join(s.Repositories, "\n"+strings.Repeat(" ", summaryIndent)), "none: what Git owns is not changed")},
		{"argo cd", runview.OrText(s.ArgoCD, "none: commits cannot be followed")},
		{"archive", archiveLine(s)},
		{"channels", runview.OrText(strings.Join(s.Channels, ", "), "none beside the log")},
	}
	verdict := "is good"
	if len(s.Warnings) > 0 {
		verdict = "can be started with, but mind what follows"
	}
	fmt.Fprintf(w, "%s %s\n", s.File, verdict)
	for _, warning := range s.Warnings {
		text := strings.Join(runview.Wrap(runview.Printable(warning), runview.Width-summaryIndent), "\n"+strings.Repeat(" ", summaryIndent))
		fmt.Fprintf(w, "  %-*s%s\n", summaryIndent-2, "WARNING", text)
	}
	for _, l := range lines {
		if _, err := fmt.Fprintf(w, "  %-*s%s\n", summaryIndent-2, l.name, l.text); err != nil {
			return err
		}
	}
	return nil
}
