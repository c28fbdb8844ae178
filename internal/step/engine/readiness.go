package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// ReadinessKind declares engine.readiness.
func ReadinessKind() playbook.Kind {
	return playbook.Kind{
		Name: "engine.readiness",
		Role: playbook.RoleCheck,
		Doc: `Reports what readiness means for the service's replicas: what the readiness and startup probes of their pods prove, which ready replicas run
requests and take no step, and which are still loading. Probes of the kubelet prove that the engine ` + "`generates`" + ` (SGLang's /health_generate), that its model is
` + "`loaded`" + ` (/v1/models, KServe's /v2/health/ready), that its process is ` + "`alive`" + ` (/health, /live, /ping), that something ` + "`listens`" + ` (a TCP probe), or
` + "`nothing`" + `: without a probe a pod is ready as soon as its container runs. ` + "`weak`" + ` is true of the last three. The stronger of the two probes counts, because
both must have succeeded. SGLang's /health generates too in newer versions, unless SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION is false; which version
runs is not known here, so it counts as alive.

No probe but one that generates shows that an engine makes progress: ask ` + "`engine.progress`" + ` or ` + "`engine.probe`" + `. Workers of a group of pods are not counted; only
their leader answers.`,
		With: step.Fields[readinessWith](),
		Out:  step.Fields[readinessOut](),
	}
}

type readinessWith struct {
	Window step.Duration `json:"window" default:"5m" doc:"Over which steps are counted. A replica that is ready for less is not judged. It must hold two scrapes."`
}

type readinessOut struct {
	Why    string `json:"why" doc:"What being ready proves, and which replicas are silent or loading, in a sentence."`
	Weak   bool   `json:"weak" doc:"Being ready does not prove a loaded model; false also where that is unknown."`
	Proves string `json:"proves" enum:"generates,loaded,alive,listens,nothing,unknown" doc:"What being ready proves, by the readiness and the startup probe of the current revision; unknown: of a command, or of a path that the engine does not document."`
	Probe  string `json:"probe" doc:"The readiness probe, such as GET /health, tcp, grpc, exec or none; empty: not known."`

	Ready              int      `json:"ready" unit:"replicas" doc:"Replicas that are ready."`
	Silent             int      `json:"ready_without_answer" unit:"replicas" doc:"Replicas that are ready for longer than the window and have no series of the engine, or run requests and took no step in it; -1: not known."`
	SilentPods         []string `json:"silent_pods" doc:"Their names, at most 20."`
	SilentPod          string   `json:"silent_pod" doc:"The one, if it is one; empty otherwise."`
	Loading            int      `json:"loading" unit:"replicas" doc:"Replicas that are not ready and whose engine's container runs."`
	LoadingPods        []string `json:"loading_pods" doc:"Their names, at most 20, the longest first."`
	LongestLoading     float64  `json:"longest_loading_seconds" unit:"seconds" doc:"How long the container of the first of them runs; 0: none is loading."`
	UsualLoading       *float64 `json:"usual_loading_seconds,omitempty" unit:"seconds" doc:"How long the ready replicas took from the start of their pod until they were ready, the median."`
	LongestUsual       *float64 `json:"longest_usual_loading_seconds,omitempty" unit:"seconds" doc:"The longest of them."`
	YoungestReady      *float64 `json:"youngest_ready_seconds,omitempty" unit:"seconds" doc:"For how long the replica is ready that became so last."`
	LoadingOverdue     int      `json:"loading_overdue" unit:"replicas" doc:"Loading replicas that load for longer than load_time of the service, or without it twice as long as the slowest ready replica took; 0 also where neither is known."`
	LoadingOverduePods []string `json:"loading_overdue_pods" doc:"Their names, at most 20."`
}

// What being ready proves, least first, and values of readinessOut.Proves.
const (
	provesNothing   = "nothing"
	provesListens   = "listens"
	provesAlive     = "alive"
	provesLoaded    = "loaded"
	provesGenerates = "generates"
)

var proofs = []string{provesNothing, provesListens, provesAlive, provesLoaded, provesGenerates}

type readiness struct {
	q step.Querier
	w step.Workloads
}

// NewReadiness returns the check engine.readiness.
func NewReadiness(d step.Deps) step.Check { return readiness{d.Querier, d.Workloads} }

// Run implements [step.Check].
func (c readiness) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[readinessWith](ReadinessKind(), in.With)
	if err != nil {
		return step.Finding{}, err
	}
	if c.w == nil {
		return step.Finding{}, step.NotConfigured("cluster", "kubernetes")
	}
	w, err := c.w.Workload(ctx, step.RefOf(in.Service))
	if err != nil {
		return step.Finding{}, err
	}
	pods := slices.DeleteFunc(slices.Clone(w.Pods), func(p kube.Pod) bool { return p.Worker || p.Phase == "Terminating" })
	out := readinessOut{Silent: -1, SilentPods: []string{}, LoadingPods: []string{}, LoadingOverduePods: []string{}}
	out.proof(pods, w.Revision, in.Service)
	out.loading(w, pods, in)
	var note string
	if silent, why := c.silent(ctx, in, pods, time.Duration(with.Window)); why == "" {
		out.Silent, out.SilentPods = len(silent), append(out.SilentPods, silent[:min(len(silent), maxReplicas)]...)
		if len(silent) == 1 {
			out.SilentPod = silent[0]
		}
	} else {
		note = "which ready replicas take no step is not known: " + why
	}
	out.Why = out.words(time.Duration(with.Window))
	facts := []string{out.Why}
	if note != "" {
		facts = append(facts, note)
	}
	return step.Finding{Out: out, Facts: facts}, nil
}

// proof tells what being ready proves, by a pod of the current revision, else any.
func (out *readinessOut) proof(pods []kube.Pod, revision int64, svc playbook.Service) {
	out.Proves = isUnknown
	at := slices.IndexFunc(pods, func(p kube.Pod) bool { return p.Revision == revision && len(p.Containers) > 0 })
	if at < 0 {
		at = slices.IndexFunc(pods, func(p kube.Pod) bool { return len(p.Containers) > 0 })
	}
	if at < 0 {
		return
	}
	c, ok := engineContainer(pods[at], svc.Container)
	if !ok {
		return
	}
	out.Probe = probeText(c.Readiness)
	ready, start := proves(c.Readiness, svc.Engine), proves(c.Startup, svc.Engine)
	best := max(slices.Index(proofs, ready), slices.Index(proofs, start))
	if unknown := ready == isUnknown || start == isUnknown; !unknown || best >= slices.Index(proofs, provesLoaded) {
		out.Proves = proofs[best]
	}
	out.Weak = out.Proves != isUnknown && best < slices.Index(proofs, provesLoaded)
}

// proves returns what the success of one probe of the kubelet proves.
func proves(p kube.HealthProbe, engine string) string {
	switch p.Kind {
	case "":
		return provesNothing
	case "tcp":
		return provesListens
	case "http":
	default:
		return isUnknown
	}
	path, _, _ := strings.Cut(p.Path, "?")
	path = strings.TrimSuffix(path, "/")
	models := func(prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }
	switch {
	case path == "/health_generate" && (engine == "sglang" || engine == "dynamo" || engine == ""):
		return provesGenerates
	case models("/v1/models"), models("/openai/v1/models"), path == "/v2/health/ready", strings.HasPrefix(path, "/v2/models/") && strings.HasSuffix(path, "/ready"):
		return provesLoaded
	case slices.Contains([]string{"/health", "/healthz", "/live", "/ping", "/version", "/v2/health/live", ""}, path):
		return provesAlive
	}
	return isUnknown
}

func probeText(p kube.HealthProbe) string {
	if p.Kind == "http" {
		return "GET " + cmp.Or(p.Path, "/")
	}
	return cmp.Or(p.Kind, "none")
}

// loading counts the replicas that are ready and those that are becoming so.
func (out *readinessOut) loading(w kube.Workload, pods []kube.Pod, in step.Input) {
	type one struct {
		name string
		age  time.Duration
	}
	var loading []one
	var since []float64
	for _, p := range pods {
		if p.Ready {
			out.Ready++
			if !p.ReadySince.IsZero() {
				since = append(since, max(0, in.Now.Sub(p.ReadySince).Seconds()))
			}
			continue
		}
		if c, ok := engineContainer(p, in.Service.Container); ok && !c.Since.IsZero() {
			loading = append(loading, one{p.Name, max(0, in.Now.Sub(c.Since))})
		}
	}
	slices.SortFunc(loading, func(a, b one) int { return cmp.Or(cmp.Compare(b.age, a.age), strings.Compare(a.name, b.name)) })
	limit := in.Service.LoadTime
	if took := step.Loadings(w); len(took) > 0 {
		slowest := took[len(took)-1]
		out.UsualLoading, out.LongestUsual = known(took[len(took)/2].Seconds()), known(slowest.Seconds())
		if limit == 0 {
			limit = 2 * slowest
		}
	}
	if len(since) > 0 {
		out.YoungestReady = known(slices.Min(since))
	}
	out.Loading = len(loading)
	for i, l := range loading {
		overdue := limit > 0 && l.age > limit
		if overdue {
			out.LoadingOverdue++
		}
		if i == 0 {
			out.LongestLoading = l.age.Seconds()
		}
		if i < maxReplicas {
			out.LoadingPods = append(out.LoadingPods, l.name)
			if overdue {
				out.LoadingOverduePods = append(out.LoadingOverduePods, l.name)
			}
		}
	}
}

// silent returns the pods that are ready for longer than the window, have requests and
// take no step in it. A replica that got no request is idle, and SGLang counts generated
// tokens only as a request ends. why says why that is not known; empty: it is.
func (c readiness) silent(ctx context.Context, in step.Input, pods []kube.Pod, window time.Duration) (silent []string, why string) {
	ask, err := asked(c.q, ReadinessKind().Name, in)
	if err != nil {
		return nil, err.Error()
	}
	shown, none, err := slo.Replicas(ctx, step.Patient(c.q), ask.Service, ask.Progress, in.Now, window, 1)
	switch {
	case err != nil:
		return nil, err.Error()
	case none != "":
		return nil, none
	case len(shown) == 0:
		return nil, "the engine has no series"
	}
	_, dark, note := match(shown, pods)
	if note != "" {
		return nil, note
	}
	still, err := slo.StandStill(ctx, step.Patient(c.q), ask.Service, ask.Progress, in.Now)
	if err != nil {
		return nil, err.Error()
	}
	if still.Note != "" && slices.ContainsFunc(shown, func(r slo.Shown) bool { return !(r.Running <= 0) }) {
		return nil, still.Note
	}
	for _, p := range pods {
		if !p.Ready || p.ReadySince.IsZero() || in.Now.Sub(p.ReadySince) < window {
			continue
		}
		at := slices.IndexFunc(shown, func(r slo.Shown) bool { return r.Name == p.Name })
		switch {
		case at < 0 && slices.ContainsFunc(dark, func(d progressing) bool { return d.Name == p.Name }):
			silent = append(silent, p.Name)
		case at >= 0 && shown[at].Fresh() && shown[at].Steps == 0 && slices.ContainsFunc(still.Stuck, func(r slo.Replica) bool { return r.Name == p.Name }):
			silent = append(silent, p.Name)
		}
	}
	slices.Sort(silent)
	return silent, ""
}

// words is the evidence in a sentence.
func (out readinessOut) words(window time.Duration) string {
	var parts []string
	if out.Probe == "" {
		parts = append(parts, "what readiness proves is not known: no pod declares its containers")
	} else {
		means := map[string]string{
			provesNothing: "proves nothing: a pod is ready as soon as its container runs", provesListens: "proves only that something listens",
			provesAlive: "proves only that the engine's process is alive", provesLoaded: "proves a loaded model", provesGenerates: "proves that the engine generates",
			isUnknown: "proves nothing that is known",
		}
		parts = append(parts, fmt.Sprintf("being ready (%s) %s", out.Probe, means[out.Proves]))
	}
	parts = append(parts, fmt.Sprintf("%d replicas are ready", out.Ready))
	if out.Silent > 0 {
		parts = append(parts, fmt.Sprintf("%d of them took no step for %s: %s", out.Silent, step.DurationText(window), step.FirstOf(out.SilentPods, 5, ", ")))
	}
	if out.Loading > 0 {
		parts = append(parts, fmt.Sprintf("%d are loading, the longest for %s: %s", out.Loading, durationOf(out.LongestLoading), step.FirstOf(out.LoadingPods, 5, ", ")))
		if out.LongestUsual != nil {
			parts = append(parts, fmt.Sprintf("the ready ones took up to %s", durationOf(*out.LongestUsual)))
		}
	}
	if out.LoadingOverdue > 0 {
		parts = append(parts, fmt.Sprintf("%d of them are overdue", out.LoadingOverdue))
	}
	return strings.Join(parts, "; ")
}

func durationOf(s float64) string { return step.DurationText(time.Duration(s * float64(time.Second))) }
