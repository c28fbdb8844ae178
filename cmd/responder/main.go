package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/inference-responder/responder/internal/cli"
	"github.com/inference-responder/responder/internal/cli/command"
)

func main() {
	p := &command.Process{Stdin: os.Stdin, Stdout: command.NewWindow(os.Stdout, os.Getenv), Stderr: os.Stderr, Getenv: os.Getenv, Temp: &command.Temporary{}}
	signals := make(chan os.Signal, 2) // both are of interest
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	// Whoever reads the output may stop to: a write then fails, and what was begun
	// is put away as after every other error. Unasked, the process would die of it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		command.AwaitSignals(signals, cancel)
		p.Temp.RemoveAll()
		fmt.Fprintln(os.Stderr, "responder: ended at once, at a second signal")
		os.Exit(command.ExitError)
	}()
	os.Exit(cli.Run(ctx, os.Args[1:], p))
}
