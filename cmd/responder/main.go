package main

import (
	"github.com/inference-responder/responder/internal/cli"
	"github.com/inference-responder/responder/internal/cli/command"
)

func main() { command.Main(cli.Run) }
