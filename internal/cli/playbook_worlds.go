package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/cli/worlds"
	"github.com/inference-responder/responder/internal/rehearsal"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// readWorlds reads the scenarios among the files, those that only matches.
func readWorlds(files []string, only *regexp.Regexp) ([]*worlds.Scenario, error) {
	var out []*worlds.Scenario
	var problems []error
	for _, file := range files {
		if !strings.HasSuffix(file, worlds.Suffix) {
			continue
		}
		data, err := app.ReadPlaybookFile(file)
		if err != nil {
			return nil, err
		}
		s, err := worlds.Read(file, data, kinds.Declarations())
		switch {
		case err != nil:
			problems = append(problems, err)
		case only.MatchString(s.Name) || only.MatchString(s.Title):
			out = append(out, s)
		}
	}
	return out, errors.Join(problems...)
}

// playWorlds plays scenarios, as many at once as there are processors.
func playWorlds(ctx context.Context, p *command.Process, list []*worlds.Scenario, seed uint64) ([]worlds.Result, error) {
	results, errs := make([]worlds.Result, len(list)), make([]error, len(list))
	next := make(chan int)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := range next {
				results[i], errs[i] = playWorld(ctx, p, list[i], seed)
			}
		})
	}
	for i := range list {
		next <- i
	}
	close(next)
	workers.Wait()
	return results, errors.Join(errs...)
}

func playWorld(ctx context.Context, p *command.Process, s *worlds.Scenario, seed uint64) (worlds.Result, error) {
	if ctx.Err() != nil {
		return worlds.Result{}, context.Cause(ctx)
	}
	dir, remove, err := p.Temp.Dir("responder-world-")
	if err != nil {
		return worlds.Result{}, fmt.Errorf("make a temporary directory: %w", err)
	}
	r, err := s.Play(ctx, worlds.Options{Seed: seed, Temp: dir})
	return r, errors.Join(err, remove())
}

// addWorlds adds the results of scenarios to the report, and the paths of their runs to
// what is covered.
func addWorlds(report *api.PlaybookTest, results []worlds.Result, verbose bool, cover func(string, rehearsal.Result)) {
	var sum worlds.Figures
	for _, r := range results {
		sum.Add(r)
		report.Worlds = append(report.Worlds, worldOf(r, verbose))
		report.Failed += min(1, len(r.Failures))
		for _, run := range r.Runs {
			if run.Playbook == nil {
				continue
			}
			way := rehearsal.Result{Path: run.Path}
			for _, e := range run.Edges {
				way.Edges = append(way.Edges, rehearsal.Taken{From: e.From, To: e.To, Why: e.Why})
			}
			cover(run.Playbook.Name, way)
		}
	}
	if len(results) > 0 {
		report.Figures = &api.WorldFigures{
			Scenarios: sum.Scenarios, Causes: sum.Causes, Named: sum.Named, Levers: sum.Reached, Harmful: sum.Harmful,
			Useless: sum.Useless, TakenBack: sum.Undone, Curable: sum.Curable, Recovered: sum.Recovered, BadMinutes: sum.Bad,
		}
	}
}

func worldOf(r worlds.Result, verbose bool) api.PlaybookWorld {
	s := r.Scenario
	out := api.PlaybookWorld{
		Result: "ok", Scenario: s.Name, Title: s.Title, Cause: s.Cause, File: s.File, Alerts: append([]string{}, r.Alerts...),
		Runs: []api.WorldRun{}, Changes: []api.WorldChange{}, Outcome: r.Outcome, Named: r.Named(), Bad: r.Bad,
	}
	if !r.Red {
		out.Recovered = afterAlert(r.Recovered)
	}
	for _, f := range r.Failures {
		out.Result, out.Wrong = "failed", append(out.Wrong, f.Text)
	}
	if len(r.Excused) > 0 {
		out.Known = s.Known.Why
	}
	for _, x := range r.Runs {
		run := api.WorldRun{Service: x.Service, Path: append([]string{}, x.Path...), Outcome: x.Outcome, Returns: x.Return}
		if x.Playbook != nil {
			run.Playbook = x.Playbook.Name
		}
		out.Runs = append(out.Runs, run)
	}
	for _, c := range r.Changes {
		change := api.WorldChange{Lever: c.Lever, After: afterAlert(c.At), Returns: c.Return, Verdict: c.Verdict}
		if c.Undone > 0 {
			change.Undone = afterAlert(c.Undone)
		}
		out.Changes = append(out.Changes, change)
	}
	if verbose || len(r.Failures) > 0 {
		for _, l := range r.Timeline {
			out.Timeline = append(out.Timeline, api.WorldLine{After: afterAlert(l.After), Run: l.Run, Text: l.Text})
		}
	}
	return out
}

func afterAlert(d time.Duration) string { return d.Round(time.Second).String() }

// writeWorlds writes the scenarios that failed, or all, and their sums.
func writeWorlds(w io.Writer, r api.PlaybookTest, verbose bool) {
	for _, x := range r.Worlds {
		if !verbose && x.Result == "ok" {
			continue
		}
		word := map[bool]string{true: "ok", false: "FAILED"}[x.Result == "ok"]
		end := "recovered after " + x.Recovered
		if x.Recovered == "" {
			end = "not recovered"
		}
		fmt.Fprintf(w, "%-6s  %s (%s, %s)\n", word, runview.Printable(x.Scenario), end, runview.Count(x.Bad, "bad minute"))
		hanging(w, "        ", "", x.Title)
		if x.Known != "" {
			hanging(w, "        ", "", "known: "+x.Known)
		}
		for _, l := range x.Timeline {
			for i, text := range strings.Split(l.Text, "\n") {
				head := fmt.Sprintf("        %8s  %-4s", "+"+l.After, l.Run)
				if i > 0 {
					head = strings.Repeat(" ", len(head)+2)
				}
				hanging(w, head, "", text)
			}
		}
		for _, wrong := range x.Wrong {
			hanging(w, "        ", "    ", x.File+": "+wrong)
		}
	}
	f := r.Figures
	if f == nil {
		return
	}
	hanging(w, "", "  ", fmt.Sprintf("%s: cause named in %d of %d, right levers in %d, harmful changes %d, useless changes taken back %d of %d, recovered %d of %d, %s",
		runview.Count(f.Scenarios, "scenario"), f.Named, f.Causes, f.Levers, f.Harmful, f.TakenBack, f.Useless, f.Recovered, f.Curable, runview.Count(f.BadMinutes, "bad minute")))
}
