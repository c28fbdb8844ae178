package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/engine/golden"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// Recording is what a service that is known to be good answers to golden prompts.
type Recording struct {
	File  golden.File
	Asked int      // replicas and the endpoint, as far as they answered
	Notes []string // what keeps the recording from being as good as it could be
}

// leastCommon is how many tokens completions should have in common, so that a
// difference within the first tokens is seen.
const leastCommon = 8

// Record asks the service's endpoint and replicas for each prompt twice, and records
// what all completions have in common: tokens that differ between replicas, or from
// one time to the next, prove nothing. It keeps to the budget of the service's probe.
func Record(ctx context.Context, d step.Deps, svc playbook.Service, prompts []golden.Prompt, now time.Time) (Recording, error) {
	set, ok := d.Probes.Settings(svc.Name)
	if !ok {
		return Recording{}, fmt.Errorf("service %s has no probe: set probe in its entry of the catalog", svc.Name)
	}
	var out Recording
	r := goldenRun{set: set, service: svc, now: now, prompts: slices.Concat(prompts, prompts)}
	if d.Workloads == nil {
		out.Notes = append(out.Notes, "no cluster is configured: only the endpoint is asked, which may tell no token ids")
	} else if w, err := d.Workloads.Workload(ctx, step.RefOf(svc)); err != nil {
		out.Notes = append(out.Notes, "only the endpoint is asked, which may tell no token ids: "+err.Error())
	} else {
		r.workload = w
	}
	r.choose(d.Probes)
	r.ask(ctx, d.Probes)
	completions := make([][]golden.Completion, len(prompts))
	take := func(name string, a golden.Answer) {
		if len(a.Completions) < len(r.prompts) {
			if why := cmp.Or(a.Why, "there was no time for all prompts"); a.State != golden.Skipped || name != "the endpoint" {
				out.Notes = append(out.Notes, fmt.Sprintf("%s is left out: %s", name, why))
			}
			return
		}
		out.Asked++
		for i, c := range a.Completions {
			completions[i%len(prompts)] = append(completions[i%len(prompts)], c)
		}
	}
	for i, a := range r.answers { // before the endpoint: they may tell ids
		take(r.pods[i].Name, a)
	}
	take("the endpoint", r.gateway)
	if out.Asked == 0 {
		return Recording{}, errors.New("nothing answered every prompt: " + cmp.Or(strings.Join(out.Notes, "; "), r.gateway.Why))
	}
	out.File = golden.File{Recorded: now.UTC().Truncate(time.Second), Model: set.Model}
	for i, p := range prompts {
		p.Expect = golden.Agreed(completions[i])
		switch n := p.Expect.Length(); {
		case p.Expect == nil:
			out.Notes = append(out.Notes, fmt.Sprintf("%s: not even the first token is the same each time, so nothing is recorded; choose another prompt", p.Name))
		case n < leastCommon && !p.Expect.Ends:
			out.Notes = append(out.Notes, fmt.Sprintf("%s: only %d tokens are the same each time; choose a prompt with a plainer continuation", p.Name, n))
		}
		out.File.Prompts = append(out.File.Prompts, p)
	}
	return out, nil
}
