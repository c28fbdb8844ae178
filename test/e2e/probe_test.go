//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/internal/engine/golden"
	"github.com/inference-responder/responder/internal/engine/golden/goldentest"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// secret is in every prompt: nothing that a probe leaves behind may have it.
const secret = "canary-7f3a91"

const goldenPrompts = `prompts:
  - {name: first, prompt: 'The ` + secret + ` of France is'}
  - {name: second, prompt: 'One two three ` + secret + `'}
`

// A replica's first token takes firstToken, each further one eachToken.
const (
	firstToken = 150 * time.Millisecond
	eachToken  = 10 * time.Millisecond
)

// completions is a Deployment whose pods answer at addresses of their own.
type completions struct {
	cp      *rig.ControlPlane
	ns      string
	gateway *goldentest.Engine
	pods    []string // names
	engines []*goldentest.Engine
}

// startCompletions starts three replicas and their gateway. network is the third number of
// the replicas' addresses, so that tests do not meet.
func startCompletions(t *testing.T, network int) *completions {
	t.Helper()
	c := &completions{cp: rig.Shared(t)}
	c.ns, _ = c.cp.Own(t, 1, 8)
	c.cp.Deploy(t)
	c.cp.BindReading(t, c.ns)
	_, port, err := net.SplitHostPort(rig.FreeAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	manifest := inference("chat", "vllm:v1", 3)
	c.cp.Apply(t, c.ns, strings.Replace(manifest, "          image:", "          ports: [{containerPort: "+port+"}]\n          image:", 1))
	c.cp.AwaitRollout(t, c.ns, "chat", 30*time.Second)
	o := goldentest.Options{IDs: true, First: firstToken, Each: eachToken}
	c.gateway = goldentest.Start(t, o)
	list, err := c.cp.Client.CoreV1().Pods(c.ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 3 {
		t.Fatalf("%d pods, %v; want 3", len(list.Items), err)
	}
	for i := range list.Items {
		ip := fmt.Sprintf("127.77.%d.%d", network, i+1)
		c.cp.Kubectl(t, "-n", c.ns, "patch", "pod", list.Items[i].Name, "--subresource=status", "--type=merge",
			"-p", fmt.Sprintf(`{"status":{"podIP":%[1]q,"podIPs":[{"ip":%[1]q}]}}`, ip))
		o.Addr = net.JoinHostPort(ip, port)
		c.pods, c.engines = append(c.pods, list.Items[i].Name), append(c.engines, goldentest.Start(t, o))
	}
	return c
}

// entry is the catalog's entry, with fields of its probe.
func (c *completions) entry(probe string) string {
	return "services:" + service(c.ns, "chat", "suggest") + fmt.Sprintf("    endpoint: %s\n    probe: {prompts_file: golden.yaml, max_tokens: 16, timeout: 3s, %s}\n", c.gateway.URL, probe)
}

// probeOutcome is what `responder engine probe -o json` prints, as far as it is compared.
type probeOutcome struct {
	Answered   int      `json:"answered"`
	Failed     int      `json:"failed"`
	Skipped    int      `json:"skipped"`
	Wrong      bool     `json:"wrong"`
	WrongPod   string   `json:"wrong_pod"`
	DifferedAt int      `json:"differed_at"`
	Differing  []string `json:"differing"`
	Replicas   []probedReplica
}

type probedReplica struct {
	Name, State, Why string
	Status           int
	TTFT             float64 `json:"ttft_seconds"`
	ITL              float64 `json:"itl_seconds"`
}

// An operator records golden prompts from three replicas that speak vLLM's wire format, and
// is told later by name which replica answers otherwise, from which token on, and which
// one refuses. Times are those of a client. No prompt is printed.
func TestProbeOfReplicas(t *testing.T) {
	t.Parallel()
	c := startCompletions(t, 1)
	for i := range c.engines { // one pace for all but the last
		c.engines[i].Change(func(o *goldentest.Options) { o.First = firstToken * time.Duration(1+i/2) })
	}
	s := rig.NewService(t, rig.ServiceOptions{
		Prometheus: "http://127.0.0.1:9", Kubeconfig: c.cp.Kubeconfig(t, rig.Responder),
		Services: c.entry("every: 10s"), Files: map[string]string{"golden.yaml": goldenPrompts},
	})
	file := filepath.Join(filepath.Dir(s.Config), "golden.yaml")
	probe := func(code int, args ...string) (out probeOutcome) {
		t.Helper()
		r, err := s.CLI(t.Context(), append([]string{"engine", "probe", c.ns + "/chat", "--config", s.Config}, args...)...)
		if err != nil || r.Code != code || strings.Contains(r.Stdout+r.Stderr, secret) {
			t.Fatalf("exit %d, %v; want %d, and no prompt in\n%s%s", r.Code, err, code, r.Stdout, r.Stderr)
		}
		if slices.Contains(args, "json") {
			if err := json.Unmarshal([]byte(r.Stdout), &out); err != nil {
				t.Fatalf("%v: %s", err, r.Stdout)
			}
		}
		return out
	}
	probe(0, "--record", file)

	out := probe(0, "-o", "json")
	if out.Answered != 3 || out.Wrong || out.DifferedAt != -1 {
		t.Errorf("right answers: %+v", out)
	}
	for _, r := range out.Replicas {
		least := firstToken.Seconds()
		if r.Name == c.pods[2] {
			least *= 2
		}
		if r.TTFT < least || r.TTFT > least+1 || r.ITL < eachToken.Seconds() || r.ITL > 20*eachToken.Seconds() {
			t.Errorf("%s: first token after %gs, then one every %gs; want %gs and %gs", r.Name, r.TTFT, r.ITL, least, eachToken.Seconds())
		}
	}

	c.engines[1].Change(func(o *goldentest.Options) { o.Broken, o.From = true, 3 })
	out = probe(2, "-o", "json")
	if !out.Wrong || out.WrongPod != c.pods[1] || out.DifferedAt != 3 || !slices.Equal(out.Differing, []string{"first", "second"}) {
		t.Errorf("another token: %+v; want replica %s wrong from token 3 on", out, c.pods[1])
	}

	// As vLLM refuses: the body repeats what was asked.
	c.engines[0].Change(func(o *goldentest.Options) {
		o.Handler = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"message":"This model's maximum context length is 8 tokens: %s","type":"BadRequestError","param":null,"code":400}}`, secret)
			return true
		}
	})
	// And as it breaks off: the error is an event of the stream.
	c.engines[2].Change(func(o *goldentest.Options) {
		o.Handler = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			fmt.Fprintf(w, "data: {\"error\":{\"message\":\"EngineCore encountered an issue: %s\",\"type\":\"InternalServerError\",\"param\":null,\"code\":500}}\n\ndata: [DONE]\n\n", secret)
			return true
		}
	})
	out = probe(2, "-o", "json")
	if out.Failed != 2 || out.Answered != 1 {
		t.Errorf("refusals: %+v; want 2 failed, 1 answered", out)
	}
	for _, r := range out.Replicas {
		if want := map[string]int{c.pods[0]: 400, c.pods[1]: 200, c.pods[2]: 200}[r.Name]; r.Status != want {
			t.Errorf("%s: status %d (%s), want %d", r.Name, r.Status, r.Why, want)
		}
	}
	probe(2)
}

// A run of the shipped playbook asks the replicas, within a budget that is not enough for
// all. Its evidence names the wrong one. The journal has no prompt and no completion.
func TestRunProbesWithinBudget(t *testing.T) {
	t.Parallel()
	c := startCompletions(t, 2)
	prometheus := rig.StartPrometheus(t, rig.PrometheusOptions{})
	options := rig.ServiceOptions{
		Prometheus: prometheus.URL, Kubeconfig: c.cp.Kubeconfig(t, rig.Responder),
		Services: c.entry("every: 10s"), Files: map[string]string{"golden.yaml": goldenPrompts},
	}
	recorded := rig.NewService(t, options)
	file := filepath.Join(filepath.Dir(recorded.Config), "golden.yaml")
	if r, err := recorded.CLI(t.Context(), "engine", "probe", c.ns+"/chat", "--config", recorded.Config, "--record", file); err != nil || r.Code != 0 {
		t.Fatalf("record: exit %d, %v\n%s", r.Code, err, r.Stderr)
	}
	answers, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before := 0
	for _, e := range append(c.engines, c.gateway) {
		e.Change(func(o *goldentest.Options) { o.Broken, o.From = true, 3 })
		before += len(e.Asked())
	}

	// Two prompts of 4 and 5 tokens and 16 tokens of completion each: 41 for the endpoint and for each replica,
	// which are asked side by side. It is enough for two of the four, so that a replica is left out.
	const perHour = 110
	options.Services, options.Files = c.entry(fmt.Sprintf("every: 10s, tokens_per_hour: %d", perHour)), map[string]string{"golden.yaml": string(answers)}
	s := rig.StartService(t, options)
	deliverAlert(t, s, map[string]any{"alertname": "InferenceWrongOutput", "namespace": c.ns, "service": "chat", "severity": "critical"})
	run := s.AwaitRun(t, time.Minute, "evidence of the probe", func(r *rig.Run) bool { return r.Has(machine.CheckCompleted) > 0 })
	out := probeEvidence(t, run)
	if !out.Wrong || out.DifferedAt != 3 || len(out.Differing) != 2 {
		t.Errorf("evidence: %+v; want wrong from token 3 on", out)
	}
	asked := -before
	for _, e := range append(c.engines, c.gateway) {
		asked += len(e.Asked())
	}
	if asked == 0 || asked > 4 || out.Skipped == 0 {
		t.Errorf("%d completions were asked for, %d replicas skipped; want at most 4 of 8, and somebody skipped", asked, out.Skipped)
	}
	if !slices.ContainsFunc(out.Replicas, func(r probedReplica) bool { return strings.Contains(r.Why, "probe budget spent") }) {
		t.Errorf("no replica says that the budget is spent: %+v", out.Replicas)
	}
	wantNoContent(t, s, file)
}

// probeEvidence is what the run's probe found.
func probeEvidence(t *testing.T, run *rig.Run) (out probeOutcome) {
	t.Helper()
	for _, e := range run.Events {
		for _, g := range e.Gathered {
			if g.Step != "engine.probe" {
				continue
			}
			if err := json.Unmarshal(g.Data, &out); err != nil {
				t.Fatalf("%v: %s", err, g.Why)
			}
			return out
		}
	}
	t.Fatalf("the run has no evidence of engine.probe:\n%s", run)
	return out
}

// wantNoContent looks for prompts and completions of a file in every entry of the journal
// and in its file.
func wantNoContent(t *testing.T, s *rig.Service, prompts string) {
	t.Helper()
	f, _, err := golden.Read(prompts)
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{secret}
	for _, p := range f.Prompts {
		secrets = append(secrets, p.Prompt, p.Expect.Text, strings.Fields(p.Expect.Text)[0])
	}
	entries, err := s.Entries(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	if err := json.NewEncoder(&all).Encode(entries); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(s.Journal(), "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if data, err := os.ReadFile(name); err == nil {
			all.Write(data)
		}
	}
	if !bytes.Contains(all.Bytes(), []byte("golden prompts differ")) {
		t.Error("the journal does not tell of the probe: this test sees nothing")
	}
	for _, text := range secrets {
		if bytes.Contains(all.Bytes(), []byte(text)) {
			t.Errorf("the journal holds %q", text)
		}
	}
}
