package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/config"
)

// Run is the whole program without the process around it: it returns the exit
// code. Asked-for output goes to stdout, everything else to stderr.
func Run(ctx context.Context, args []string, p *command.Process) int {
	root := newRootCommand(p)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return command.ExitOK
	}
	code := command.ExitError
	var coded *command.CodedError
	if errors.As(err, &coded) {
		code = coded.Code
	}
	if errors.As(err, new(config.NoFileError)) && cmd.Flags().Lookup("sandbox") != nil {
		err = fmt.Errorf("%w; --sandbox needs none", err)
	}
	if strings.Contains(err.Error(), brokenPipe) {
		return command.ExitError // there is nobody to tell
	}
	if msg := inWords(err.Error()); msg != "" {
		fmt.Fprintf(p.Stderr, "responder: %s\n", msg)
	}
	return code
}

// brokenPipe is in the error of a write to a standard output that nobody reads.
var brokenPipe = "write " + os.Stdout.Name() + ": " + syscall.EPIPE.Error()
