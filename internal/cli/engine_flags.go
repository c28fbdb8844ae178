package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/spelling"
)

func newEngineFlagsCommand(p *command.Process) *cobra.Command {
	var out command.Output
	var flag string
	var all bool
	cmd := &cobra.Command{
		Use:   "flags [ENGINE]",
		Short: "List the flags of the serving engines, with their values and effects",
		Long: `List the flags of the serving engines that a run may change: the values they take
and the defaults. -o wide and --flag add the effects of higher and lower values.
gitops.set_flag, playbook lint and gitops set refuse invalid values.

A flag that is not listed is unknown. A run changes an unknown flag only if Git
already sets it. It adds one only if the playbook has unknown_flag: add.

--all also lists the flags that a run never changes: those that decide what is
served, on which GPUs, where and to whom, and what is measured. A proof by latency
and errors cannot show that such a change was right.`,
		Args:      cobra.MatchAll(atMostOne, knownEngine),
		ValidArgs: engine.Names(),
		Example: `  responder engine flags
  responder engine flags sglang --all
  responder engine flags vllm --flag max-num-seqs
  responder engine flags -o json`,
		RunE: func(_ *cobra.Command, args []string) error {
			e := engine.Unstated()
			if len(args) == 1 {
				e, _ = engine.Named(args[0])
			}
			views, err := engineFlags(e, flag, all)
			if err != nil {
				return err
			}
			if flag != "" {
				return out.Print(p.Stdout, views, func(w io.Writer) error { return describeFlags(w, views) })
			}
			return out.PrintTable(p.Stdout, views, flagTable(views, all))
		},
	}
	cmd.Flags().StringVar(&flag, "flag", "", "describe this flag only")
	cmd.Flags().BoolVar(&all, "all", false, "those that a run never changes, too")
	// The error is of a flag that does not exist; it was added above.
	_ = cmd.RegisterFlagCompletionFunc("flag", func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		e := engine.Unstated()
		if len(args) > 0 {
			e, _ = engine.Named(args[0])
		}
		return e.Flags(), cobra.ShellCompDirectiveNoFileComp
	})
	out.AddTableFlag(cmd)
	return cmd
}

// knownEngine refuses the name of an engine that is none.
func knownEngine(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return checkEngine(args[0])
}

func checkEngine(name string) error {
	if _, ok := engine.Named(name); ok {
		return nil
	}
	hint := ""
	if near := spelling.Nearest(name, engine.Names()); near != "" {
		hint = fmt.Sprintf("did you mean %q? ", near)
	}
	return fmt.Errorf("no engine is named %q; %sthere is %s", name, hint, strings.Join(engine.Names(), ", "))
}

// flagView is a flag as engine flags prints it.
type flagView struct {
	Engine     string   `json:"engine"` // program that has it
	Flag       string   `json:"flag"`
	Aliases    []string `json:"aliases,omitempty"`
	Type       string   `json:"type"`
	Takes      string   `json:"takes,omitempty"`
	Default    string   `json:"default,omitempty"`
	Trades     string   `json:"trades,omitempty"`
	Contract   bool     `json:"contract,omitempty"` // clients are served other than before
	Compiles   bool     `json:"compiles,omitempty"` // the first start with a new value is slower
	Changeable bool     `json:"changeable"`         // by a run
	Why        string   `json:"why,omitempty"`      // it is not
	Note       string   `json:"note,omitempty"`
	Source     string   `json:"source,omitempty"` // of the bounds
	Version    string   `json:"version"`          // that the table was read from

	brief string // takes, for a table
	unit  string
}

func viewOfFlag(p *engine.Program, f engine.Flag) flagView {
	v := flagView{
		Engine: p.Name, Flag: f.Name, Aliases: f.Aliases, Type: string(f.Kind), Takes: f.Range(), Default: f.Default, Trades: f.Trades,
		Contract: f.Contract, Compiles: f.Compiles, Changeable: f.Changeable(), Why: string(f.Fixed), Note: f.Note, Source: f.Source, Version: p.Source,
		brief: takesBrief(f), unit: f.Unit,
	}
	if f.Removed != "" {
		v.Why = "this version has it no longer: " + f.Removed
	}
	return v
}

// takesBrief is what a flag takes, as short as a table wants it.
func takesBrief(f engine.Flag) string {
	switch f.Kind {
	case engine.Text:
		return ""
	case engine.Enum:
		return strings.Join(f.Words, "|")
	}
	bounds := func(at *float64, open bool, sign string) string {
		switch {
		case at == nil:
			return ""
		case open:
			return fmt.Sprintf(" %s %v", sign, *at)
		}
		return fmt.Sprintf(" %s= %v", sign, *at)
	}
	text := string(f.Kind) + bounds(f.Min, f.Above, ">") + bounds(f.Max, f.Below, "<")
	return strings.Join(append([]string{text}, f.Words...), "|")
}

// engineFlags are the flags of an engine; one of them, where it is named.
func engineFlags(e engine.Engine, flag string, all bool) ([]flagView, error) {
	views := []flagView{}
	if flag != "" {
		if _, unknown := e.Known(flag); unknown != nil {
			return nil, unknown
		}
	}
	for _, p := range e.Programs() {
		for _, f := range p.Flags {
			if flag == "" && (all || f.Changeable()) {
				views = append(views, viewOfFlag(p, f))
			}
		}
		if f, ok := p.Flag(flag); ok && flag != "" {
			views = append(views, viewOfFlag(p, f))
		}
	}
	return views, nil
}

func flagTable(views []flagView, all bool) *runview.Table {
	t := &runview.Table{Columns: []runview.Column{
		{Head: "ENGINE"},
		{Head: "FLAG"},
		{Head: "TAKES", Flex: true},
		{Head: "DEFAULT", Flex: true},
		{Head: "UNIT", Wide: true},
		{Head: "TRADES", Wide: true},
		{Head: "SOURCE", Wide: true},
	}}
	if all {
		t.Columns[3].Head = "A RUN NEVER CHANGES IT"
	}
	for _, v := range views {
		fourth := v.Default
		if all {
			fourth = v.Why
		}
		t.Add(v.Engine, v.Flag, v.brief, fourth, v.unit, v.Trades, v.Source)
	}
	return t
}

// describeFlags describes all about one flag, of each engine that has it.
func describeFlags(w io.Writer, views []flagView) error {
	var b strings.Builder
	for i, v := range views {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "--%s (%s, %s)\n", v.Flag, v.Engine, v.Type)
		if len(v.Aliases) > 0 {
			fmt.Fprintf(&b, "  also      %s\n", strings.Join(v.Aliases, ", "))
		}
		change := "yes, with a restart of the engine"
		switch {
		case !v.Changeable:
			change = "no: " + v.Why
		case v.Contract:
			change += "; clients are served other than before, so that its risk is high"
		}
		if v.Compiles {
			change += "; it compiles anew, so that its first start is slower"
		}
		for _, line := range [][2]string{
			{"takes", v.Takes},
			{"default", v.Default},
			{"trades", v.Trades},
			{"note", v.Note},
			{"by a run", change},
			{"source", strings.TrimPrefix(v.Source+", "+v.Version, ", ")},
		} {
			if line[1] == "" {
				continue
			}
			for i, text := range runview.Wrap(line[1], runview.Width-12) {
				head := ""
				if i == 0 {
					head = line[0]
				}
				fmt.Fprintf(&b, "  %-9s %s\n", head, text)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
