// Command responder-demo is `responder demo` alone. It links no client of Argo CD, Git or
// a forge, so that a newcomer waits half as long for it to be built.
package main

import (
	"context"
	"strings"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/cli/demo"
)

func main() { command.Main(run) }

func run(ctx context.Context, args []string, p *command.Process) int {
	if len(args) == 3 && args[0] == "internal" && args[1] == "check-journal" { // what the program asks of itself
		return audit.CheckMain(args[2], p.Stderr)
	}
	root := demo.NewCommand(p)
	root.Use = "responder-demo"
	root.Example = strings.ReplaceAll(root.Example, "responder demo", root.Use)
	command.Prepare(root, p)
	return command.Execute(ctx, root, args, p, nil)
}
