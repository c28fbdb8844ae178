package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
)

// listedContext is a context in the output of get-contexts.
type listedContext struct {
	client.Context
	Current bool `json:"current"`
}

func newConfigGetContextsCommand(p *command.Process) *cobra.Command {
	var out command.Output
	cmd := &cobra.Command{
		Use:   "get-contexts",
		Short: "List the contexts: services with their credentials, by name",
		Args:  none,
		Example: `  responder config get-contexts
  responder config get-contexts -o name`,
		RunE: func(*cobra.Command, []string) error {
			all, err := client.ReadContexts(p.Getenv)
			if err != nil {
				return err
			}
			t := &runview.Table{
				Columns: []runview.Column{{Head: "NAME"}, {Head: "CURRENT"}, {Head: "SERVER", Flex: true}, {Head: "CREDENTIAL", Flex: true}, {Head: "CA", Wide: true}},
				Empty:   "no contexts; make one with: responder config set-context NAME --server URL",
			}
			list := []listedContext{}
			for _, c := range all.All {
				now := ""
				if c.Name == all.Current {
					now = "current"
				}
				t.Add(c.Name, now, c.Server, runview.OrText(c.TokenFile, c.CertFile), c.CAFile)
				list = append(list, listedContext{Context: c, Current: c.Name == all.Current})
			}
			return out.PrintTable(p.Stdout, list, t)
		},
	}
	out.AddTableFlag(cmd)
	return cmd
}

func newConfigUseContextCommand(p *command.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "use-context NAME",
		Short: "Make a context the current one, whose service commands ask",
		Long: `Make a context the current one: commands ask its service with its credential. A flag
or variable that names a server overrides both for that command.`,
		Args:    one("NAME; 'responder config get-contexts' lists them"),
		Example: "  responder config use-context prod",
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := client.ReadContexts(p.Getenv)
			if err != nil {
				return err
			}
			to, err := all.Named(args[0])
			if err != nil {
				return err
			}
			all.Current = to.Name
			if err := all.Write(); err != nil {
				return err
			}
			if _, err := fmt.Fprintf(p.Stdout, "current context: %s, %s\n", to.Name, to.Server); err != nil {
				return err
			}
			if other := p.Getenv("RESPONDER_SERVER"); other != "" {
				_, err = fmt.Fprintln(p.Stderr, "responder: $RESPONDER_SERVER is set and overrides the current context; unset it")
			}
			return err
		},
	}
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return client.CompleteContexts(p)
	}
	return cmd
}

func newConfigSetContextCommand(p *command.Process) *cobra.Command {
	var given client.Context
	cmd := &cobra.Command{
		Use:   "set-context NAME --server URL",
		Short: "Add a context, which names a service and its credential, or change one",
		Long: `Add a context, which names a service and the credential for it, or change the given
fields of one. Contexts are stored in $XDG_CONFIG_HOME/responder/contexts.yaml, or in
the same file below ~/.config. It contains paths of files and never a token.`,
		Args: one("NAME of the context, like prod"),
		Example: `  responder config set-context prod --server https://responder.example:8443 --token-file ada.token --ca-file ca.crt
  responder config set-context local --server http://127.0.0.1:8080`,
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := client.ReadContexts(p.Getenv)
			if err != nil {
				return err
			}
			given.Name = args[0]
			changed, err := mergedContext(cmd, all, given)
			if err != nil {
				return err
			}
			if err := all.Set(changed); err != nil {
				return err
			}
			if err := all.Write(); err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.Stdout, "%s is %s; use it with --context %s, or always: responder config use-context %s\n", changed.Name, changed.Server, changed.Name, changed.Name)
			return err
		},
	}
	cmd.Flags().StringVar(&given.Server, "server", "", "URL of the service")
	cmd.Flags().StringVar(&given.TokenFile, "token-file", "", "file with the bearer token")
	cmd.Flags().StringVar(&given.CertFile, "cert-file", "", "file with the client certificate, PEM, with --key-file")
	cmd.Flags().StringVar(&given.KeyFile, "key-file", "", "file with the client certificate's key, PEM")
	cmd.Flags().StringVar(&given.CAFile, "ca-file", "", "file with the CA certificates that vouch for an https server")
	return cmd
}

// mergedContext returns the context of a name, changed by the given flags. An empty
// value removes a file.
func mergedContext(cmd *cobra.Command, all client.Contexts, given client.Context) (client.Context, error) {
	out := client.Context{Name: given.Name}
	for _, c := range all.All {
		if c.Name == given.Name {
			out = c
		}
	}
	if cmd.Flags().Changed("server") {
		out.Server = given.Server
	}
	if out.Server == "" {
		return out, errors.New("missing --server: a context names the URL of a service")
	}
	for _, f := range []struct {
		flag, file string
		into       *string
	}{
		{"token-file", given.TokenFile, &out.TokenFile},
		{"cert-file", given.CertFile, &out.CertFile},
		{"key-file", given.KeyFile, &out.KeyFile},
		{"ca-file", given.CAFile, &out.CAFile},
	} {
		if !cmd.Flags().Changed(f.flag) {
			continue
		}
		path := ""
		if f.file != "" {
			var err error
			if path, err = filepath.Abs(f.file); err != nil {
				return out, fmt.Errorf("--%s: %w", f.flag, err)
			}
			if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
				// The value is not shown: it may be the secret itself.
				return out, fmt.Errorf("--%s names no file; a context contains the path of a file, never its content", f.flag)
			}
		}
		*f.into = path
	}
	return out, nil
}
