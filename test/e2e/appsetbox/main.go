// Command appsetbox is the controller of Argo CD that makes applications from
// ApplicationSets. Argo CD's other servers are in argobox.
package main

import (
	"os"

	controller "github.com/argoproj/argo-cd/v2/cmd/argocd-applicationset-controller/commands"
)

func main() {
	if err := controller.NewCommand().Execute(); err != nil {
		os.Exit(1)
	}
}
