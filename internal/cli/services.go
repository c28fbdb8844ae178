package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
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
that.`,
		Example: `  responder services
  responder services serving/chat
  responder services -o yaml`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return showService(cmd.Context(), p, &c, &out, args[0])
			}
			var answer api.ServiceList
			if err := c.Get(cmd.Context(), client.ServicesPath, nil, &answer); err != nil {
				return err
			}
			return out.PrintTable(p.Stdout, answer.Services, serviceTable(answer.Services))
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

// showService prints one service. Only the answer about one tells whether Responder can act
// on it.
func showService(ctx context.Context, p *command.Process, c *client.Client, out *command.Output, name string) error {
	var answer api.ServiceList
	if err := c.Get(ctx, client.ServicesPath, url.Values{"service": {name}}, &answer); err != nil {
		return err
	}
	// A service of an older version does not know the parameter, and answers with all.
	i := slices.IndexFunc(answer.Services, func(s api.Service) bool { return s.Service == name })
	if i < 0 {
		if err := c.Get(ctx, client.ServicesPath, nil, &answer); err != nil {
			return err
		}
		var names []string
		for _, s := range answer.Services {
			names = append(names, s.Service)
		}
		return unknownName("service", name, names)
	}
	s := answer.Services[i]
	if out.Names() {
		return out.PrintTable(p.Stdout, s, serviceTable([]api.Service{s}))
	}
	return out.Print(p.Stdout, s, func(w io.Writer) error { return writeService(w, s) })
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
	if s.Arming == nil {
		line("")
		line("This server does not report whether Responder can act on the service. It may be an older version.")
	} else {
		arming := runview.ArmingOf(*s.Arming)
		line("")
		line(arming.Line)
		for _, r := range arming.Reasons {
			line("")
			line(r.Why)
			line("  what to do: " + r.Do)
		}
		line("")
		line(runview.Unlooked)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func serviceTable(services []api.Service) *runview.Table {
	t := &runview.Table{
		Columns: []runview.Column{
			{Head: "SERVICE", Flex: true},
			{Head: "WORKLOAD", Flex: true},
			{Head: "ENGINE"},
			{Head: "AUTONOMY"},

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
		t.Add(s.Service, s.Workload.Kind+" "+s.Workload.Name, s.Engine, s.Autonomy, strings.Join(levels, ","), strings.Join(s.Owners, ","),
			fmt.Sprint(s.MinReady), fmt.Sprint(s.MaxScale), s.Model, s.Selector)
	}
	return t
}
