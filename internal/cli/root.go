package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/spelling"
)

const rootLong = `Responder receives Alertmanager webhooks for LLM-inference services on
Kubernetes, matches YAML playbooks that encode the on-call runbooks, gathers
evidence, proposes one reversible change at a time, asks a person where policy
says so, applies it, proves with the SLO that it helped, undoes it when it did
not, and records every fact in a log nobody can quietly edit.

Exit codes:
  0  done
  1  an error; stderr says what, where and what to do
  2  dry-run only: a lever would be applied, or proposed for approval
  3  dry-run only: a guard or the lever itself refused
  4  dry-run only: no playbook matched, or no service was found

Environment:
  RESPONDER_SERVER         URL of a running service, for the commands that ask one
  RESPONDER_CA_FILE        file with the CA certificates that vouch for it
  RESPONDER_TOKEN_FILE     file with the bearer token to ask it with
  RESPONDER_TOKEN_COMMAND  program with arguments that prints that token instead
  RESPONDER_USER           user name to ask it with, instead of a token
  RESPONDER_PASSWORD_FILE  file with that user's password
  RESPONDER_CERT_FILE      file with the client certificate to ask it with
  RESPONDER_KEY_FILE       file with that certificate's key
  RESPONDER_PLAINTEXT      true: a token or password may go over plain http to another machine

Flags come before --context, which comes before the environment, which comes before
the current context ('responder config use-context'). The service of a context is
sent no credential of the environment. Of the environment only RESPONDER_CA_FILE,
where the context names no CA, and RESPONDER_PLAINTEXT count for it.`

// newRootCommand builds the tree of commands: one file per command, named
// after it.
func newRootCommand(p *command.Process) *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "responder",
		Short: "Guarded, reversible, SLO-verified fixes for inference alerts",
		Long:  rootLong,
		Args:  knownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return app.ReadBuildInfo().Write(p.Stdout)
			}
			return cmd.Help()
		},
		Example: `  responder demo
  responder serve --sandbox
  responder dry-run -f notification.json --config responder.yaml
  responder runs list --server https://responder.example:8443 --token-file ada.token
  responder runs list --server https://responder.example:8443 --user ada --password-file ada.password
  responder runs list --server https://responder.example:8443 --cert-file ada.crt --key-file ada.key --ca-file ca.crt`,
	}
	command.Prepare(root, p)
	// cobra's own flag of this name prints a template.
	root.Flags().BoolVar(&version, "version", false, "print what this binary was built from, as 'responder version' does")
	root.SetHelpCommand(newHelpCommand())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// The flags of a command that is none are unknown, too: that it is none comes first.
		if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
			return unknownVerb(cmd, args[0])
		}
		return command.FlagError(cmd, err)
	})
	root.AddCommand(commands(p)...)
	return root
}

// newHelpCommand is another way to write --help.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "help [COMMAND]...",
		Short:  "Describe a command",
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			switch {
			case err != nil:
				return err
			case len(rest) > 0:
				return unknownVerb(found, rest[0])
			}
			return found.Help()
		},
	}
}

// missing is the error of an argument that is not given.
func missing(argument string) error { return errors.New("missing argument: " + argument) }

// one takes exactly one argument.
func one(argument string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0, args[0] == "":
			return missing(argument)
		case len(args) > 1:
			return fmt.Errorf("unexpected argument %q; write '%s'", args[1], cmd.UseLine())
		default:
			return nil
		}
	}
}

// listing completes a command that asks the service for path and prints the answer. table
// returns what -o prints as JSON or YAML, and its table.
func listing[T any](p *command.Process, path string, table func(T) (any, *runview.Table), cmd *cobra.Command) *cobra.Command {
	c := client.Client{Process: p}
	var out command.Output
	cmd.Args = none
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var answer T
		if err := c.Get(cmd.Context(), path, nil, &answer); err != nil {
			return err
		}
		list, t := table(answer)
		return out.PrintTable(p.Stdout, list, t)
	}
	c.AddFlags(cmd)
	out.AddTableFlag(cmd)
	return cmd
}

// atMostOne takes no argument or one.
func atMostOne(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("unexpected argument %q; write '%s'", args[1], cmd.UseLine())
	}
	return nil
}

// none takes no argument. cobra's own check calls a file name an unknown command.
func none(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q; write '%s'", args[0], cmd.UseLine())
	}
	return nil
}

// some takes at least one argument.
func some(argument string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return missing(argument)
		}
		return nil
	}
}

// knownVerb refuses what is no command: cobra runs the commands that there are.
func knownVerb(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownVerb(cmd, args[0])
	}
	return nil
}

const runArgument = "RUN; 'responder runs list' lists them"

// group is a noun: a command that only holds verbs.
func group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  knownVerb,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var examples []string
	for _, v := range verbs {
		if v.Hidden || v.Example == "" {
			continue
		}
		examples = append(examples, firstExample(v.Example))
	}
	c.Example = strings.Join(examples, "\n")
	c.AddCommand(verbs...)
	return c
}

// firstExample returns the first of several examples, with the lines that continue
// it.
func firstExample(all string) string {
	lines := strings.Split(all, "\n")
	n := 1
	for n < len(lines) && strings.HasSuffix(lines[n-1], "\\") {
		n++
	}
	return strings.Join(lines[:n], "\n")
}

// unknownVerb reports which verbs there are, and which one was probably meant.
func unknownVerb(cmd *cobra.Command, got string) error {
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	hint := spelling.Nearest(got, names)
	if hint != "" {
		hint = fmt.Sprintf("did you mean %q? ", hint)
	}
	return fmt.Errorf("unknown command %q for %q; %sthe commands are %s", got, cmd.CommandPath(), hint, strings.Join(names, ", "))
}
