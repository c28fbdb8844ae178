package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// shownFlags are the flags that evidence shows: those that decide what a batch, the
// cache and a token cost.
var shownFlags = map[string][]string{
	"vllm": {
		"max-num-seqs", "max-num-batched-tokens", "max-model-len", "gpu-memory-utilization", "kv-cache-dtype", "quantization", "tensor-parallel-size", "data-parallel-size",
		"enable-prefix-caching", "enable-chunked-prefill", "long-prefill-token-threshold", "speculative-config", "kv-transfer-config",
	},
	"sglang": {
		"max-running-requests", "max-queued-requests", "chunked-prefill-size", "context-length", "mem-fraction-static", "schedule-conservativeness",
		"kv-cache-dtype", "quantization", "tp-size", "disable-radix-cache", "speculative-algorithm", "disaggregation-mode",
	},
}

// longestFlag bounds a value that evidence shows.
const longestFlag = 120

// declared returns the flags that the live object sets, as a change in Git finds them: those
// of these names, or those that evidence shows. note says why some are not known; empty:
// none of them is.
func declared(ctx context.Context, o step.Objects, svc playbook.Service, names ...string) (flags map[string]string, note string) {
	e, known := engine.Named(svc.Engine)
	ref := step.RefOf(svc)
	if o == nil || !known || ref.Name == "" {
		return nil, ""
	}
	data, err := o.Object(ctx, kube.ObjectID{Group: "apps", Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name})
	if err != nil {
		return nil, "flags of the manifest are not known: " + step.AsError(err).Message
	}
	target := gitops.Target{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, Container: svc.Container}
	flags = map[string]string{}
	var lacks []string
	for _, p := range e.Programs() {
		wanted := names
		if len(wanted) == 0 {
			wanted = shownFlags[p.Name]
		}
		for _, name := range wanted {
			f, _ := p.Flag(name)
			for _, written := range append([]string{name}, f.Aliases...) {
				r, err := gitops.Live([][]byte{data}, target, gitops.Variable{Flag: written, Switch: f.Kind == engine.Switch})
				switch {
				case err != nil:
					if why := step.AsError(err).Message; !slices.Contains(lacks, why) {
						lacks = append(lacks, why)
					}
				case r.Set && len(r.Value) > longestFlag:
					flags[name] = strings.ToValidUTF8(r.Value[:longestFlag], "") + "..."
				case r.Set:
					flags[name] = r.Value
				}
			}
		}
	}
	if len(lacks) > 0 {
		note = fmt.Sprintf("flags of the manifest are not all known: %s", step.FirstOf(lacks, 2, "; "))
	}
	return flags, note
}

// inManifest adds the flags of the manifest where engines do not tell them, and returns
// lines about those that the engines do not run with.
func (out *snapshotOut) inManifest(flags map[string]string, note string) []string {
	var notes []string
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		runs, told := out.Flags[name]
		switch {
		case !told:
			out.Flags[name] = flags[name]
		case !strings.EqualFold(runs, flags[name]) && !gitops.Same(runs, flags[name]):
			notes = append(notes, fmt.Sprintf("the manifest has --%s %s, and the engines run with %s", name, flags[name], runs))
		}
	}
	if note != "" {
		notes = append(notes, note)
	}
	return notes
}
