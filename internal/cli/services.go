package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
)

func newServicesCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var out command.Output
	cmd := &cobra.Command{
		Use:   "services [NAME]",
		Short: "List the service catalog of a running service, or show whether it can act on one",
		Long: `List the service catalog of a running service. With a name, show that service: whether
Responder can act on it, which playbooks do, why others do not, and what to do about
that. The running service answers with what it knows by itself: rights in the cluster
and series in Prometheus are what 'responder doctor' looks at.`,
		Example: `  responder services
  responder services serving/chat
  responder services -o yaml`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			var answer api.ServiceList
			if err := c.Get(cmd.Context(), client.ServicesPath, nil, &answer); err != nil {
				return err
			}
			if len(args) == 0 {
				return out.PrintTable(p.Stdout, answer.Services, serviceTable(answer.Services))
			}
			s, err := serviceNamed(answer.Services, args[0])
			if err != nil {
				return err
			}
			return out.Print(p.Stdout, s, func(w io.Writer) error { return writeService(w, s) })
		},
	}
	c.AddFlags(cmd)
	out.AddTableFlag(cmd)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return servedServices(cmd.Context(), &c), cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

func serviceNamed(all []api.Service, name string) (api.Service, error) {
	var names []string
	for _, s := range all {
		if s.Service == name {
			return s, nil
		}
		names = append(names, s.Service)
	}
	return api.Service{}, unknownName("service", name, names)
}

// writeService prints a service, and whether Responder can act on it.
func writeService(w io.Writer, s api.Service) error {
	var b strings.Builder
	line := func(text string) {
		b.WriteString(strings.Join(runview.Wrap(runview.Printable(text), runview.Width), "\n") + "\n")
	}
	var about []string
	for _, part := range []string{s.Workload.Kind + " " + s.Workload.Name, s.Engine, s.Model, "autonomy " + s.Autonomy, "owners " + runview.OrText(strings.Join(s.Owners, ", "), "nobody")} {
		if part != "" {
			about = append(about, part)
		}
	}
	line(s.Service + ": " + strings.Join(about, ", "))
	if s.Arming != nil {
		arming := runview.ArmingOf(*s.Arming)
		line("")
		line(arming.Line)
		for _, r := range arming.Reasons {
			line("")
			line(r.Why)
			line("  what to do: " + r.Do)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// armed tells in a word whether Responder can act on a service; empty: it is not told.
func armed(s api.Service) string {
	if s.Arming == nil {
		return ""
	}
	return runview.ArmingOf(*s.Arming).Word
}

func serviceTable(services []api.Service) *runview.Table {
	t := &runview.Table{
		Columns: []runview.Column{
			{Head: "SERVICE", Flex: true},
			{Head: "WORKLOAD", Flex: true},
			{Head: "ENGINE"},
			{Head: "AUTONOMY"},
			{Head: "ARMED"},

			{Head: "AUTONOMY OF", Wide: true},
			{Head: "OWNERS", Wide: true},
			{Head: "MIN READY", Wide: true},
			{Head: "MAX SCALE", Wide: true},
			{Head: "MODEL", Wide: true},
			{Head: "SELECTOR", Wide: true},
		},
		Empty: "no services: configure them under services, or switch discovery on",
	}
	for _, s := range services {
		var levels []string
		for _, name := range slices.Sorted(maps.Keys(s.AutonomyOf)) {
			levels = append(levels, name+" "+s.AutonomyOf[name])
		}
		t.Add(s.Service, s.Workload.Kind+" "+s.Workload.Name, s.Engine, s.Autonomy, armed(s), strings.Join(levels, ","), strings.Join(s.Owners, ","),
			fmt.Sprint(s.MinReady), fmt.Sprint(s.MaxScale), s.Model, s.Selector)
	}
	return t
}
