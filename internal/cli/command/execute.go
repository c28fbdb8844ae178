package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Main runs a program, and exits with what it returns. The first signal cancels its
// context, the second ends it at once.
func Main(run func(ctx context.Context, args []string, p *Process) int) {
	p := &Process{Stdin: os.Stdin, Stdout: NewWindow(os.Stdout, os.Getenv), Stderr: os.Stderr, Getenv: os.Getenv, Temp: &Temporary{}, Zone: time.Local}
	signals := make(chan os.Signal, 2) // both are of interest
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	// Whoever reads the output may stop to: a write then fails, and what was begun
	// is put away as after every other error. Unasked, the process would die of it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		AwaitSignals(signals, cancel)
		p.Temp.RemoveAll()
		fmt.Fprintln(os.Stderr, "responder: ended at once, at a second signal")
		os.Exit(ExitError)
	}()
	os.Exit(run(ctx, os.Args[1:], p))
}

// Execute runs a tree of commands and returns the exit code. Asked-for output goes to
// stdout, everything else to stderr. Explain may add to an error what helps; nil: nothing.
func Execute(ctx context.Context, root *cobra.Command, args []string, p *Process, explain func(*cobra.Command, error) error) int {
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	code := ExitError
	var coded *CodedError
	if errors.As(err, &coded) {
		code = coded.Code
	}
	if strings.Contains(err.Error(), brokenPipe) {
		return ExitError // there is nobody to tell
	}
	if explain != nil {
		err = explain(cmd, err)
	}
	if msg := inWords(err.Error()); msg != "" {
		fmt.Fprintf(p.Stderr, "responder: %s\n", msg)
	}
	return code
}

// brokenPipe is in the error of a write to a standard output that nobody reads.
var brokenPipe = "write " + os.Stdout.Name() + ": " + syscall.EPIPE.Error()

// Prepare connects a tree of commands to the process, and gives it the text of --help.
func Prepare(root *cobra.Command, p *Process) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.SetUsageFunc(usage)
	root.SetFlagErrorFunc(FlagError)
	root.CompletionOptions.DisableDefaultCmd = true
}

// FlagError puts an error about a flag into plain words.
func FlagError(cmd *cobra.Command, err error) error {
	return fmt.Errorf("%w; '%s --help' lists the flags", notNumber(err), cmd.CommandPath())
}

// notNumber puts Go's error about a flag that is no number into plain words.
func notNumber(err error) error {
	var value *pflag.InvalidValueError
	if !errors.As(err, &value) || !errors.As(err, new(*strconv.NumError)) {
		return err
	}
	wanted := "a number"
	switch value.GetFlag().Value.Type() {
	case "int":
		wanted = "a whole number"
	case "uint64":
		wanted = "a whole number, 0 or more"
	case "bool":
		wanted = "true or false"
	}
	return fmt.Errorf("--%s wants %s, not %q", value.GetFlag().Name, wanted, value.GetValue())
}

// together is what cobra says of flags that exclude each other.
var together = regexp.MustCompile(`^if any flags in the group \[.*\] are set none of the others can be; \[(.*)\] were all set$`)

// inWords puts cobra's errors into plain words.
func inWords(message string) string {
	if m := together.FindStringSubmatch(message); m != nil {
		return "--" + strings.Join(strings.Fields(m[1]), " and --") + " exclude each other; give one of them"
	}
	return message
}

// HelpWidth is how wide --help is at most.
const HelpWidth = 100

// usage is cobra's own text with wrapped flags. It is no template: templates
// look methods up by name, for which the linker would keep every exported
// method of the program.
func usage(c *cobra.Command) error {
	local, inherited := c.LocalFlags(), c.InheritedFlags() // first: this merges the flags, which the line of usage asks for
	var out strings.Builder
	out.WriteString("Usage:")
	if c.Runnable() {
		fmt.Fprintf(&out, "\n  %s", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&out, "\n  %s [command]", c.CommandPath())
	}
	if c.HasExample() {
		fmt.Fprintf(&out, "\n\nExamples:\n%s", c.Example)
	}
	if c.HasAvailableSubCommands() {
		out.WriteString("\n\nAvailable Commands:")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&out, "\n  %-*s %s", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	for _, f := range append(flagGroups(local), flagGroup{"Global Flags", inherited}) {
		if f.flags.HasAvailableFlags() {
			fmt.Fprintf(&out, "\n\n%s:\n%s", f.heading, strings.TrimRightFunc(f.flags.FlagUsagesWrapped(HelpWidth), unicode.IsSpace))
		}
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&out, "\n\nUse %q for more information about a command.", c.CommandPath()+" [command] --help")
	}
	_, err := fmt.Fprintln(c.OutOrStderr(), out.String())
	return err
}

// flagGroup is a heading of --help with its flags.
type flagGroup struct {
	heading string
	flags   *pflag.FlagSet
}

// flagGroups sorts flags under their headings, those without one first.
func flagGroups(all *pflag.FlagSet) []flagGroup {
	groups := []flagGroup{{"Flags", pflag.NewFlagSet("", pflag.ContinueOnError)}}
	all.VisitAll(func(f *pflag.Flag) {
		heading := "Flags"
		if named := f.Annotations[FlagGroup]; len(named) > 0 {
			heading = named[0]
		}
		i := slices.IndexFunc(groups, func(g flagGroup) bool { return g.heading == heading })
		if i < 0 {
			i = len(groups)
			groups = append(groups, flagGroup{heading, pflag.NewFlagSet("", pflag.ContinueOnError)})
		}
		groups[i].flags.AddFlag(f)
	})
	return groups
}
