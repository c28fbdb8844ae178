package sandbox

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox/physics"
	slorules "github.com/inference-responder/responder/internal/slo/rules"
)

// Scenario is an incident that can be chosen by name.
type Scenario struct {
	Name        string `json:"name"`
	Title       string `json:"title"` // a line
	Description string `json:"story"` // what happened and what repairs it, a sentence or two
	Cause       string `json:"cause"` // what began it, a few words
	Fix         string `json:"fix"`   // kind of the lever that repairs it; empty: none does
}

// scenario is a complete incident. Times are relative to the moment the world is
// opened (negative: before). One file each.
type scenario struct {
	Scenario
	seed     uint64
	age      time.Duration // of the incident when the world opens
	services []serviceSpec
	nodes    []nodeSpec

	gpuAlerts    bool            // the node agents' alerts reach Responder
	engineAlerts bool            // so do those about engines that no objective covers
	rules        []rule          // that fire alerts; nil: those of deploy/prometheus about objectives
	extra        []slorules.Rule // that fire alerts, too
	away         []span          // Prometheus does not answer
}

// alerting returns the rules that fire alerts.
func (s *scenario) alerting() []rule {
	if s.rules != nil {
		return s.rules
	}
	var out []rule
	for _, engine := range []string{"vllm", "sglang"} {
		if slices.ContainsFunc(s.services, func(spec serviceSpec) bool { return spec.service.Engine == engine }) {
			out = append(out, rules(engine)...)
		}
	}
	return out
}

// serviceSpec is one service and everything that happens to it.
type serviceSpec struct {
	service   playbook.Service
	hardware  physics.Hardware
	replicas  int
	load      physics.Load // on the service as a whole
	traffic   []shift      // factors on its rate
	prompts   []shift      // factors on the length of its prompts
	outputs   []shift      // factors on the length of its outputs
	odd       []oddPrompts // lengths that some of its prompts have
	shared    []shift      // factors on the share of its requests that begin with a known prefix
	revisions []revisionSpec
	decodes   []shift // factors on the time of reading memory, and so of a token
	scaled    []scaling
	sick      []sickness

	loading time.Duration // until a new pod has loaded the model; 0: as long as its weights take, and a little
	surge   int           // pods that a rolling update adds at once; 0: 1
	hpa     *autoscaling  // that sets the replicas; nil: nobody does
	git     bool          // Argo CD deploys it from Git
	warm    *warmSpec     // the last-good revision that is kept ready beside it; nil: none is

	// leaves is how long after the first change to the workload the traffic stops; 0:
	// it stays.
	leaves time.Duration
}

// shift is a factor that applies from a moment on.
type shift struct {
	from   time.Duration // after the world's start; negative: before
	factor float64
}

// oddPrompts is another length that a share of the prompts has from a moment on.
type oddPrompts struct {
	from   time.Duration // after the world's start; negative: before
	share  float64
	tokens int
}

// scaling is a change of the replicas by somebody else.
type scaling struct {
	at       time.Duration // after the world's start; negative: before
	replicas int
}

// sickness befalls a pod that is there at a moment, and ends with it. No GPU shows it.
type sickness struct {
	from  time.Duration // after the world's start; negative: before
	pod   int           // the oldest is 0; -1: all
	slow  float64       // factor on the time of computation
	stuck bool          // it keeps its requests and takes no step
	hangs float64       // share of its requests that never finish
	wrong wrong         // how its completions differ; empty: they do not
	node  string        // only pods on this node; empty: on any
	dies  death         // its process ends and starts again; empty: it does not
	after time.Duration // and again so long after each start; 0: once
}

// span is a stretch of time after the world's start.
type span struct{ from, to time.Duration }

// revisionSpec is one revision of a workload's pod template.
type revisionSpec struct {
	age    time.Duration // before the world's start
	cause  string
	fields map[string]string // the pod template, flattened as kube.Revision has it
	image  image
}

// nodeSpec is one node.
type nodeSpec struct {
	name       string
	slots      int // pods it can take, each on gpusPerSlot GPUs
	conditions []string
	ailments   []ailment

	drained  time.Duration // before the world's start: by an earlier run of Responder; 0: never
	repaired time.Duration // before the world's start: somebody says so as long as it is out; 0: never
}

// all returns every scenario, those of the demo first.
func all() []scenario {
	return []scenario{badRollout(), slowLoad(), trafficBurst(), noHelp(), noTraffic(), twoSeconds(), flagChange(), kvThrash(), longPrompts(), stuckEngine(), coldStart(), gpuFault(), thermalEmergency(), hotRoom(), nodeReturn()}
}

// Scenarios lists the incidents that can be simulated, those of the demo first.
func Scenarios() []Scenario {
	list := all()
	out := make([]Scenario, len(list))
	for i, s := range list {
		out[i] = s.Scenario
	}
	return out
}

// ScenarioNames lists the names of [Scenarios].
func ScenarioNames() []string {
	var names []string
	for _, s := range all() {
		names = append(names, s.Name)
	}
	return names
}

// Known returns an error that lists all scenarios unless one has that name.
func Known(name string) error {
	_, err := find(name)
	return err
}

// find returns the scenario of that name, or an error that lists all names.
func find(name string) (scenario, error) {
	var names []string
	for _, s := range all() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return scenario{}, fmt.Errorf("no scenario is named %q; there is %s", name, strings.Join(names, ", "))
}

// factor returns the last factor that applies at since, 1 before the first.
func factor(steps []shift, since time.Duration) float64 {
	f := 1.0
	for _, s := range steps {
		if since >= s.from {
			f = s.factor
		}
	}
	return f
}
