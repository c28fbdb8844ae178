package cli

import (
	"fmt"

	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/spf13/cobra"
)

func newCompletionCommand(p *command.Process) *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "Print the completion script of a shell",
		Args:      one("the shell: bash, zsh or fish"),
		ValidArgs: []string{"bash", "zsh", "fish"},
		Example: `  source <(responder completion bash)
  responder completion zsh > "${fpath[1]}/_responder"
  responder completion fish > ~/.config/fish/completions/responder.fish`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch root := cmd.Root(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(p.Stdout, true)
			case "zsh":
				return root.GenZshCompletion(p.Stdout)
			case "fish":
				return root.GenFishCompletion(p.Stdout, true)
			default:
				return fmt.Errorf("no completion for %q; give bash, zsh or fish", args[0])
			}
		},
	}
}
