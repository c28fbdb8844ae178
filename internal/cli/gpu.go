package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/app/cluster"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/gpu/judge"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/sandbox"
)

func newGPUCommand(p *command.Process) *cobra.Command {
	return group("gpu", "Show the health of the nodes' GPUs", newGPUStatusCommand(p))
}

// gpuFlags say whose GPUs are asked about.
type gpuFlags struct {
	config  string
	sandbox string
	timeout time.Duration
}

func newGPUStatusCommand(p *command.Process) *cobra.Command {
	var f gpuFlags
	var out command.Output
	cmd := &cobra.Command{
		Use:   "status [NODE...]",
		Short: "Judge the GPUs of nodes, with the reasons",
		Long: `Read the state of the GPUs of the given nodes, or of all nodes with GPUs, and judge
each GPU: healthy, busy (full load, as intended), unknown (too few readings),
degraded, throttled or failing. With nodes given, each GPU is a row; otherwise each
node is. Findings follow below the table, worst first, with the raw values. -o wide
adds the source of each rule.

GPUs of the same product are compared with each other, so a verdict may depend on
which nodes are asked. Nothing is changed.

Exit codes:
  0  all are healthy or busy
  1  an error
  2  one is degraded, throttled or failing
  3  none is worse than unknown, or there are no GPUs`,
		Args: cobra.ArbitraryArgs,
		Example: `  responder gpu status --config responder.yaml
  responder gpu status gpu-17 gpu-18 --config responder.yaml -o json
  responder gpu status --sandbox bad-rollout`,
		RunE: func(cmd *cobra.Command, nodes []string) error {
			judged, err := gpuStatus(cmd.Context(), p, f, nodes)
			if err != nil {
				return err
			}
			err = out.Print(p.Stdout, judged, func(w io.Writer) error { return writeGPUStatus(w, judged, len(nodes) > 0, out.Wide()) })
			if err != nil {
				return err
			}
			return command.ExitCode(gpuExit(judged))
		},
	}
	cmd.Flags().StringVar(&f.config, "config", "responder.yaml", "configuration file")
	cmd.Flags().StringVar(&f.sandbox, "sandbox", "", "ask a simulated cluster instead: "+strings.Join(sandbox.ScenarioNames(), ", "))
	cmd.Flags().DurationVar(&f.timeout, "timeout", 15*time.Second, "time limit")
	cmd.MarkFlagsMutuallyExclusive("config", "sandbox")
	completeScenarios(cmd, "sandbox")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, named []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return f.completeNodes(cmd.Context(), p, named), cobra.ShellCompDirectiveNoFileComp
	}
	out.AddFlag(cmd)
	return cmd
}

// completeNodes returns the nodes with GPUs that are not named yet. Where they
// cannot be listed there is nothing to complete, and no place to say why.
func (f gpuFlags) completeNodes(ctx context.Context, p *command.Process, named []string) []cobra.Completion {
	w, err := f.open(p)
	if err != nil {
		return nil
	}
	if w.Close != nil {
		defer func() { _ = w.Close() }() // nothing was written
	}
	if w.GPUNodes == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	nodes, err := w.GPUNodes(ctx)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return slices.Contains(named, n) })
}

// gpuStatus asks about nodes, all that have GPUs when none is named.
func gpuStatus(ctx context.Context, p *command.Process, f gpuFlags, nodes []string) (_ []judge.NodeJudgement, err error) {
	if f.timeout <= 0 {
		return nil, fmt.Errorf("--timeout %s: want a positive duration", f.timeout)
	}
	nodes, err = nodeNames(nodes)
	if err != nil {
		return nil, err
	}
	w, err := f.open(p)
	if err != nil {
		return nil, err
	}
	if w.Close != nil {
		defer func() { err = firstOf(err, w.Close()) }()
	}
	if w.Deps.GPUs == nil {
		return nil, errors.New("nothing says where the state of GPUs is read: set gpu.agents or gpu.dcgm in " + f.config)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("no answer within %s; --timeout gives it longer", f.timeout))
	defer cancel()
	if len(nodes) == 0 {
		if w.GPUNodes == nil {
			return nil, errors.New("missing argument: NODE...; or set kubernetes in " + f.config + ", so that nodes can be listed")
		}
		if nodes, err = w.GPUNodes(ctx); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, fmt.Errorf("which nodes have GPUs: %w", err)
		}
	}
	answers := w.Deps.GPUs.Snapshots(ctx, nodes, 0)
	return judge.Answers(w.Now(), w.NoSuchNode(ctx, answers)), nil
}

// nodeNames are the nodes that were named, each once.
func nodeNames(named []string) ([]string, error) {
	var out []string
	for _, n := range named {
		if problems := validation.IsDNS1123Subdomain(n); len(problems) > 0 {
			return nil, fmt.Errorf("%q is not the name of a node: %s", runview.Cut(n, 100), problems[0])
		}
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out, nil
}

func (f gpuFlags) open(p *command.Process) (app.World, error) {
	if f.sandbox != "" {
		_, w, err := app.OpenSandbox(f.sandbox, time.Now(), 1)
		return w, err
	}
	c, err := config.Load(f.config)
	if err != nil {
		return app.World{}, err
	}
	return cluster.Open(c, p.Temp.Dir, slog.New(slog.DiscardHandler))
}

// gpuExit is the exit code. Of no node nothing is known, which is not healthy.
func gpuExit(judged []judge.NodeJudgement) int {
	worst := judge.Healthy
	if len(judged) == 0 {
		worst = judge.Uncertain
	}
	for _, n := range judged {
		if n.Verdict.WorseThan(worst) {
			worst = n.Verdict
		}
	}
	switch {
	case worst.WorseThan(judge.Uncertain):
		return 2
	case worst.WorseThan(judge.Busy):
		return 3
	default:
		return 0
	}
}

// writeGPUStatus prints a row for each node, or each GPU, and the findings.
func writeGPUStatus(w io.Writer, judged []judge.NodeJudgement, each, wide bool) error {
	t := nodeTable(judged)
	if each {
		t = deviceTable(judged)
	}
	if err := t.Write(w, wide); err != nil {
		return err
	}
	for _, v := range worstFirst() {
		for _, n := range judged {
			if err := writeFindings(w, n, v, wide); err != nil {
				return err
			}
		}
	}
	return nil
}

// worstFirst are the verdicts whose findings are shown.
func worstFirst() []judge.Verdict {
	return []judge.Verdict{judge.Failing, judge.Throttled, judge.Degraded, judge.Uncertain}
}

func writeFindings(w io.Writer, n judge.NodeJudgement, v judge.Verdict, wide bool) error {
	for _, f := range n.Findings() {
		if f.Verdict != v {
			continue
		}
		where := n.Node
		if gpus := f.Where(); gpus != "" {
			where += " " + gpus
		}
		line := fmt.Sprintf("\n%s: %s: %s\n", runview.Printable(where), v, runview.Printable(f.Text))
		if f.Evidence != "" {
			line += "  " + runview.Printable(f.Evidence) + "\n"
		}
		if wide {
			line += "  rule " + f.Rule + ": " + runview.Printable(f.Source) + "\n"
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}

const noGPUNodes = "no node has NVIDIA GPUs, as far as device plugins and the label nvidia.com/gpu.present say"

func nodeTable(judged []judge.NodeJudgement) *runview.Table {
	t := &runview.Table{Columns: []runview.Column{{Head: "NODE", Flex: true}, {Head: "VERDICT"}, {Head: "GPUS"}, {Head: "BAD"}, {Head: "UNKNOWN"}, {Head: "READ BY"}, {Head: "AT"}}, Empty: noGPUNodes}
	for _, n := range judged {
		bad, unknown := 0, 0
		for _, g := range n.GPUs {
			switch {
			case g.Verdict.WorseThan(judge.Uncertain):
				bad++
			case g.Verdict == judge.Uncertain:
				unknown++
			}
		}
		t.Add(runview.Printable(n.Node), string(n.Verdict), fmt.Sprint(len(n.GPUs)), fmt.Sprint(bad), fmt.Sprint(unknown), runview.Printable(n.Source), timeCell(n.TakenAt))
	}
	return t
}

func deviceTable(judged []judge.NodeJudgement) *runview.Table {
	t := &runview.Table{Columns: []runview.Column{{Head: "NODE", Flex: true}, {Head: "GPU"}, {Head: "VERDICT"}, {Head: "NEEDS"}, {Head: "NAME", Flex: true}, {Head: "UUID", Wide: true}}, Empty: noGPUNodes}
	for _, n := range judged {
		if len(n.GPUs) == 0 {
			t.Add(runview.Printable(n.Node), "", string(n.Verdict), "", "", "")
		}
		for _, g := range n.GPUs {
			verdict := string(g.Verdict)
			if g.Verdict == judge.Throttled {
				verdict += " (" + string(g.Throttle) + ")"
			}
			t.Add(runview.Printable(n.Node), fmt.Sprint(g.Index), verdict, needs(g), runview.Printable(g.Name), runview.Printable(g.UUID))
		}
	}
	return t
}

// needs is what NVIDIA's documents ask for.
func needs(g judge.Judgement) string {
	switch {
	case g.RMA:
		return "replacement"
	case g.Reset:
		return "reset"
	default:
		return ""
	}
}

func timeCell(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
