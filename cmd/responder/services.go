package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/webhook"
)

func newServicesCommand(p *process) *cobra.Command {
	c := client{process: p}
	var out output
	cmd := &cobra.Command{
		Use:   "services",
		Short: "List the service catalog of a running service",
		Args:  none,
		Example: `  responder services
  responder services -o yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var answer webhook.ServiceList
			if err := c.get(cmd.Context(), servicesPath, nil, &answer); err != nil {
				return err
			}
			return out.printTable(p.stdout, answer.Services, serviceTable(answer.Services))
		},
	}
	c.addFlags(cmd)
	out.addFlag(cmd)
	return cmd
}

func serviceTable(services []playbook.Service) *table {
	t := &table{
		columns: []column{
			{head: "SERVICE", flex: true},
			{head: "WORKLOAD", flex: true},
			{head: "ENGINE"},
			{head: "AUTONOMY"},

			{head: "OWNERS", wide: true},
			{head: "MIN READY", wide: true},
			{head: "MAX SCALE", wide: true},
			{head: "MODEL", wide: true},
			{head: "SELECTOR", wide: true},
		},
		empty: "no services: configure them under services, or switch discovery on",
	}
	for _, s := range services {
		t.add(s.Name, s.Workload.Kind+" "+s.Workload.Name, s.Engine, s.Autonomy.String(), strings.Join(s.Owners, ","),
			fmt.Sprint(s.MinReady), fmt.Sprint(s.MaxScale), s.Model, s.Selector)
	}
	return t
}
