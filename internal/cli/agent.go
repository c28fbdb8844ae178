package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/inference-responder/responder/internal/cli/agentflags"
)

// newAgentCommand stands for the agent, which is a program of its own: see
// docs/decisions/0012-the-agent-is-a-program-of-its-own.md.
func newAgentCommand() *cobra.Command {
	var serve agentflags.Serve
	cmd := &cobra.Command{
		Use: "agent", Short: agentflags.ServeShort, Long: agentflags.ServeLong, Example: agentflags.ServeExample, Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := serve.Check(); err != nil {
				return err
			}
			return startAgent(cmd)
		},
	}
	serve.Add(cmd.Flags())

	var probe agentflags.Probe
	sub := &cobra.Command{
		Use: "probe", Short: agentflags.ProbeShort, Long: agentflags.ProbeLong, Example: agentflags.ProbeExample, Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := probe.Check(); err != nil {
				return err
			}
			return startAgent(cmd, "probe")
		},
	}
	probe.Add(sub.Flags())
	cmd.AddCommand(sub)
	return cmd
}

// startAgent becomes the agent: this process goes on as that program, with
// the flags that were given.
func startAgent(cmd *cobra.Command, verb ...string) error {
	path, err := findAgent()
	if err != nil {
		return err
	}
	args := append([]string{path}, verb...)
	cmd.Flags().Visit(func(f *pflag.Flag) { // those that were given
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			args = append(args, "--"+f.Name+"="+v)
		}
	})
	if err := syscall.Exec(path, args, os.Environ()); err != nil {
		return fmt.Errorf("start %s: %w", path, err)
	}
	return nil // unreachable: this process is another program now
}

// findAgent is the agent's program: beside this one, or in PATH.
func findAgent() (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), agentflags.Binary)
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath(agentflags.Binary)
	if err != nil {
		return "", errors.New("the agent is a program of its own, and there is no " + agentflags.Binary + " beside this one or in PATH; make build builds both")
	}
	return path, nil
}
