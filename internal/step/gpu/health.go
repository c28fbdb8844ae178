package gpu

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/judge"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// HealthKind declares gpu.health.
func HealthKind() playbook.Kind {
	return playbook.Kind{
		Name: "gpu.health",
		Role: playbook.RoleCheck,
		Doc: `Judges the GPUs that the service's pods hold, on every node where they run, or all GPUs of one node. GPUs of the same product are compared with
each other. What cannot be read, or is old, makes a verdict ` + "`unknown`" + `, never ` + "`healthy`" + `; so does a service without a running pod, and a configuration
without node agents and dcgm-exporter; and so does a bad condition of the node that names GPUs, such as those of node-problem-detector: who is right is
not known then; and so do conditions that cannot be read. Reasons name the rule, the raw values and where the rule comes from.

Verdicts, mildest first: ` + "`healthy`, `busy`" + ` (at full load, as it should), ` + "`unknown`, `degraded`" + ` (works, worse than it should), ` + "`throttled`" + `
(slowed down now by heat, power brake or hardware), ` + "`failing`" + ` (gives or will give errors).`,
		With: step.Fields[healthWith](),
		Out:  step.Fields[healthOut](),
	}
}

// maxReasons bounds the findings that evidence keeps: it goes into the journal.
const maxReasons = 20

type gpuHealth struct {
	gpus step.GPUs
	w    step.Workloads
	n    step.Nodes // nil: what others say of nodes is not known
	now  func() time.Time
}

// NewHealth returns the check gpu.health.
func NewHealth(d step.Deps) step.Check { return gpuHealth{d.GPUs, d.Workloads, d.Nodes, d.Now} }

type healthWith struct {
	Node string `json:"node" doc:"Judge this node and all its GPUs, whoever holds them, instead of the service's."`
	Also string `json:"also" doc:"Judge these nodes and all their GPUs too, beside the service's: those that alerts name, separated by commas. Empty: none."`
}

type healthOut struct {
	Verdict      judge.Verdict  `json:"verdict" doc:"The worst of the GPUs that count: those the service's pods hold, or all of their nodes where that is not known."`
	Throttle     judge.Throttle `json:"throttle" enum:",thermal,power_brake,hardware" doc:"What slows down the worst of the GPUs that count; empty: nothing."`
	Why          string         `json:"why" doc:"The worst finding in a sentence; empty: nothing is wrong."`
	Node         string         `json:"node" doc:"The node with the worst of them that is degraded, throttled or failing; empty: there is none."`
	GPU          string         `json:"gpu" doc:"UUID of the worst GPU there; empty: there is none, or the whole node is at fault."`
	Reset        bool           `json:"reset" doc:"A GPU there that counts, or one that has left the bus, needs a reset, by NVIDIA's documents."`
	RMA          bool           `json:"rma" doc:"A GPU there that counts is to be replaced, by NVIDIA's documents."`
	RepairGPUs   []string       `json:"repair_gpus" doc:"UUIDs of all GPUs there that count and need one of both: those to be replaced first, and the worst of them. None where one has left the bus, so that nobody can name it: a request is for all of the node's then."`
	RepairWhy    string         `json:"repair_why" doc:"The findings that ask for it in a sentence, GPUs of which the same was found together; empty: there is none."`
	HealthyNodes int            `json:"healthy_nodes" unit:"nodes" doc:"Nodes on which all GPUs that count are healthy or busy."`
	UnknownNodes int            `json:"unknown_nodes" unit:"nodes" doc:"Nodes of which too little is known."`
	UnreadNodes  int            `json:"unread_nodes" unit:"nodes" doc:"Of those, nodes that a configured source of readings should know: they have GPUs by what the cluster says. 0 without node agents and dcgm-exporter."`
	BadNodes     int            `json:"bad_nodes" unit:"nodes" doc:"Nodes on which a GPU that counts is degraded, throttled or failing."`
	HotNodes     int            `json:"hot_nodes" unit:"nodes" doc:"Nodes on which a GPU that counts is slowed down by heat, whatever else is wrong there."`
	BadPods      []string       `json:"bad_pods" doc:"Pods of the service on those nodes."`
	Nodes        []gpuNodeOut   `json:"nodes" doc:"The nodes that were asked about, worst first."`
	Reasons      []gpuFoundOut  `json:"reasons" doc:"Findings that make a GPU that counts worse than busy, worst first, at most 20."`
}

type gpuNodeOut struct {
	Name        string         `json:"name" doc:"Node."`
	Verdict     judge.Verdict  `json:"verdict" doc:"Of the GPUs that count there."`
	NodeVerdict judge.Verdict  `json:"node_verdict" doc:"Of the whole node."`
	Throttle    judge.Throttle `json:"throttle" doc:"What slows its worst GPU down."`
	Source      string         `json:"source" doc:"nvml (the node agent), dcgm, sandbox; empty: there was no answer."`
	AgeSeconds  float64        `json:"age_seconds" unit:"seconds" doc:"Of the readings; -1: there are none."`
	GPUs        int            `json:"gpus" doc:"GPUs of the node that were seen."`
	Pods        []string       `json:"pods" doc:"Pods of the service on the node."`
	Conditions  []string       `json:"conditions" doc:"Conditions of the node that are bad, e.g. GPUMissing=True."`
}

type gpuFoundOut struct {
	Node     string        `json:"node" doc:"Node."`
	GPU      int           `json:"gpu" doc:"Index of the GPU; -1: about the node."`
	UUID     string        `json:"uuid" doc:"Of the GPU."`
	Rule     string        `json:"rule" doc:"Stable name of the rule."`
	Verdict  judge.Verdict `json:"verdict" doc:"What this finding alone says."`
	Text     string        `json:"text" doc:"For people."`
	Evidence string        `json:"evidence" doc:"The raw values."`
	Source   string        `json:"source" doc:"Where the rule comes from."`
}

// Run implements [step.Check].
func (c gpuHealth) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[healthWith](HealthKind(), in.With)
	if err != nil {
		return step.Finding{}, err
	}
	if with.Node != "" && with.Also != "" {
		return step.Finding{}, step.Invalid("gpu.health: node %s alone, or also nodes %s, not both", with.Node, with.Also)
	}
	pods := map[string][]string{with.Node: nil}
	if with.Node == "" {
		if c.w == nil {
			return step.Finding{}, step.NotConfigured("cluster", "kubernetes")
		}
		w, err := c.w.Workload(ctx, step.RefOf(in.Service))
		if err != nil {
			return step.Finding{}, err
		}
		pods = podsByNode(w.Pods)
		for _, node := range with.also() {
			if _, there := pods[node]; !there {
				pods[node] = nil
			}
		}
	}
	nodes := make([]string, 0, len(pods))
	for n := range pods {
		nodes = append(nodes, n)
	}
	slices.Sort(nodes)
	var answers []gpu.Answer
	if c.gpus == nil {
		for _, n := range nodes {
			answers = append(answers, gpu.Answer{Node: n, Err: step.ErrNoGPUSource})
		}
	} else {
		answers = c.gpus.Snapshots(ctx, nodes, 0)
	}
	// The readings are younger than the question, and in the sandbox time flies.
	others, gone := c.conditionsOf(ctx, nodes)
	out, facts := healthOf(c.now(), in.Service.Namespace, answers, others, pods, with.also())
	for _, n := range out.Nodes {
		if c.gpus != nil && n.Verdict == judge.Uncertain && !others[n.Name].noGPUs {
			out.UnreadNodes++
		}
	}
	return step.Finding{Out: out, Facts: append(facts, gone...)}, nil
}

// podsByNode groups the pods that have a node.
func podsByNode(pods []kube.Pod) map[string][]string {
	out := map[string][]string{}
	for _, p := range pods {
		if p.Node != "" {
			out[p.Node] = append(out[p.Node], p.Name)
		}
	}
	return out
}

// also returns the nodes that count beside the service's.
func (w healthWith) also() []string {
	return strings.FieldsFunc(w.Also, func(r rune) bool { return r == ',' || r == ' ' })
}

// healthOf converts answers to evidence and facts. All GPUs of the nodes called
// whole count.
func healthOf(now time.Time, namespace string, answers []gpu.Answer, others map[string]heard, pods map[string][]string, whole []string) (healthOut, []string) {
	counts := map[string]nodeCount{}
	out := healthOut{Verdict: judge.Healthy, BadPods: []string{}, RepairGPUs: []string{}, Nodes: []gpuNodeOut{}, Reasons: []gpuFoundOut{}}
	if len(answers) == 0 {
		out.Verdict, out.Why = judge.Uncertain, "no pod of the service runs on a node"
	}
	for i, j := range judge.Answers(now, answers) {
		counted := pods[j.Node]
		if slices.Contains(whole, j.Node) {
			counted = nil
		}
		j = told(j, others[j.Node])
		n := countNode(j, answers[i], namespace, counted)
		counts[j.Node] = n
		row := gpuNodeOut{Name: j.Node, Verdict: n.verdict, NodeVerdict: j.Verdict, Throttle: n.throttle, Source: j.Source, AgeSeconds: -1, GPUs: len(j.GPUs), Pods: append([]string{}, pods[j.Node]...), Conditions: append([]string{}, others[j.Node].bad...)}
		if !j.TakenAt.IsZero() {
			row.AgeSeconds = now.Sub(j.TakenAt).Seconds()
		}
		out.Nodes = append(out.Nodes, row)
		out.Reasons = append(out.Reasons, n.reasons...)
		out.add(n, row)
	}
	slices.SortStableFunc(out.Nodes, func(a, b gpuNodeOut) int { return worseFirst(a.Verdict, b.Verdict) })
	slices.SortStableFunc(out.Reasons, func(a, b gpuFoundOut) int { return worseFirst(a.Verdict, b.Verdict) })
	if len(out.Nodes) > 0 && out.Nodes[0].Verdict.WorseThan(judge.Uncertain) {
		out.Node = out.Nodes[0].Name
		n := counts[out.Node]
		out.GPU = n.worst
		out.Reset, out.RMA, out.RepairGPUs, out.RepairWhy = n.repair()
	}
	if len(out.Reasons) > 0 {
		out.Why = out.Reasons[0].say()
	}
	facts := out.facts()
	if whole := counts[out.Node].whole; whole != "" { // of a GPU that nobody can name
		out.Reset, out.RepairGPUs = true, []string{}
		out.RepairWhy = strings.TrimPrefix(out.RepairWhy+"; "+gpuFoundOut{Node: out.Node, GPU: -1, Text: whole}.say(), "; ")
	}
	out.Reasons = out.Reasons[:min(len(out.Reasons), maxReasons)]
	return out, facts
}

// add adds a node to the evidence.
func (o *healthOut) add(n nodeCount, row gpuNodeOut) {
	if n.verdict.WorseThan(o.Verdict) {
		o.Verdict, o.Throttle = n.verdict, n.throttle
	}
	if n.hot {
		o.HotNodes++
	}
	switch {
	case n.verdict.WorseThan(judge.Uncertain):
		o.BadNodes++
		o.BadPods = append(o.BadPods, row.Pods...)
	case n.verdict.WorseThan(judge.Busy):
		o.UnknownNodes++
	default:
		o.HealthyNodes++
	}
}

func worseFirst(a, b judge.Verdict) int {
	switch {
	case a.WorseThan(b):
		return -1
	case b.WorseThan(a):
		return 1
	default:
		return 0
	}
}

// nodeCount is the judgement of a node, restricted to the GPUs that count for
// the service.
type nodeCount struct {
	node     string
	verdict  judge.Verdict
	throttle judge.Throttle
	hot      bool              // heat slows one of the GPUs down
	whole    string            // finding about the node that asks for a reset; empty: none
	repairs  []judge.Judgement // of the GPUs that need a reset or a replacement
	reasons  []gpuFoundOut     // worse than busy
	worst    string            // UUID of the GPU; empty: none is worse than busy
}

// countNode judges the GPUs of a node that count: those that the pods hold or,
// if that is unknown, all of them. Faults of the node as a whole always count.
func countNode(j judge.NodeJudgement, a gpu.Answer, namespace string, pods []string) nodeCount {
	n := nodeCount{node: j.Node, verdict: judge.Healthy}
	note := func(index int, uuid string, found []judge.Reason) {
		for _, r := range found {
			if r.Verdict.WorseThan(n.verdict) {
				n.verdict = r.Verdict
			}
			if r.Verdict.WorseThan(judge.Busy) {
				n.reasons = append(n.reasons, gpuFoundOut{j.Node, index, uuid, r.Rule, r.Verdict, r.Text, r.Evidence, r.Source})
			}
		}
	}
	n.whole = j.Repair
	note(-1, "", j.Reasons)
	names := map[string]bool{}
	for _, p := range pods {
		names[p] = true
	}
	held, known := a.Snapshot.Held(namespace, names)
	worst := judge.Healthy
	for _, g := range j.GPUs {
		if known && len(held) > 0 && !held[g.UUID] {
			continue
		}
		note(g.Index, g.UUID, g.Reasons)
		n.hot = n.hot || g.Throttle == judge.Thermal
		if g.Reset || g.RMA {
			n.repairs = append(n.repairs, g)
		}
		if g.Verdict.WorseThan(worst) {
			n.throttle, worst = g.Throttle, g.Verdict
			if worst.WorseThan(judge.Busy) {
				n.worst = g.UUID
			}
		}
	}
	return n
}

// repair returns the GPUs of the node that need a repair, the most urgent
// first, and the findings behind it.
func (n nodeCount) repair() (reset, rma bool, uuids []string, why string) {
	slices.SortStableFunc(n.repairs, func(a, b judge.Judgement) int {
		if a.RMA != b.RMA {
			return map[bool]int{true: -1, false: 1}[a.RMA]
		}
		return worseFirst(a.Verdict, b.Verdict)
	})
	uuids = []string{}
	var texts []string
	indices := map[string][]string{}
	for _, g := range n.repairs {
		reset, rma = reset || g.Reset, rma || g.RMA
		uuids = append(uuids, g.UUID)
		if indices[g.Repair] == nil {
			texts = append(texts, g.Repair)
		}
		indices[g.Repair] = append(indices[g.Repair], fmt.Sprint(g.Index))
	}
	for i, text := range texts {
		where := "GPU " + strings.Join(indices[text], ", ")
		if len(indices[text]) > 1 {
			where = "GPUs " + strings.Join(indices[text], ", ")
		}
		if i == 0 {
			where += " on node " + n.node
		}
		texts[i] = where + ": " + text
	}
	return reset, rma, uuids, strings.Join(texts, "; ")
}

// say formats a finding.
func (r gpuFoundOut) say() string {
	if r.GPU < 0 {
		return fmt.Sprintf("node %s: %s", r.Node, r.Text)
	}
	return fmt.Sprintf("GPU %d on node %s: %s", r.GPU, r.Node, r.Text)
}

// facts formats the verdict and its findings.
func (o healthOut) facts() []string {
	facts := []string{fmt.Sprintf("GPUs: %s; nodes: %d healthy, %d bad, %d unknown", o.Verdict, o.HealthyNodes, o.BadNodes, o.UnknownNodes)}
	const most = 6
	for i, r := range o.Reasons {
		if i == most {
			return append(facts, fmt.Sprintf("and %d more findings", len(o.Reasons)-most))
		}
		line := r.say()
		if r.Evidence != "" {
			line += " (" + r.Evidence + ")"
		}
		facts = append(facts, line)
	}
	if len(o.Reasons) == 0 && o.Why != "" {
		facts = append(facts, o.Why)
	}
	if len(o.BadPods) > 0 {
		facts = append(facts, fmt.Sprintf("replicas on bad nodes: %s", strings.Join(o.BadPods, ", ")))
	}
	return facts
}
