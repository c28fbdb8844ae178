package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/policy"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/yamldoc"
)

func newPolicyCommand(p *process) *cobra.Command {
	return group("policy", "Check, test and explain the rules over all playbooks",
		newPolicyLintCommand(p), newPolicyTestCommand(p), newPolicyExplainCommand(p), newPolicySchemaCommand(p))
}

// loadPolicy reads and compiles a policy file.
func loadPolicy(file string) (*policy.Set, error) {
	data, err := readPolicyFile(file)
	if err != nil {
		return nil, err
	}
	return policy.Compile(file, data, step.Kinds())
}

// loadPolicyTable reads a file of tests.
func loadPolicyTable(file string) (*policy.Table, error) {
	data, err := readPolicyFile(file)
	if err != nil {
		return nil, err
	}
	return policy.CompileTable(file, data, step.Kinds())
}

func readPolicyFile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read policy: %w; name a file that is there (policy.file counts from the configuration's directory)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	defer f.Close()
	// One byte more, so that the parser says it is too big.
	data, err := io.ReadAll(io.LimitReader(f, yamldoc.MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read policy %s: %w", file, err)
	}
	return data, nil
}

func newPolicySchemaCommand(p *process) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of policies, for editors",
		Args:  none,
		Example: `  responder policy schema > policy.schema.json
  # first line of a policy, for editors with a YAML language server:
  # yaml-language-server: $schema=policy.schema.json`,
		RunE: func(*cobra.Command, []string) error {
			_, err := p.stdout.Write(policy.Schema())
			return err
		},
	}
}
