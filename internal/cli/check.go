package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
)

// checkCommand completes a command that checks what the configuration names
// outside. check is bounded by within.
func checkCommand(p *command.Process, cmd *cobra.Command, within time.Duration, check func(ctx context.Context, file string) ([]app.Finding, error)) *cobra.Command {
	var out command.Output
	var file string
	cmd.Use, cmd.Args = "check --config FILE", none
	cmd.Long += `

Exit codes:
  0  everything works
  1  something does not; the table says what to do`
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), within)
		defer cancel()
		findings, err := check(ctx, file)
		if err != nil {
			return err
		}
		if err := out.Print(p.Stdout, findings, func(w io.Writer) error { return writeChecks(w, findings, out.Wide()) }); err != nil {
			return err
		}
		if slices.ContainsFunc(findings, func(f app.Finding) bool { return !f.OK }) {
			return command.ExitCode(command.ExitError)
		}
		return nil
	}
	cmd.Flags().StringVar(&file, "config", "responder.yaml", "configuration file")
	out.AddFlag(cmd)
	return cmd
}

// writeChecks writes a table, and below it what to do about each failure.
func writeChecks(w io.Writer, findings []app.Finding, wide bool) error {
	t := runview.Table{Columns: []runview.Column{{Head: "CHECK"}, {Head: "RESULT"}, {Head: "DETAIL", Flex: true}}}
	var fixes []string
	for _, f := range findings {
		result := "ok"
		if !f.OK {
			result = "FAILED"
			fixes = append(fixes, f.Name+": "+f.Detail+"\n  "+f.Fix)
		}
		t.Add(f.Name, result, runview.Printable(f.Detail))
	}
	if err := t.Write(w, wide); err != nil {
		return err
	}
	for _, fix := range fixes {
		if _, err := fmt.Fprintf(w, "\n%s\n", fix); err != nil {
			return err
		}
	}
	return nil
}
