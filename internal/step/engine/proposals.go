package engine

import (
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

const (
	fewAccepted = 0.4 // of the drafted tokens: computing the others costs a busy engine more than they save
	fewer       = 0.7 // times the tokens of before: throughput fell
	tokenLater  = 1.5 // times: tokens wait for the prompts of others
)

// propose lists what people may change where a run may not: it changes answers, needs
// other hardware, or another topology. Each names the figures that speak for it.
func (out *snapshotOut) propose(s sight, svc playbook.Service) {
	out.Proposals = []string{}
	if out.Bound == boundUnknown {
		return
	}
	add := func(format string, args ...any) { out.Proposals = append(out.Proposals, fmt.Sprintf(format, args...)) }
	now, before := s.view.Now, s.view.Before[0]
	busy := out.Bound == boundQueue || out.Bound == boundKV || out.Bound == boundDecode
	drafts := step.IsFinite(now.AcceptRate) || out.Flags["speculative-config"] != "" || out.Flags["speculative-algorithm"] != ""

	if busy && now.AcceptRate < fewAccepted {
		add("Speculative decoding: %s of the drafted tokens are accepted, and the others take room in full batches. Try one replica without it.", slo.Percent(now.AcceptRate))
	}
	if tpot := shortest(svc, "tpot"); tpot > 0 && now.TokenSeconds > tpot && out.Bound == boundNone {
		what := "Quantised weights, more GPUs for one engine (tensor parallelism)"
		if !drafts {
			what += " or speculative decoding"
		}
		add("%s: a token takes %s in small batches, the objective allows %s, so neither fewer requests nor more replicas shorten it. All of these are proven with golden prompts first.", what, seconds(now.TokenSeconds), seconds(tpot))
	}
	if dtype := out.Flags["kv-cache-dtype"]; out.Bound == boundKV && out.KVTokens != nil && (dtype == "auto" || strings.HasSuffix(dtype, "16")) {
		add("Quantised KV cache (kv-cache-dtype fp8, now %s): it holds about twice the tokens, %.0f instead of %.0f. It changes answers, so compare golden prompts first.", dtype, 2**out.KVTokens, *out.KVTokens)
	}
	grew, later := now.PromptMean/before.PromptMean, now.TokenSeconds/before.TokenSeconds
	if grew >= growsClearly && later >= tokenLater && out.Flags["kv-transfer-config"] == "" && out.Flags["disaggregation-mode"] == "" {
		add("Disaggregation, prompts on engines of their own: prompts have %.0f tokens, they had %.0f, and the tokens of all others wait for them: %s each, before %s.", now.PromptMean, before.PromptMean, seconds(now.TokenSeconds), seconds(before.TokenSeconds))
	}
	if now.Transfers > 0 {
		add("GPU-direct transport: %.2g transfers of KV blocks per second fail between engines. Look at NIXL or UCX, RDMA and the links of their nodes; until then their prompts are computed again, or fail.", now.Transfers)
	}
	if out.Bound == boundNone && now.OutputTokens < fewer*before.OutputTokens && now.TokenSeconds >= growsClearly*before.TokenSeconds {
		add("Low throughput: %.4g tokens per second are generated, before %.4g, and each takes %s, before %s, though batches are small. Compare the clocks and links of the GPUs, and the revisions.", now.OutputTokens, before.OutputTokens, seconds(now.TokenSeconds), seconds(before.TokenSeconds))
	}
}
