package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/engine/golden"
	"github.com/inference-responder/responder/internal/engine/golden/goldentest"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

var probeNoon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// probed is a fleet of real HTTP servers, and the workload that they are the pods of.
type probed struct {
	step.Workloads

	workload kube.Workload
	err      error
	engines  []*goldentest.Engine
	probes   *golden.Probes
}

func (p *probed) Workload(context.Context, kube.Ref) (kube.Workload, error) { return p.workload, p.err }

// canary is in every prompt, and so in all that a server repeats of it.
const canary = "canary-41c7"

// startProbed starts a fleet with a replica for each revision, and records what it
// answers.
func startProbed(t *testing.T, set golden.Settings, revisions ...int64) *probed {
	t.Helper()
	p := &probed{}
	for i, n := range revisions {
		e := goldentest.Start(t, goldentest.Options{IDs: true, Token: "engine-" + canary})
		p.engines = append(p.engines, e)
		u, err := url.Parse(e.URL)
		if err != nil {
			t.Fatal(err)
		}
		port, err := strconv.Atoi(u.Port())
		if err != nil {
			t.Fatal(err)
		}
		p.workload.Pods = append(p.workload.Pods, kube.Pod{
			Name: fmt.Sprintf("chat-%d", i), Node: "node-a", Ready: true, Revision: n, IP: u.Hostname(),
			Containers: []kube.PodContainer{{Name: "proxy", Port: 1}, {Name: "vllm", Port: port}},
		})
		p.workload.Revision = max(p.workload.Revision, n)
	}
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("engine-"+canary), 0o600); err != nil {
		t.Fatal(err)
	}
	set.Endpoint, set.Model, set.Engine, set.TokenFile, set.EngineToken = p.engines[0].URL, "chat", "vllm", key, key
	set.PromptsFile = filepath.Join(t.TempDir(), "golden.yaml")
	var err error
	if p.probes, err = golden.New(map[string]golden.Settings{"chat": set}); err != nil {
		t.Fatal(err)
	}
	prompts := make([]golden.Prompt, 3)
	for i := range prompts {
		prompts[i] = golden.Prompt{Name: fmt.Sprintf("p%d", i), Prompt: fmt.Sprintf("%s say %d", canary, i)}
	}
	a := p.probes.AskGateway(t.Context(), "chat", prompts, probeNoon.Add(-2*time.Hour))
	if a.State != golden.Answered {
		t.Fatalf("%+v", a)
	}
	q := p.probes.AskReplica(t.Context(), "chat", golden.Replica{Name: "chat-0", IP: p.workload.Pods[0].IP, Port: p.workload.Pods[0].Containers[1].Port}, prompts, probeNoon.Add(-2*time.Hour))
	for i := range prompts {
		prompts[i].Expect = golden.Agreed([]golden.Completion{a.Completions[i], q.Completions[i]})
	}
	b, err := golden.File{Prompts: prompts}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(set.PromptsFile, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// run returns the evidence of the check, and fails if it tells what must not be told.
func (p *probed) run(t *testing.T, now time.Time, with map[string]any) (goldenOut, []string) {
	t.Helper()
	deps := step.Deps{Probes: p.probes, Workloads: p}
	found, err := NewGolden(deps).Run(t.Context(), step.Input{Service: playbook.Service{Name: "chat", Container: "vllm", Engine: "vllm"}, With: with, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(found)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), canary) {
		t.Errorf("the evidence tells prompts, completions or credentials: %s", b)
	}
	out, ok := found.Out.(goldenOut)
	if !ok {
		t.Fatalf("%T", found.Out)
	}
	return out, found.Facts
}

func TestGolden(t *testing.T) {
	breaking := func(from int) func(*goldentest.Options) {
		return func(o *goldentest.Options) { o.Broken, o.From = true, from }
	}
	hang := func(o *goldentest.Options) {
		o.Handler = func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }
	}
	for _, tt := range []struct {
		name      string
		revisions []int64
		faults    map[int]func(*goldentest.Options) // by replica; the endpoint is replica 0
		with      map[string]any
		want      func(out goldenOut) bool
		why       string
	}{
		{
			"all is well",
			[]int64{1, 1},
			nil, nil,
			func(o goldenOut) bool {
				return o.Probed && o.Asked == 2 && o.Answered == 2 && o.Compared == 2 && o.Matched == 3 && !o.Wrong && o.Agrees && o.DifferedAt == -1 && o.Gateway.Answered && o.TTFTP50 != nil && o.PromptChanged == 0
			},
			"completions are right on 2 of 2 compared replicas",
		},
		{
			"wrong since the release",
			[]int64{1, 1, 2, 2},
			map[int]func(*goldentest.Options){2: breaking(0), 3: breaking(0)},
			nil,
			func(o goldenOut) bool {
				return o.Wrong && o.WrongReplicas == 2 && o.RightReplicas == 2 && o.WrongRevision == 2 && o.WrongCurrent && o.WrongPod == "" && !o.Agrees && o.DifferedAt == 0 && o.Differed == 3 && !o.Gateway.Wrong
			},
			"wrong on 2 of 4 compared replicas: those of revision 2",
		},
		{
			"the whole service is wrong",
			[]int64{2, 2},
			map[int]func(*goldentest.Options){0: breaking(2), 1: breaking(2)},
			nil,
			func(o goldenOut) bool {
				return o.Wrong && o.WrongReplicas == 2 && o.WrongRevision == 2 && o.WrongCurrent && o.Agrees && o.Gateway.Wrong && o.DifferedAt == 2
			},
			"first at token 2 (p0, p1, p2)",
		},
		{
			"one replica is wrong",
			[]int64{1, 1, 1},
			map[int]func(*goldentest.Options){1: breaking(3)},
			nil,
			func(o goldenOut) bool {
				return o.Wrong && o.WrongPod == "chat-1" && o.WrongRevision == 0 && !o.WrongCurrent && !o.Agrees && o.Replicas[0].Name == "chat-1"
			},
			"wrong on 1 of 3 compared replicas",
		},
		{
			"late tokens may differ",
			[]int64{1, 2},
			map[int]func(*goldentest.Options){1: breaking(12)},
			nil,
			func(o goldenOut) bool {
				return !o.Wrong && o.Agrees && o.Differed == 3 && o.DifferedAt == 12 && o.WrongRevision == 0
			},
			"first at token 12",
		},
		{
			"unless the playbook looks further",
			[]int64{1, 2},
			map[int]func(*goldentest.Options){1: breaking(12)},
			map[string]any{"within": 16},
			func(o goldenOut) bool { return o.Wrong && o.WrongRevision == 2 },
			"revision 2",
		},
		{
			"another chat template",
			[]int64{1, 2},
			map[int]func(*goldentest.Options){1: func(o *goldentest.Options) { o.Template, o.Broken = true, true }},
			nil,
			func(o goldenOut) bool { return o.Wrong && o.PromptChanged == 3 },
			"the tokenizer or the chat template is another one",
		},
		{
			"one hangs",
			[]int64{1, 1, 1},
			map[int]func(*goldentest.Options){2: hang},
			nil,
			func(o goldenOut) bool {
				return o.Hung == 1 && o.HungPod == "chat-2" && o.Answered == 2 && !o.Wrong && o.Replicas[0].State == "hung" && o.Compared == 2 && o.RightReplicas == 2
			},
			"2 answered, 1 hung",
		},
		{
			"one refuses",
			[]int64{1, 1},
			map[int]func(*goldentest.Options){1: func(o *goldentest.Options) { o.Token = "another" }},
			nil,
			func(o goldenOut) bool { return o.Failed == 1 && o.Answered == 1 && o.Replicas[0].Status == 401 },
			"1 failed",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := startProbed(t, golden.Settings{Timeout: 3 * time.Second}, tt.revisions...)
			for i, fault := range tt.faults {
				p.engines[i].Change(fault)
			}
			out, facts := p.run(t, probeNoon, tt.with)
			if !tt.want(out) || !strings.Contains(strings.Join(facts, "\n"), tt.why) {
				t.Errorf("%+v\n%s", out, strings.Join(facts, "\n"))
			}
		})
	}
}

// TestGoldenHarmsNobody: what the budget does not allow is not sent, whoever asks, and
// the evidence says until when.
func TestGoldenHarmsNobody(t *testing.T) {
	p := startProbed(t, golden.Settings{Replicas: 2, TokensPerHour: 400}, 1, 1, 1, 2)
	asked := func() (n int) {
		for _, e := range p.engines {
			n += len(e.Asked())
		}
		return n
	}
	before := asked()
	out, _ := p.run(t, probeNoon, nil)
	if out.Asked != 2 || out.Skipped != 2 || asked() != before+9 || len(p.engines[3].Asked()) != 3 {
		t.Errorf("%+v, %d requests: two replicas, one of each revision, and the endpoint", out, asked()-before)
	}
	out, facts := p.run(t, probeNoon.Add(10*time.Second), nil)
	if out.Asked != 1 || out.Gateway.State != "skipped" || !strings.Contains(strings.Join(facts, " "), "asked a moment ago, again at 12:01:00 UTC") {
		t.Errorf("again at once: %+v\n%s", out, facts)
	}
	if out.Soon {
		t.Errorf("it was asked, and to be asked again soon: %+v", out)
	}
	for out.Probed { // until each replica was asked a moment ago
		out, _ = p.run(t, probeNoon.Add(20*time.Second), nil)
	}
	if !out.Soon {
		t.Errorf("all were asked a moment ago: %+v", out)
	}
	for i := 2; i < 5; i++ {
		out, _ = p.run(t, probeNoon.Add(time.Duration(i)*time.Minute), nil)
	}
	if out.Probed || out.Soon || out.Asked > 0 || !strings.Contains(out.Why, "probe budget spent until 13:00:00 UTC") {
		t.Errorf("spent: %+v", out)
	}
	if n := asked() - before; n > 400/19 {
		t.Errorf("%d requests", n)
	}
}

// TestGoldenUnknown: what cannot be asked is unknown, with the reason.
func TestGoldenUnknown(t *testing.T) {
	found, err := NewGolden(step.Deps{}).Run(t.Context(), step.Input{Service: playbook.Service{Name: "chat"}})
	if out, ok := found.Out.(goldenOut); err != nil || !ok || out.Probed || !strings.Contains(out.Why, "no probe configured for this service") {
		t.Errorf("%+v %v", found, err)
	}
	p := startProbed(t, golden.Settings{}, 1)
	p.err = errors.New("forbidden")
	if out, facts := p.run(t, probeNoon, nil); !out.Probed || out.Asked != 0 || !out.Gateway.Answered || !strings.Contains(strings.Join(facts, " "), "which replicas there are is not known: forbidden") {
		t.Errorf("no cluster: %+v\n%s", out, facts)
	}
	set, _ := p.probes.Settings("chat")
	if err := os.WriteFile(set.PromptsFile, []byte("prompts: "+canary), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := p.run(t, probeNoon.Add(time.Hour), nil); out.Probed || !strings.Contains(out.Why, "cannot be read as golden prompts") {
		t.Errorf("bad file: %+v", out)
	}
}

// TestRecord: what is recorded is what all replicas and the endpoint answer each time,
// so that a good service matches it, and one that cannot be asked is named.
func TestRecord(t *testing.T) {
	p := startProbed(t, golden.Settings{}, 1, 1, 1)
	p.engines[1].Change(func(o *goldentest.Options) { o.Broken, o.From = true, 10 }) // other hardware
	p.engines[2].Change(func(o *goldentest.Options) { o.Token = "another" })
	svc := playbook.Service{Name: "chat", Container: "vllm", Engine: "vllm"}
	prompts := []golden.Prompt{{Name: "a", Prompt: "x y z"}, {Name: "b", Messages: []golden.Message{{Role: "user", Content: "hi"}}}}
	r, err := Record(t.Context(), step.Deps{Probes: p.probes, Workloads: p}, svc, prompts, probeNoon)
	if err != nil {
		t.Fatal(err)
	}
	if r.Asked != 3 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "chat-2 is left out: it answers 401") {
		t.Errorf("%d answered: %q", r.Asked, r.Notes)
	}
	for _, one := range r.File.Prompts {
		if e := one.Expect; e == nil || len(e.Tokens) != 10 || e.Ends || e.Text == "" || e.PromptTokens == 0 || e.PromptDigest == "" {
			t.Errorf("%s: %+v", one.Name, one.Expect)
		}
	}
	set, _ := p.probes.Settings("chat")
	b, err := r.File.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(set.PromptsFile, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := p.run(t, probeNoon.Add(time.Hour), nil); out.Matched != 2 || out.Differed != 0 || out.Gateway.Differed != 0 {
		t.Errorf("what was recorded does not match: %+v", out)
	}
	p.engines[1].Change(func(o *goldentest.Options) { o.From = 2 })
	r, err = Record(t.Context(), step.Deps{Probes: p.probes, Workloads: p}, svc, prompts, probeNoon.Add(3*time.Hour))
	if err != nil || !strings.Contains(strings.Join(r.Notes, " "), "a: only 2 tokens are the same each time") {
		t.Errorf("%v %q", err, r.Notes)
	}
	for _, e := range p.engines {
		e.Change(func(o *goldentest.Options) { o.Model = "another" })
	}
	if _, err := Record(t.Context(), step.Deps{Probes: p.probes, Workloads: p}, svc, prompts, probeNoon.Add(6*time.Hour)); err == nil || !strings.Contains(err.Error(), "nothing answered") {
		t.Error(err)
	}
}
