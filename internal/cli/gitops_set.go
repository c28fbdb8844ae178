package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/step/git"
)

func newGitopsSetCommand(p *command.Process) *cobra.Command {
	var f placeFlags
	var out command.Output
	var value string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "set --service NAME --flag FLAG --value VALUE --dry-run",
		Short: "Show the difference that setting a flag or the replicas in Git would make",
		Long: `Show the difference that setting a flag of the engine, or the number of replicas,
would make in Git. Only the bytes of the value change. The command reads the head
of the deployed branch or, with --path, a local checkout.

It never writes: --dry-run is required. Changes are made by runs, which have
guards, a proof and an undo. What a run would refuse is refused here too: a value
that the engine does not take, an unknown flag that would be added, a number of
replicas outside the service's min_ready and max_scale.

'responder gitops last-good' shows the value that last_good stands for in a
playbook. It asks a running service.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.replicas && len(args) == 1 && value == "" {
				return fmt.Errorf("--replicas takes no number; write --replicas --value %s", args[0])
			}
			return none(cmd, args)
		},
		Example: `  responder gitops set --service serving/chat --flag max-num-seqs --value 192 --dry-run
  responder gitops set --service serving/chat --replicas --value 5 --dry-run --path . --source apps/chat`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			v, err := f.variable()
			switch {
			case err != nil:
				return err
			case !dryRun:
				return errors.New("missing --dry-run: changes are made by runs, which have guards, a proof and an undo; --dry-run shows the difference")
			case value == "":
				return errors.New("missing --value")
			case value == "last_good":
				return fmt.Errorf("--value last_good is for playbooks: the value that a run last verified stands in the journal of a running Responder, which this command does not ask. "+
					"'responder gitops last-good --service %s' asks it (--server says where it is): give the value that it shows", f.service)
			}
			tree, done, err := f.open(cmd.Context(), p)
			if err != nil {
				return err
			}
			defer func() { err = firstOf(err, done()) }()
			a, notes, err := f.checked(cmd.Context(), tree, gitops.Assignment{Variable: v, Value: value})
			if err != nil {
				return err
			}
			prop, err := tree.propose(cmd.Context(), a)
			if err != nil {
				return err
			}
			view := viewOfProposal(prop)
			view.Notes = append(view.Notes, notes...)
			return out.Print(p.Stdout, view, func(w io.Writer) error { return writeProposal(w, view) })
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.unknown, "unknown-flag", "change", "what may be done with a flag that is not known: change, where it stands already, or add")
	cmd.Flags().StringVar(&value, "value", "", "new value")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show the difference and write nothing")
	out.AddFlag(cmd)
	return cmd
}

// checked holds a flag to what the engine takes, and the replicas to the bounds
// of the service, as a run does.
func (f *placeFlags) checked(ctx context.Context, tree manifestTree, a gitops.Assignment) (gitops.Assignment, []string, error) {
	switch {
	case f.unknown != "change" && f.unknown != "add":
		return a, nil, fmt.Errorf("--unknown-flag is change or add, not %q", f.unknown)
	case a.Variable.Replicas:
		notes, err := f.bounded(ctx, tree, a)
		return a, notes, err
	}
	checked, err := git.CheckFlags(git.FlagRules{
		Service: f.service, Engine: f.engine, Unknown: f.unknown,
		Name: "name it with --engine, or in the service's catalog entry (" + strings.Join(engine.Names(), ", ") + ")",
		Look: func(container string, vs []gitops.Variable) ([]gitops.Place, error) {
			return tree.places(ctx, container, vs...)
		},
	}, []gitops.Assignment{a})
	if err != nil {
		return a, nil, err
	}
	return checked.Set[0], checked.Notes, nil
}

// bounded refuses a number of replicas that a run would.
func (f *placeFlags) bounded(ctx context.Context, tree manifestTree, a gitops.Assignment) (notes []string, err error) {
	to, err := strconv.Atoi(a.Value)
	if err != nil {
		return nil, nil // the editor says what it takes
	}
	places, err := tree.places(ctx, "", a.Variable)
	if err != nil {
		return nil, err
	}
	for _, at := range places {
		if err := git.CheckReplicas(f.bounds, at, to); err != nil {
			return nil, err
		}
		if at.Missing {
			notes = append(notes, "Git does not say how many there are: a run holds the number to what runs, too")
		}
	}
	if f.path != "" {
		notes = append(notes, "min_ready and max_scale, to which a run is held, are the catalog's: without --path they count here, too")
	}
	return notes, nil
}

// proposalView is what set prints.
type proposalView struct {
	Base    string      `json:"base,omitempty"` // commit; empty: a local checkout
	Changes []touchView `json:"changes"`
	Notes   []string    `json:"notes,omitempty"`
	Diff    string      `json:"diff"`
}

type touchView struct {
	Variable string `json:"variable"`
	File     string `json:"file"`
	Line     int    `json:"line"`
	Path     string `json:"path"`
	From     string `json:"from"`
	Unknown  string `json:"unknown,omitempty"` // why from is empty although it may be set
	To       string `json:"to"`
}

func viewOfProposal(p gitops.Proposal) proposalView {
	v := proposalView{Base: p.Base, Diff: p.Diff(), Changes: []touchView{}}
	for _, r := range p.Rendered {
		v.Notes = append(v.Notes, "rendered: "+r)
	}
	if p.Unbuilt != "" {
		v.Notes = append(v.Notes, "not rendered: "+p.Unbuilt)
	}
	for _, t := range p.Touches {
		v.Changes = append(v.Changes, touchView{t.Variable, t.File, t.Line, t.Path, t.From, t.Unknown, t.To})
	}
	return v
}

func writeProposal(w io.Writer, v proposalView) error {
	for _, t := range v.Changes {
		from := t.From
		if from == "" {
			from = "(not set)"
			if t.Unknown != "" {
				from = "(unknown: " + t.Unknown + ")"
			}
		}
		if _, err := fmt.Fprintf(w, "%s: %s -> %s (%s:%d)\n", t.Variable, runview.Printable(from), runview.Printable(t.To), t.File, t.Line); err != nil {
			return err
		}
	}
	for _, n := range v.Notes {
		if _, err := fmt.Fprintf(w, "  %s\n", runview.Printable(n)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s", v.Diff)
	return err
}
