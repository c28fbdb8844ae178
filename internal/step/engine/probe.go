package engine

import (
	"context"

	"github.com/inference-responder/responder/internal/engine/golden"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// GoldenKind declares engine.probe.
func GoldenKind() playbook.Kind {
	return playbook.Kind{
		Name: "engine.probe",
		Role: playbook.RoleCheck,
		Doc: `Asks the service's endpoint and each ready replica for real, streamed completions of the operator's golden prompts, at temperature 0, and compares
them with what the file of golden prompts expects: by token ids where the server tells them, else by text. A replica ` + "`answered`" + ` when each prompt it was
asked came back whole, ` + "`hung`" + ` when no token came for as long as the service's probe.timeout allows (it is stuck, or its queue is longer than that:
` + "`engine.progress`" + ` tells which), ` + "`failed`" + ` when it refused, or ended early, and ` + "`skipped`" + ` when it was not asked. Kernels, batches and
hardware may change late tokens without anything being wrong, so only a difference within the first tokens counts, and only of several prompts: see ` + "`within`" + `
and ` + "`least`" + `. Equal text is no difference, whatever its tokens.

It costs the engine tokens, so it has a budget (probe.tokens_per_hour), asks one replica at most once in probe.every, and one at a time. Without a budget, and
without ` + "`probe`" + ` in the service's entry of the catalog, nothing is sent and ` + "`probed`" + ` is false. Neither prompts nor completions are ever shown: evidence
has the names of prompts and a digest of their file.`,
		With: step.Fields[goldenWith](),
		Out:  step.Fields[goldenOut](),
	}
}

type goldenWith struct {
	Within int `json:"within" default:"8" min:"1" max:"1024" doc:"A completion is wrong if it differs within so many of its first tokens."`
	Least  int `json:"least" default:"2" min:"1" max:"64" doc:"And a replica is wrong if so many of its completions are, or all of them, if it has fewer."`
}

type goldenOut struct {
	Probed bool   `json:"probed" doc:"The endpoint or a replica was asked, and its answer, or that none came, is in the evidence. False: nothing was asked."`
	Soon   bool   `json:"soon" doc:"Nothing was asked, because a replica was asked less than probe.every ago, perhaps by another run: ask again once that has passed."`
	Why    string `json:"why" doc:"The same in a sentence, or why nothing was asked: no probe is configured, or the budget is spent, and until when."`

	Asked    int      `json:"asked" unit:"replicas" doc:"Replicas that were asked."`
	Answered int      `json:"answered" unit:"replicas" doc:"Of those, replicas that answered every prompt."`
	Hung     int      `json:"hung" unit:"replicas" doc:"Of those, replicas that sent no token, or no more of them, for as long as probe.timeout allows."`
	Failed   int      `json:"failed" unit:"replicas" doc:"Of those, replicas that refused the request or the connection, or ended it early."`
	Skipped  int      `json:"skipped" unit:"replicas" doc:"Ready replicas that were not asked: beyond probe.replicas, asked too short a time ago, or without an address."`
	HungPod  string   `json:"hung_pod" doc:"The replica that hung, if it is one; empty otherwise."`
	TTFTP50  *float64 `json:"ttft_p50,omitempty" unit:"seconds" doc:"Time to the first token that half of the replicas' completions had at most, as a client sees it."`
	TTFTMax  *float64 `json:"ttft_max,omitempty" unit:"seconds" doc:"The longest of them."`
	ITLP50   *float64 `json:"itl_p50,omitempty" unit:"seconds" doc:"Time between two tokens that half of the replicas' completions had at most, each by its mean."`

	Gateway goldenGateway `json:"gateway" doc:"The service's endpoint: what clients get."`

	Prompts       int      `json:"prompts" doc:"Golden prompts."`
	Golden        string   `json:"golden" doc:"Digest of the file of golden prompts: another one means that other answers were expected."`
	Compared      int      `json:"compared" unit:"replicas" doc:"Replicas of which at least one completion was compared."`
	Matched       int      `json:"matched" doc:"Prompts that every compared replica completed as expected."`
	Differed      int      `json:"differed" doc:"Prompts that at least one replica completed otherwise, at whatever token."`
	DifferedAt    int      `json:"differed_at" doc:"The first token that differed, of all completions of replicas, counted from 0; -1: none did."`
	Differing     []string `json:"differing" doc:"Names of the prompts that differed."`
	PromptChanged int      `json:"prompt_changed" doc:"Prompts that became other tokens than those recorded, before anything was generated: the tokenizer or the chat template is another one."`
	Agrees        bool     `json:"agrees" doc:"All replicas completed every prompt alike within the first tokens; also true of fewer than two."`

	Wrong          bool    `json:"wrong" doc:"At least one replica is wrong: its completions differ within the first tokens."`
	WrongReplicas  int     `json:"wrong_replicas" unit:"replicas" doc:"Replicas that are wrong."`
	RightReplicas  int     `json:"right_replicas" unit:"replicas" doc:"Replicas that answered every prompt and are not wrong."`
	WrongPod       string  `json:"wrong_pod" doc:"The wrong replica, if it is one and another one is right; empty otherwise."`
	WrongRevision  int64   `json:"wrong_revision" doc:"Revision of the workload that is wrong, if every compared replica of it is wrong and no other is; 0 otherwise."`
	WrongRevisions []int64 `json:"wrong_revisions" doc:"Revisions with a wrong replica."`
	RightRevisions []int64 `json:"right_revisions" doc:"Revisions with a replica that was compared and is not wrong."`
	WrongCurrent   bool    `json:"wrong_current" doc:"wrong_revision is the workload's current one: wrong since this release, if an earlier revision was right when the file was recorded."`

	Replicas []goldenReplica `json:"replicas" doc:"Each replica, at most 20: hung ones first, then failed, wrong, skipped and answering ones."`
}

type goldenGateway struct {
	State      string   `json:"state" enum:"answered,hung,failed,skipped" doc:"As of replicas; skipped: the service has no endpoint, or it was asked too short a time ago."`
	Answered   bool     `json:"answered" doc:"It answered every prompt."`
	Status     int      `json:"status" doc:"HTTP status code of its last answer; 0: none."`
	Why        string   `json:"why" doc:"Why it did not answer; empty otherwise."`
	TTFT       *float64 `json:"ttft_seconds,omitempty" unit:"seconds" doc:"Time to the first token, the median of its completions."`
	Matched    int      `json:"matched" doc:"Prompts that it completed as expected."`
	Differed   int      `json:"differed" doc:"Prompts that it completed otherwise."`
	DifferedAt int      `json:"differed_at" doc:"The first token that differed, counted from 0; -1: none did."`
	Wrong      bool     `json:"wrong" doc:"Its completions differ within the first tokens."`
}

type goldenReplica struct {
	Name       string   `json:"name" doc:"Pod."`
	Node       string   `json:"node" doc:"Its node."`
	Revision   int64    `json:"revision" doc:"Its revision of the workload; 0: not known."`
	State      string   `json:"state" enum:"answered,hung,failed,skipped" doc:"What became of it."`
	Why        string   `json:"why" doc:"Why it did not answer, or was not compared; empty otherwise."`
	Answered   bool     `json:"answered" doc:"It answered every prompt."`
	Status     int      `json:"status" doc:"HTTP status code of its last answer; 0: none."`
	TTFT       *float64 `json:"ttft_seconds,omitempty" unit:"seconds" doc:"Time to the first token, the median of its completions."`
	ITL        *float64 `json:"itl_seconds,omitempty" unit:"seconds" doc:"Time between two tokens, the median of its completions."`
	Matched    int      `json:"matched" doc:"Prompts that it completed as expected."`
	Differed   int      `json:"differed" doc:"Prompts that it completed otherwise."`
	DifferedAt int      `json:"differed_at" doc:"The first token that differed, counted from 0; -1: none did."`
	Wrong      bool     `json:"wrong" doc:"Its completions differ within the first tokens."`
}

type goldenCheck struct {
	p *golden.Probes
	w step.Workloads
}

// NewGolden returns the check engine.probe.
func NewGolden(d step.Deps) step.Check { return goldenCheck{d.Probes, d.Workloads} }

// Run implements [step.Check]. That nothing was asked is a finding, not an error.
func (c goldenCheck) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[goldenWith](GoldenKind(), in.With)
	if err != nil {
		return step.Finding{}, err
	}
	nothing := func(why string) (step.Finding, error) {
		return step.Finding{Out: emptyGolden(why), Facts: []string{why}}, nil
	}
	set, ok := c.p.Settings(in.Service.Name)
	if !ok {
		return nothing("no probe configured for this service: set probe in its entry of the catalog")
	}
	file, digest, err := c.p.Prompts(in.Service.Name)
	if err != nil {
		return nothing(err.Error())
	}
	r := goldenRun{with: with, set: set, prompts: file.Prompts, service: in.Service, now: in.Now}
	if c.w == nil {
		r.note = "which replicas there are is not known: no cluster is configured"
	} else if r.workload, err = c.w.Workload(ctx, step.RefOf(in.Service)); err != nil {
		r.workload, r.note = kube.Workload{}, "which replicas there are is not known: "+err.Error()
	}
	r.choose(c.p)
	r.ask(ctx, c.p)
	out := r.judge(digest)
	return step.Finding{Out: out, Facts: r.facts(out)}, nil
}

// emptyGolden is the evidence when nothing was asked.
func emptyGolden(why string) goldenOut {
	return goldenOut{
		Why: why, DifferedAt: -1, Differing: []string{}, WrongRevisions: []int64{}, RightRevisions: []int64{}, Replicas: []goldenReplica{},
		Agrees: true, Gateway: goldenGateway{State: string(golden.Skipped), Why: why, DifferedAt: -1},
	}
}
