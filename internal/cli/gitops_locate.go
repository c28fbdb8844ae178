package cli

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/runview"
)

func newGitopsLocateCommand(p *command.Process) *cobra.Command {
	var f placeFlags
	var out command.Output
	cmd := &cobra.Command{
		Use:   "locate --service NAME --flag FLAG | --replicas",
		Short: "Show where Git sets a flag or the replicas of a service, and why there",
		Long: `Show where Git sets a flag of the engine, or the number of replicas of a service,
and why that place is the one in effect. The command reads the head of the deployed
branch or, with --path, a local checkout, and changes nothing. For a flag that is
not set it shows the place where the flag would be added. A flag that is not set
and that the engine does not have is an error.`,
		Args: none,
		Example: `  responder gitops locate --service serving/chat --flag max-num-seqs --config responder.yaml
  responder gitops locate --service serving/chat --replicas --path . --source apps/chat`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			v, err := f.variable()
			if err != nil {
				return err
			}
			tree, done, err := f.open(cmd.Context(), p)
			if err != nil {
				return err
			}
			defer func() { err = firstOf(err, done()) }()
			places, err := tree.places(cmd.Context(), "", v)
			if err != nil {
				return err
			}
			if err := f.plausible(v, places); err != nil {
				return err
			}
			shown := make([]placeView, len(places))
			for i, at := range places {
				shown[i] = viewOf(v, at)
			}
			return out.Print(p.Stdout, shown, func(w io.Writer) error { return writePlaces(w, shown) })
		},
	}
	f.add(cmd)
	out.AddFlag(cmd)
	return cmd
}

// plausible refuses a flag that stands nowhere and that the engine is not known
// to have: it was mistyped.
func (f *placeFlags) plausible(v gitops.Variable, places []gitops.Place) error {
	if v.Replicas || !slices.ContainsFunc(places, func(p gitops.Place) bool { return p.Missing }) {
		return nil
	}
	stated, _ := engine.Named(f.engine)
	for _, p := range places {
		if !p.Missing {
			continue
		}
		e, runs := stated.Running(p.Engine)
		if !runs {
			return fmt.Errorf("%s stands nowhere in the manifests of %s, and the container %s runs %s, not %s", v, f.service, p.Container, e.Title, stated.Title)
		}
		if _, unknown := e.Known(v.Flag); unknown != nil {
			return fmt.Errorf("%s stands nowhere in the manifests of %s, and %w", v, f.service, unknown)
		}
	}
	return nil
}

// firstOf is the first error there is.
func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// placeView is a place as locate prints it.
type placeView struct {
	Variable string `json:"variable"`
	File     string `json:"file"`
	Line     int    `json:"line"`
	Column   int    `json:"column"`
	Object   string `json:"object"`
	Path     string `json:"path"`
	Form     string `json:"form"`
	Value    string `json:"value"`
	Missing  bool   `json:"missing"`           // not set: it would be added there
	Unknown  string `json:"unknown,omitempty"` // of a missing one: why it may be set all the same
	Why      string `json:"why"`
}

func viewOf(v gitops.Variable, at gitops.Place) placeView {
	return placeView{v.String(), at.File, at.Line, at.Column, at.Object, at.Path, at.Form, at.Value, at.Missing, at.Unknown, at.Why}
}

func writePlaces(w io.Writer, places []placeView) error {
	for _, p := range places {
		value := "= " + p.Value
		if p.Missing {
			value = "is not set; it would be added here"
			if p.Unknown != "" {
				value = "is unknown: " + p.Unknown + "; it would be added here"
			}
			if p.Value != "" {
				value = "= " + p.Value + " without a key of its own, which would be added here"
			}
		}
		_, err := fmt.Fprintf(w, "%s:%d:%d  %s %s\n  %s, %s\n  written as %s\n  %s\n", p.File, p.Line, p.Column, p.Variable, runview.Printable(value),
			runview.Printable(p.Object), runview.Printable(p.Path), runview.Printable(p.Form), runview.Printable(p.Why))
		if err != nil {
			return err
		}
	}
	return nil
}
