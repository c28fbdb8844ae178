package cli

import (
	"fmt"
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
	table := func(l api.ServiceList) (any, *runview.Table) { return l.Services, serviceTable(l.Services) }
	return listing(p, client.ServicesPath, table, &cobra.Command{
		Use:   "services",
		Short: "List the service catalog of a running service",
		Example: `  responder services
  responder services -o yaml`,
	})
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
