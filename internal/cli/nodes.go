package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
)

func newNodesCommand(p *command.Process) *cobra.Command {
	return group("nodes", "Nodes of services, what Responder took out, and the health of their GPUs", newNodesListCommand(p))
}

const nodesListLong = `List the nodes on which services of the catalog have pods, and those that Responder
took out of service. Those that are out or at fault come first.

STATE tells whether a node is ready and who keeps pods off it; OUT FOR is the time
since Responder took it out. GPUS is the verdict of the check gpu.health about the
whole node; none means that the cluster shows no GPUs on it. What cannot be read is
unknown, with the reason. Below the table is why: what a return waits for, who else
works on the node, and the findings about its GPUs.

The service reads the cluster at most every 30 seconds, and lists at most 200 nodes.`

func newNodesListCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var out command.Output
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the nodes of services: who took which out, and what its return waits for",
		Long:  nodesListLong,
		Args:  none,
		Example: `  responder nodes list
  responder nodes list -o wide
  responder nodes list -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var answer api.NodeList
			if err := c.Get(cmd.Context(), client.NodesPath, nil, &answer); err != nil {
				return err
			}
			return out.Print(p.Stdout, answer, func(w io.Writer) error { return writeNodes(w, answer, out.Wide()) })
		},
	}
	c.AddFlags(cmd)
	out.AddFlag(cmd)
	return cmd
}

func writeNodes(w io.Writer, list api.NodeList, wide bool) error {
	if err := runview.NodeTable(list).Write(w, wide); err != nil {
		return err
	}
	if list.More > 0 {
		if _, err := fmt.Fprintf(w, "%s more.\n", runview.Count(list.More, "node")); err != nil {
			return err
		}
	}
	for _, n := range list.Nodes {
		if _, err := io.WriteString(w, runview.NodeWhy(n)); err != nil {
			return err
		}
	}
	for i, u := range list.Unknown {
		head := ""
		if i == 0 {
			head = "\nNot known, so that nodes or services may be missing:\n"
		}
		if _, err := fmt.Fprintf(w, "%s  %s\n", head, runview.Inline(u)); err != nil {
			return err
		}
	}
	return nil
}
