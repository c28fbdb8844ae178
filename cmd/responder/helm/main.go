// Responder-helm renders Helm charts for responder, which starts it. It reads one
// request from the standard input, answers on the standard output, and ends.
package main

import (
	"os"

	"github.com/inference-responder/responder/internal/gitops/helm/engine"
)

func main() { os.Exit(engine.Main(os.Stdin, os.Stdout, os.Stderr)) }
