//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// faults is one responder over services with nodes of their own, a pool each.
// On some of the nodes the agent runs, of others dcgm-exporter tells.
type faults struct {
	*agentWorld
	ns         string
	pools      map[string][]string     // nodes by service
	exporters  map[string]*exporter    // by node
	agents     map[string]*rig.Process // by node
	prometheus *rig.Prometheus
	responder  *rig.Service
}

// exporter is dcgm-exporter on one node: its series with their labels.
type exporter struct {
	node   string
	server *httptest.Server

	mu     sync.Mutex // guards values
	values map[string]float64
}

// defaults are what dcgm-exporter gives of a healthy GPU when nobody tells it
// otherwise: default-counters.csv.
func defaults() map[string]float64 {
	return map[string]float64{
		"DCGM_FI_DEV_SM_CLOCK": 1980, "DCGM_FI_DEV_MEM_CLOCK": 2619, "DCGM_FI_DEV_MEMORY_TEMP": 44, "DCGM_FI_DEV_GPU_TEMP": 36,
		"DCGM_FI_DEV_POWER_USAGE": 71.3, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 8.1e9, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 0, "DCGM_FI_DEV_GPU_UTIL": 0,
		"DCGM_FI_DEV_MEM_COPY_UTIL": 0, "DCGM_FI_DEV_ENC_UTIL": 0, "DCGM_FI_DEV_DEC_UTIL": 0, "DCGM_FI_DEV_XID_ERRORS": 0, "DCGM_FI_DEV_FB_FREE": 20000,
		"DCGM_FI_DEV_FB_USED": 61000, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": 0, "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": 0, "DCGM_FI_DEV_ROW_REMAP_FAILURE": 0,
	}
}

// told are the defaults with what else a verdict needs.
func told() map[string]float64 {
	all := defaults()
	for _, more := range []string{"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_ROW_REMAP_PENDING"} {
		all[more] = 0
	}
	all["DCGM_FI_DEV_SLOWDOWN_TEMP"] = 92
	return all
}

// ServeHTTP answers with two GPUs, of which the second one is always healthy.
func (e *exporter) ServeHTTP(rw http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	healthy := told()
	for name, v := range e.values {
		fmt.Fprintf(rw, "# TYPE %s gauge\n", name)
		for i, value := range []float64{v, healthy[name]} {
			more := ""
			if name == "DCGM_FI_DEV_XID_ERRORS" {
				more = `,err_code="0",err_msg="No Error"`
			}
			fmt.Fprintf(rw, "%s{gpu=\"%d\",UUID=\"GPU-%s-%d\",pci_bus_id=\"00000000:%02X:00.0\",device=\"nvidia%d\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=%q,DCGM_FI_DRIVER_VERSION=\"550.54.15\"%s} %g\n",
				name, i, e.node, i, 0x18+i, i, e.node, more, value)
		}
	}
}

func (e *exporter) set(name string, v float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.values[name] = v
}

// services of the world, the number of their nodes, and whether agents are on them.
var faultServices = []struct {
	name   string
	nodes  int
	agents bool
}{
	{"faulty", 2, true},    // a GPU of the first node has fallen off the bus
	{"busy", 1, true},      // all well, one GPU at its power limit
	{"mute", 1, true},      // the agent does not answer
	{"returned", 1, true},  // was taken out and is healthy
	{"exported", 2, false}, // memory of the first node, of which there are default counters only, cannot be repaired
	{"proven", 1, false},   // was taken out and is healthy, by dcgm-exporter told all
	{"stale", 1, false},    // the exporter stops
}

// newFaults starts what has to be watched for minutes, and nothing else.
func newFaults(t *testing.T) *faults {
	t.Helper()
	f := &faults{pools: map[string][]string{}, exporters: map[string]*exporter{}, agents: map[string]*rig.Process{}}
	cp := rig.Shared(t)
	f.ns = cp.Namespace(t)
	var watched, targets []string
	for _, s := range faultServices {
		nodes := cp.AddNodes(t, f.ns, s.nodes, 8)
		f.pools[s.name] = nodes
		cp.LabelNodes(t, nodes, "karpenter.sh/nodepool", f.ns+"-"+s.name)
		if s.agents {
			watched = append(watched, nodes...)
			continue
		}
		for _, node := range nodes {
			e := &exporter{node: node, values: told()}
			if s.name == "exported" && node == nodes[0] {
				e.values = defaults()
			}
			e.server = httptest.NewServer(e)
			t.Cleanup(e.server.Close)
			f.exporters[node] = e
			targets = append(targets, strings.TrimPrefix(e.server.URL, "http://"))
		}
	}
	f.agentWorld = newAgentWorld(t, watched)
	for _, node := range watched {
		script := healthyOn(node)
		if node == f.pools["busy"][0] {
			script.Set(2, "reasons", "0x4")
			script.Set(2, "utilization", "100")
		}
		script.Write(t, filepath.Join(f.dir, "script-"+node))
		f.agents[node] = f.start(t, node, node)
	}
	fleets := &crashes{engines: map[string]*rig.Fleet{}}
	for _, s := range faultServices {
		fleets.engines[s.name] = rig.StartFleet(t, cp, f.ns, s.name)
	}
	f.prometheus = scrapeAll(t, fleets, targets...)
	return f
}

// deploy starts the services and the responder.
func (f *faults) deploy(t *testing.T) {
	t.Helper()
	f.cp.BindNodes(t)
	f.cp.BindLevers(t, f.ns)
	var manifests []string
	services := "services:"
	for _, s := range faultServices {
		manifests = append(manifests, apart(inference(s.name, "vllm:v1", 2), s.name, untainted, "nodeSelector: {karpenter.sh/nodepool: "+f.ns+"-"+s.name+"}"))
		services += service(f.ns, s.name, "auto")
	}
	f.cp.Apply(t, f.ns, strings.Join(manifests, "---"))
	for _, s := range faultServices {
		f.cp.AwaitRollout(t, f.ns, s.name, time.Minute)
	}
	f.responder = rig.StartService(t, rig.ServiceOptions{
		Prometheus: f.prometheus.URL, Kubeconfig: f.cp.Kubeconfig(t, rig.Responder), Services: services,
		Playbook: gpuPlaybook(t, "playbooks/gpu-fault.yaml", "      verify: {within: 10m} # it stays out whatever that shows\n", ""),
		Files: map[string]string{
			"playbooks/return.yaml": gpuPlaybook(t, "playbooks/node-return.yaml", "healthy_for: 10m", "healthy_for: 2m"),
			"playbooks/long.yaml":   gpuPlaybook(t, "playbooks/node-return.yaml", "healthy_for: 10m", "healthy_for: 30m", "name: node-return", "name: long-return", "GPUNodeRepaired", "GPUNodeRepairedLongAgo"),
			"playbooks/out.yaml":    cordonPlaybook,
		},
		Settings: "autonomy: auto\nguards: {cooldown: 0s}\nincident: {window: 0s}\n" + f.settings("5s") + "  dcgm: {enabled: true}\n",
	})
}

// gpuPlaybook is a shipped playbook with windows a test can wait for.
func gpuPlaybook(t *testing.T, path string, replace ...string) string {
	t.Helper()
	return scaled(t, path, append(replace, "on_expiry: escalate}\n", "on_expiry: escalate}\n      verify: {within: 1m, hold: 4s, interval: 1s}\n", "autonomy: suggest", "autonomy: auto"))
}

// cordonPlaybook takes the alert's node out.
const cordonPlaybook = `
apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: out, title: Take a node out, description: One lever., runbook: none}
spec:
  match: ['{alertname="TakeOut",node!=""}']
  autonomy: auto
  start: look
  states:
    look:
      check: gpu.health
      with: {node: '${alert.labels.node}'}
      on_error: escalated
      next:
        - {when: size(out.nodes) == 1, to: cordon}
        - {to: escalated}
    cordon:
      lever: node.cordon
      with: {node: '${look.nodes[0].name}'}
      approve: {by: service.owners, within: 15m, on_expiry: escalate}
      verify:
        within: 1m
        hold: 1s
        interval: 1s
        until: [{query: 'sum(rate(vllm:request_success_total{${service.selector}}[5s]))', op: '>', value: 0.1}]
        traffic: {query: 'sum(rate(vllm:request_success_total{${service.selector}}[5s]))', min_rate: 0.1}
      next:
        - {when: verified, to: resolved}
        - {to: escalated}
    resolved: {end: resolved}
    escalated: {end: escalated}
`

// run delivers an alert about a service and waits for the end of its run.
func (f *faults) run(t *testing.T, playbook, alertname, service string, more ...string) *rig.Run {
	t.Helper()
	labels := map[string]any{"alertname": alertname, "namespace": f.ns, "service": service, "severity": "critical"}
	for i := 0; i < len(more); i += 2 {
		labels[more[i]] = more[i+1]
	}
	deliverAlert(t, f.responder, labels)
	return awaitRunOf(t, f.responder, playbook, f.ns+"/"+service, 2*time.Minute)
}

// deliverAlert delivers an alert with these labels until it is acknowledged.
func deliverAlert(t *testing.T, s *rig.Service, labels map[string]any) {
	t.Helper()
	hash := fnv.New64a()
	fmt.Fprint(hash, labels)
	digest := fmt.Sprintf("%016x", hash.Sum64())
	deliverUntilTaken(t, s, notification(t, labels, digest, digest))
}

// runOf is the run of a playbook for a service; an error when it is not there yet.
func runOf(ctx context.Context, s *rig.Service, playbook, service string) (*rig.Run, error) {
	entries, err := s.Entries(ctx)
	if err != nil {
		return nil, err
	}
	runs, err := rig.RunsOf(entries)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(runs, func(r *rig.Run) bool { return r.Start.Service.Name == service && r.Start.Playbook == playbook })
	if i < 0 {
		return nil, fmt.Errorf("no such run among %d", len(runs))
	}
	return runs[i], nil
}

// awaitRunOf waits until it has ended.
func awaitRunOf(t *testing.T, s *rig.Service, playbook, service string, limit time.Duration) *rig.Run {
	t.Helper()
	var found *rig.Run
	rig.Await(t, limit, "the end of "+playbook+" for "+service, func(ctx context.Context) (bool, string) {
		run, err := runOf(ctx, s, playbook, service)
		if err != nil {
			return false, err.Error()
		}
		found = run
		return run.Ending != nil, run.String()
	})
	return found
}

// wantEnd fails unless a run ended so, and somewhere says all that.
func wantEnd(t *testing.T, run *rig.Run, outcome machine.RunOutcome, says ...string) {
	t.Helper()
	all, err := json.Marshal(run.Events)
	if err != nil {
		t.Fatal(err)
	}
	if run.Ending.Outcome != outcome {
		t.Errorf("the run ended %s, want %s\n%s", run.Ending.Outcome, outcome, run)
	}
	for _, text := range says {
		if !strings.Contains(string(all), text) {
			t.Errorf("the run does not say %q:\n%s\n%s", text, run, all)
		}
	}
}

// cordoned reports whether a node takes no pods, and how it is labelled and annotated.
func (f *faults) node(t *testing.T, name string) (cordoned bool, labels, annotations map[string]string) {
	t.Helper()
	n := nodeNow(t, f.cp, name)
	return n.Spec.Unschedulable, n.Labels, n.Annotations
}
