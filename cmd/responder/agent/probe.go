package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/inference-responder/responder/internal/cli/agentflags"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/judge"
	"github.com/inference-responder/responder/internal/gpu/nvml"
)

// look is how often probe looks at what has been read.
const look = 250 * time.Millisecond

// report is what probe prints.
type report struct {
	Verdict  judge.NodeJudgement `json:"verdict"`
	Snapshot gpu.Snapshot        `json:"snapshot"`
}

// probe prints the verdict about this machine.
func probe(ctx context.Context, f agentflags.Probe, stdout, stderr io.Writer, getenv func(string) string) error {
	o, err := options(f.Reading, getenv, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	r, err := watch(ctx, stderr, o, f)
	if err != nil {
		return err
	}
	if f.Output == "json" {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		err = e.Encode(r)
	} else {
		err = r.write(stdout)
	}
	if err == nil && r.Verdict.Verdict.WorseThan(judge.Busy) {
		err = errNotWell
	}
	return err
}

// watch reads until the time is over, a GPU is failing, or the driver says
// that there is nothing to read.
func watch(ctx context.Context, progress io.Writer, o nvml.Options, f agentflags.Probe) (*report, error) {
	reading, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	read, err := startSource(reading, o, f.Kubelet)
	if err != nil {
		return nil, err
	}
	end := time.After(f.For)
	every := time.NewTicker(look)
	defer every.Stop()
	for told := false; ; {
		over := false
		select {
		case <-ctx.Done(): // a person has seen enough
			over = true
		case <-end:
			over = true
		case <-every.C:
		}
		s := read.Snapshot()
		if len(s.GPUs) == 0 && len(s.Errors) > 0 && s.Errors[0].Why != gpu.NotRead {
			return nil, fmt.Errorf("no GPU can be read: %s", cmp.Or(s.Errors[0].Detail, s.Errors[0].What))
		}
		r := &report{judge.Nodes(time.Now(), s)[0], s}
		if over || r.Verdict.Verdict == judge.Failing {
			if _, err := gpu.Encode(s); err != nil { // nor would the agent pass it on
				return nil, fmt.Errorf("what the driver says cannot be: %w", err)
			}
			return r, nil
		}
		if len(s.GPUs) > 0 && !told {
			told = true
			fmt.Fprintf(progress, "watching %d GPUs for %s, until one is plainly broken or ctrl-c\n", len(s.GPUs), f.For)
		}
	}
}

// write prints a table of the GPUs, and why each has its verdict. All text of
// the driver has been made printable when it was read.
func (r *report) write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "GPU\tNAME\tVERDICT\tTEMP\tPOWER\tSM\tUSE\tCLOCKS HELD BY")
	for i, g := range r.Snapshot.GPUs {
		held := "-"
		if reasons, ok := g.Clocks.Reasons.Get(); ok {
			held = strings.Join(reasons.Names(), ", ")
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", g.Index, cmp.Or(g.Name, "-"), r.Verdict.GPUs[i].Verdict, shown(g.Temperature.GPUC, "%d C", 1),
			shown(g.Power.DrawMW, "%d W", 1000), shown(g.Clocks.SMMHz, "%d MHz", 1), shown(g.Use.GPUPercent, "%d %%", 1), cmp.Or(held, "-"))
	}
	fmt.Fprintf(t, "\nnode %s: %s\n", r.Verdict.Node, r.Verdict.Verdict)
	for _, f := range r.Verdict.Findings() {
		fmt.Fprintf(t, "  %s%s: %s (%s; %s)\n", where(f), f.Rule, f.Text, cmp.Or(f.Evidence, "no evidence"), f.Source)
	}
	return t.Flush()
}

// where is what a finding is about, before its rule.
func where(f judge.Finding) string {
	if gpus := f.Where(); gpus != "" {
		return gpus + " "
	}
	return ""
}

// shown is a reading in a unit, or why there is none.
func shown(r gpu.Reading[int64], format string, unit int64) string {
	v, ok := r.Get()
	if !ok {
		return "[" + strings.ReplaceAll(string(r.Why()), "_", " ") + "]"
	}
	return fmt.Sprintf(format, v/unit)
}
