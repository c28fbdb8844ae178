package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// CrashesKind declares engine.crashes.
func CrashesKind() playbook.Kind {
	return playbook.Kind{
		Name: "engine.crashes",
		Role: playbook.RoleCheck,
		Doc: `Reports which of the service's replicas ended with an error, and why: by what Kubernetes says of their containers, and by the last lines that they
printed. Of those lines only the kind of error and amounts of memory are kept, never the text: it may hold what users asked. Without the right to get
pods/log the termination message is read instead (` + "`terminationMessagePolicy: FallbackToLogsOnError`" + ` fills it); without both the cause is unknown.

Causes: ` + "`host_memory`" + ` (killed for using more than its memory limit), ` + "`gpu_memory`" + ` (CUDA ran out of memory), ` + "`cache_too_small`" + ` (what the weights leave cannot hold
one sequence of the longest length), ` + "`gpu_taken`" + ` (somebody else holds memory of the GPU), ` + "`gpu_error`" + ` (the GPU or its driver failed), ` + "`bad_flag`" + ` (the command line was
refused), ` + "`no_model`" + ` (the model or its registry cannot be read), ` + "`killed`" + ` (by the kubelet, for its liveness probe for instance), ` + "`other`" + ` and ` + "`unknown`" + `. ` + "`cause`" + ` is that of
most crashed replicas; ` + "`mixed`" + ` if none has most.`,
		With: step.Fields[crashesWith](),
		Out:  step.Fields[crashesOut](),
	}
}

// Causes beside those of [engine.Crash], and values of phase.
const (
	crashNone       = "none"
	crashMixed      = "mixed"
	crashHostMemory = "host_memory"
	crashKilled     = "killed"

	phaseStart   = "start"
	phaseService = "service"
)

// maxLogs bounds the logs that one check reads, maxCrashes the replicas that
// evidence names.
const (
	maxLogs    = 5
	maxCrashes = 20
)

type crashesWith struct {
	Window step.Duration `json:"window" default:"1h" doc:"How long ago a crash counts."`
}

type crashesOut struct {
	Why         string    `json:"why" doc:"How many replicas crashed, why, and when in their life, in a sentence."`
	Cause       string    `json:"cause" enum:"none,host_memory,gpu_memory,cache_too_small,gpu_taken,gpu_error,bad_flag,no_model,killed,other,unknown,mixed" doc:"Why they crashed."`
	Phase       string    `json:"phase" enum:"none,start,service,unknown,mixed" doc:"Whether they crashed before they were ready or while they served."`
	Crashed     int       `json:"crashed" unit:"replicas" doc:"Replicas that crashed within the window."`
	Down        int       `json:"down" unit:"replicas" doc:"Those of them that are not ready now."`
	Repeated    int       `json:"repeated" unit:"replicas" doc:"Those of them that crashed twice or more within the window."`
	Ready       int       `json:"ready" unit:"replicas" doc:"Replicas that are ready."`
	CurrentOnly bool      `json:"current_only" doc:"Only replicas of the current revision crash, while one of an earlier revision is ready."`
	Node        string    `json:"node" doc:"The node on which all of them crashed, while replicas on other nodes did not; empty otherwise."`
	MemoryLimit int64     `json:"memory_limit_bytes" unit:"bytes" doc:"Memory that the container of the first of them may use; 0: as much as its node has, or none crashed."`
	Replicas    []crashed `json:"replicas" doc:"The replicas that crashed, the latest first, at most 20."`
	Missing     string    `json:"missing" doc:"Why causes are not known; empty: they are."`
}

type crashed struct {
	Name      string  `json:"name" doc:"Pod."`
	Node      string  `json:"node" doc:"Its node."`
	Revision  int64   `json:"revision" doc:"Its revision; 0: not known."`
	Container string  `json:"container" doc:"The container that ended."`
	Cause     string  `json:"cause" doc:"Why, as of the service."`
	Phase     string  `json:"phase" enum:"start,service,unknown" doc:"When in its life."`
	What      string  `json:"what" doc:"Name of the error, or amounts of memory that it gives; empty: none."`
	ExitCode  int     `json:"exit_code" doc:"Of the container."`
	Restarts  int     `json:"restarts" doc:"How often containers of the pod were started again in its whole life."`
	Again     bool    `json:"again" doc:"It crashed twice or more within the window: what ended last had itself been started again within it."`
	Age       float64 `json:"age_seconds" unit:"seconds" doc:"Since it ended."`
	Ready     bool    `json:"ready" doc:"The pod is ready again."`
}

type crashes struct {
	w    step.Workloads
	logs step.Logs
}

// NewCrashes returns the check engine.crashes.
func NewCrashes(d step.Deps) step.Check { return crashes{d.Workloads, d.Logs} }

// Run implements [step.Check].
func (c crashes) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[crashesWith](CrashesKind(), in.With)
	if err != nil {
		return step.Finding{}, err
	}
	if c.w == nil {
		return step.Finding{}, &fault.Error{Reason: fault.Invalid, Message: "no cluster is configured: set kubernetes"}
	}
	w, err := c.w.Workload(ctx, step.RefOf(in.Service))
	if err != nil {
		return step.Finding{}, err
	}
	ended := slices.DeleteFunc(slices.Clone(w.Pods), func(p kube.Pod) bool {
		return p.Ended == nil || p.Ended.At.Before(in.Now.Add(-time.Duration(with.Window)))
	})
	slices.SortStableFunc(ended, func(a, b kube.Pod) int {
		return cmp.Or(b.Ended.At.Compare(a.Ended.At), cmp.Compare(a.Name, b.Name))
	})
	out := crashesOut{Cause: crashNone, Phase: crashNone, Crashed: len(ended), Ready: w.Ready, Replicas: []crashed{}}
	for i, p := range ended {
		r, lack := c.judge(ctx, w.Ref.Namespace, p, i < maxLogs)
		r.Age = in.Now.Sub(p.Ended.At).Seconds()
		out.Missing = cmp.Or(out.Missing, lack)
		if r.Again = again(p, in.Now.Add(-time.Duration(with.Window))); r.Again {
			out.Repeated++
		}
		out.Replicas = append(out.Replicas, r)
		if !p.Ready {
			out.Down++
		}
	}
	if len(ended) > 0 {
		out.Cause = most(out.Replicas, func(r crashed) string { return r.Cause })
		out.Phase = most(out.Replicas, func(r crashed) string { return r.Phase })
		out.MemoryLimit = ended[0].Ended.MemoryLimit
		out.CurrentOnly = currentOnly(w, ended)
		out.Node = oneNode(w.Pods, ended)
	}
	out.Replicas = out.Replicas[:min(len(out.Replicas), maxCrashes)]
	out.Why = out.sentence(time.Duration(with.Window))
	facts := []string{out.Why}
	if out.Missing != "" {
		facts = append(facts, out.Missing)
	}
	return step.Finding{Out: out, Facts: facts}, nil
}

// again reports whether a pod crashed more than once since a moment. Kubernetes keeps
// only the last end of a container, and when what ended then began: where that was a
// restart, the crash before it came just before.
func again(p kube.Pod, since time.Time) bool {
	before := p.Restarts
	if p.Ended.Again {
		before-- // the start after the last end
	}
	return before > 0 && !p.Ended.Began.Before(since)
}

// judge returns why one replica crashed. lack says why that is not known.
func (c crashes) judge(ctx context.Context, namespace string, p kube.Pod, read bool) (r crashed, lack string) {
	e := *p.Ended
	r = crashed{Name: p.Name, Node: p.Node, Revision: p.Revision, Container: e.Container, ExitCode: e.ExitCode, Restarts: p.Restarts, Ready: p.Ready, Phase: isUnknown}
	switch e.Served {
	case kube.ServedYes:
		r.Phase = phaseService
	case kube.ServedNo:
		r.Phase = phaseStart
	}
	if e.Reason == "OOMKilled" {
		r.Cause = crashHostMemory
		return r, ""
	}
	cause, what := engine.Crash(e.Message)
	if (cause == engine.CrashUnknown || cause == engine.CrashOther) && read {
		text, err := c.lastLog(ctx, namespace, p.Name, e)
		if err != nil {
			lack = "the log of " + p.Name + " cannot be read: " + err.Error()
		} else if found, more := engine.Crash(text); found != engine.CrashUnknown {
			cause, what = found, more
		}
	}
	r.Cause, r.What = string(cause), what
	if cause == engine.CrashUnknown && (e.ExitCode == 137 || e.ExitCode == 143) { // SIGKILL, SIGTERM
		r.Cause, lack = crashKilled, ""
	}
	if cause != engine.CrashUnknown {
		lack = ""
	}
	return r, lack
}

func (c crashes) lastLog(ctx context.Context, namespace, pod string, e kube.Ended) (string, error) {
	if c.logs == nil {
		return "", &fault.Error{Reason: fault.Invalid, Message: "no logs are read here"}
	}
	return c.logs.Log(ctx, kube.LogQuery{Namespace: namespace, Pod: pod, Container: e.Container, Previous: e.Again})
}

// most returns the value that more than half of the replicas have, of those of which
// it is known.
func most(all []crashed, value func(crashed) string) string {
	var known []string
	for _, r := range all {
		if v := value(r); v != isUnknown {
			known = append(known, v)
		}
	}
	if len(known) == 0 {
		return isUnknown
	}
	count := map[string]int{}
	for _, v := range known {
		if count[v]++; 2*count[v] > len(known) {
			return v
		}
	}
	return crashMixed
}

// currentOnly reports whether only the current revision crashes, and another serves.
func currentOnly(w kube.Workload, ended []kube.Pod) bool {
	if w.Revision == 0 || slices.ContainsFunc(ended, func(p kube.Pod) bool { return p.Revision != w.Revision }) {
		return false
	}
	return slices.ContainsFunc(w.Pods, func(p kube.Pod) bool { return p.Ready && p.Revision != 0 && p.Revision != w.Revision })
}

// oneNode returns the node that all crashed replicas ran on, if others run elsewhere.
func oneNode(all, ended []kube.Pod) string {
	node := ended[0].Node
	if node == "" || slices.ContainsFunc(ended, func(p kube.Pod) bool { return p.Node != node }) {
		return ""
	}
	if !slices.ContainsFunc(all, func(p kube.Pod) bool { return p.Ready && p.Node != node }) {
		return ""
	}
	return node
}

var crashWords = map[string]string{
	crashHostMemory: "killed for using more memory than their limit", string(engine.CrashGPUMemory): "the GPU ran out of memory",
	string(engine.CrashCacheTooSmall): "the memory that the weights leave is too little for the KV cache", string(engine.CrashGPUTaken): "somebody else holds memory of the GPU",
	string(engine.CrashGPUError): "the GPU or its driver failed", string(engine.CrashFlag): "the command line was refused", string(engine.CrashModel): "the model cannot be read",
	crashKilled: "killed by the kubelet", string(engine.CrashOther): "another error", string(engine.CrashUnknown): "why is not known", crashMixed: "for several reasons",
}

func (o crashesOut) sentence(window time.Duration) string {
	if o.Crashed == 0 {
		return "no replica crashed within " + step.DurationText(window)
	}
	when := map[string]string{phaseStart: " as they started", phaseService: " while they served"}[o.Phase]
	figures := ""
	for _, r := range o.Replicas {
		if figures == "" && r.Cause == o.Cause && r.What != "" {
			figures = " (" + r.What + ")"
		}
	}
	parts := []string{fmt.Sprintf("%d crashed within %s%s: %s%s", o.Crashed, step.DurationText(window), when, crashWords[o.Cause], figures)}
	if o.Down > 0 {
		parts = append(parts, fmt.Sprintf("%d of them not ready", o.Down))
	}
	if o.Node != "" {
		parts = append(parts, "all on node "+o.Node)
	}
	if o.CurrentOnly {
		parts = append(parts, "only the current revision crashes")
	}
	return strings.Join(parts, "; ")
}
