// Command argobox is Argo CD for tests in one binary: repo-server,
// application-controller, API server and the program git asks for credentials.
// The name it is started under says which, or ARGOCD_BINARY_NAME: repo-server
// has git ask "argocd", and sets that. Upstream's own cmd does the
// same with the CLI, Dex and the notifications, which no test runs.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	controller "github.com/argoproj/argo-cd/v2/cmd/argocd-application-controller/commands"
	askpass "github.com/argoproj/argo-cd/v2/cmd/argocd-git-ask-pass/commands"
	reposerver "github.com/argoproj/argo-cd/v2/cmd/argocd-repo-server/commands"
	server "github.com/argoproj/argo-cd/v2/cmd/argocd-server/commands"
	"github.com/spf13/cobra"
)

// roles maps a name to its program.
var roles = map[string]func() *cobra.Command{
	"argocd-application-controller": controller.NewCommand,
	"argocd-git-ask-pass":           askpass.NewCommand,
	"argocd-repo-server":            reposerver.NewCommand,
	"argocd-server":                 server.NewCommand,
}

func main() {
	name := filepath.Base(os.Args[0])
	if role := os.Getenv("ARGOCD_BINARY_NAME"); role != "" {
		name = role
	}
	command, ok := roles[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "argobox: started as %q; want one of argocd-application-controller, argocd-git-ask-pass, argocd-repo-server, argocd-server\n", name)
		os.Exit(2)
	}
	if err := command().Execute(); err != nil {
		os.Exit(1)
	}
}
