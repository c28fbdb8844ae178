// Command agent is the node agent, built as responder-agent: it reads the GPUs
// of the node it runs on and serves what is known of them. It is a program of
// its own because NVIDIA's library needs cgo, and because each GPU node pays
// for its memory: see docs/decisions/0012-the-agent-is-a-program-of-its-own.md.
//
// serve.go is the service, probe.go looks once, source.go puts together what both
// show; their flags are agentflags', which the responder's own command line has too.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/inference-responder/responder/internal/cli/agentflags"
	"github.com/inference-responder/responder/internal/gpu/nvml"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends a shutdown that hangs
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr, os.Getenv))
}

// errNotWell ends the program with 1 after it has said why.
var errNotWell = errors.New("")

// run is the whole program without the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, getenv func(string) string) int {
	var err error
	if len(args) > 0 && args[0] == "probe" {
		var f agentflags.Probe
		err = parse("probe ", agentflags.ProbeLong, args[1:], stdout, f.Add, f.Check, func() error { return probe(ctx, f, stdout, stderr, getenv) })
	} else {
		var f agentflags.Serve
		err = parse("", agentflags.ServeLong, args, stdout, f.Add, f.Check, func() error { return serve(ctx, f, stderr, getenv) })
	}
	if err == nil {
		return 0
	}
	if !errors.Is(err, errNotWell) {
		fmt.Fprintf(stderr, "%s: %s\n", agentflags.Binary, err)
	}
	return 1
}

// parse reads flags and goes on with do, or prints help.
func parse(verb, long string, args []string, stdout io.Writer, add func(*pflag.FlagSet), check, do func() error) error {
	fs := pflag.NewFlagSet(agentflags.Binary, pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	add(fs)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		_, err := fmt.Fprintf(stdout, "%s\n\nUsage:\n  %s %s[flags]\n\nFlags:\n%s", long, agentflags.Binary, verb, fs.FlagUsagesWrapped(100))
		return err
	case err != nil:
		return fmt.Errorf("%w; '%s %s--help' lists the flags", err, agentflags.Binary, verb)
	case fs.NArg() > 0:
		return fmt.Errorf("%q is too much; '%s %s--help' lists the flags", fs.Arg(0), agentflags.Binary, verb)
	}
	if err := check(); err != nil {
		return err
	}
	return do()
}

// options are those of a collector.
func options(r agentflags.Reading, getenv func(string) string, log *slog.Logger) (nvml.Options, error) {
	node, err := nodeName(r, getenv)
	if err != nil {
		return nvml.Options{}, err
	}
	o := nvml.Options{Library: r.Library, Period: r.Period, Node: node, Agent: version(), Log: log}
	if boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		o.BootID = strings.TrimSpace(string(boot))
	}
	if r.HostPID {
		o.Proc = nvml.HostProc
	}
	if visible := getenv("NVIDIA_VISIBLE_DEVICES"); visible == "" || visible == "all" {
		o.Bus = nvml.PCIBus // else some GPUs of the node are not ours to see
	}
	return o, nil
}

// nodeName is the name of this node, for callers.
func nodeName(r agentflags.Reading, getenv func(string) string) (string, error) {
	name, from := r.Node, "--node"
	if name == "" {
		name, from = getenv("NODE_NAME"), "NODE_NAME"
	}
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("name this node: %w; --node gives the name", err)
		}
		name, from = strings.ToLower(host), "the host's name" // as the kubelet does
	}
	if !agentflags.IsNode(name) {
		return "", fmt.Errorf("name this node: %s %q is %s; --node gives the name", from, name, agentflags.NodeForm)
	}
	return name, nil
}

// version is that of the module, or (devel).
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
