package worlds

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/step/kinds"
)

const head = "apiVersion: responder/v1alpha1\nkind: PlaybookScenario\ntitle: A burst\n"

func read(t *testing.T, text string) *Scenario {
	t.Helper()
	s, err := Read("a.world.yaml", []byte(head+text), kinds.Declarations())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const burst = `cause: burst
faults: [{at: -5m, traffic: 3}]
length: 14m
want: {told: saturated, levers: [{kube.scale: verified}], outcome: resolved}
`

// The same file and seed have the same story, in a bubble that needs no test around it;
// another seed has another one.
func TestSameSeedSameStory(t *testing.T) {
	s := read(t, burst)
	play := func(seed uint64) string {
		began := time.Now()
		r, err := s.Play(t.Context(), Options{Seed: seed, Temp: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Failures) > 0 {
			t.Errorf("seed %d: %v\n%s", seed, r.Failures, r.Story())
		}
		if took := time.Since(began); took > 4*time.Minute {
			t.Errorf("a quarter of an hour took %s: time does not jump", took)
		}
		return regexp.MustCompile(`r-[0-9A-Z]{26}`).ReplaceAllString(r.Story(), "r-1")
	}
	first, again, other := play(1), play(1), play(2)
	if first != again {
		t.Errorf("the second time is different:\n%s\n%s", first, again)
	}
	if first == other {
		t.Error("another seed has the same story")
	}
}

func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := read(t, burst).Play(ctx, Options{Temp: t.TempDir()}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want canceled", err)
	}
}

// Each way in which a result differs from what is wanted is told once, by its word.
func TestJudge(t *testing.T) {
	const minute = time.Minute
	scale, back := Change{Lever: "kube.scale", At: minute, Verdict: "verified"}, Change{Lever: "kube.scale", Return: true, At: 40 * minute, Verdict: "worse"}
	undo := Change{Lever: "kube.rollout_undo", At: minute, Verdict: "no_effect"}
	undone := undo
	undone.Undone = 9 * minute
	well := func(r Result) Result {
		r.Outcome, r.Alerts, r.started = "resolved", []string{"Slow"}, 1
		return r
	}
	for name, c := range map[string]struct {
		want   string // fields of want beside the outcome
		result Result
		words  string
	}{
		"as wanted":              {"levers: [{kube.scale: verified}], within: 5m", well(Result{Changes: []Change{scale}, Recovered: 4 * minute}), ""},
		"wrong verdict":          {"levers: [{kube.scale: improved}]", well(Result{Changes: []Change{scale}}), "verdict"},
		"too slow":               {"levers: [kube.scale], within: 5m, bad_minutes: 3", well(Result{Changes: []Change{scale}, Recovered: 6 * minute, Bad: 4}), "time minutes"},
		"nothing was done":       {"levers: [kube.scale]", well(Result{}), "lever"},
		"needless":               {"levers: [kube.scale]", well(Result{Changes: []Change{scale, undone}}), "harm"},
		"harmful, also verified": {"levers: [kube.scale], harmful: [kube.scale]", well(Result{Changes: []Change{scale}}), "harm"},
		"given back too early":   {"levers: [kube.scale]", well(Result{Changes: []Change{scale, back}}), "harm"},
		"useless, and stays":     {"may: [kube.rollout_undo]", well(Result{Changes: []Change{undo}}), "useless"},
		"useless, and undone":    {"may: [kube.rollout_undo]", well(Result{Changes: []Change{undone}}), ""},
		"cause not named":        {"told: release", well(Result{told: []string{"saturated"}}), "cause"},
		"cause in the evidence":  {"told: release, evidence: revision 3", well(Result{found: []string{"since revision 3"}}), ""},
		"not recovered":          {"", well(Result{Red: true}), "recovery"},
		"recovered by itself":    {"recovered: false", well(Result{}), "recovery"},
		"two runs":               {"", func() Result { r := well(Result{}); r.started = 2; return r }(), "runs"},
		"another outcome":        {"", func() Result { r := well(Result{}); r.Outcome = "escalated"; return r }(), "outcome"},
		"another alert":          {"", func() Result { r := well(Result{}); r.Alerts = []string{"Other"}; return r }(), "alert"},
		"another path":           {"runs: [{p: [look]}]", well(Result{}), "path"},
	} {
		fields := "outcome: resolved"
		if c.want != "" {
			fields += ", " + c.want
		}
		s := read(t, "faults: [{at: -5m, traffic: 3}]\nalert: Slow\nwant: {"+fields+"}\n")
		r := c.result
		r.Scenario = s
		s.judge(&r)
		var words []string
		for _, f := range r.Failures {
			words = append(words, f.What)
		}
		if got := strings.Join(words, " "); got != c.words {
			t.Errorf("%s: %q, want %q: %v", name, got, c.words, r.Failures)
		}
	}
}

// A failure that the scenario knows of is none; another one is, and so is that there is
// none any more.
func TestKnown(t *testing.T) {
	for name, c := range map[string]struct {
		runs    int
		outcome string
		words   string
		excused bool
	}{
		"known":       {2, "resolved", "", true},
		"and another": {2, "escalated", "outcome runs", false},
		"no more":     {1, "resolved", "known", false},
	} {
		s := read(t, "faults: [{at: -5m, traffic: 3}]\nalert: Slow\nwant: {outcome: resolved}\nknown: {fails: runs, why: every service starts one}\n")
		r := Result{Scenario: s, Outcome: c.outcome, Alerts: []string{"Slow"}, started: c.runs}
		s.judge(&r)
		var words []string
		for _, f := range r.Failures {
			words = append(words, f.What)
		}
		if got := strings.Join(words, " "); got != c.words || (len(r.Excused) > 0) != c.excused {
			t.Errorf("%s: %q, excused %v", name, got, r.Excused)
		}
	}
}

// Every mistake in a file is reported, with its place and the words that are allowed.
func TestBadScenarios(t *testing.T) {
	_, err := Read("x.world.yaml", []byte(head+`cause: x
seed: -1
world:
  service: {replica: 3, rate: 1e9, engine: trt, slos: [{name: foo}], prompt: {meen: 3}, git: true}
  alerts: [slos]
  nodes: 900
faults:
  - {at: 5, traffic: 3}
  - {at: -12m}
  - {at: -7h, traffic: 3, prompts: 2}
  - {at: -1m, stuck: first}
  - {at: 1m, release: {bad: {chunk: 1}}}
  - {at: 1m, service: chat, gpu: {node: 99, is: cold}}
  - {at: -1m, crash: {replica: 0, why: boredom}}
  - {at: -1m, wrong: {share: 1}}
  - {at: -1m, release: {bad: {wrong: answers}}}
  - {at: 0s, prometheus: away}
  - {at: -1m, some_prompts: {share: 2}}
answer: never
want: {levers: [kube.scal, {node.drain: great}], outcome: fine, told: '('}
`), kinds.Declarations())
	for _, want := range []string{
		`x.world.yaml:5:7: seed: -1 is out of range`, `x.world.yaml:7:13: world.service: unknown field "replica" (did you mean "replicas"?`,
		`7:31: world.service.rate: 1e+09 is out of range: want 0 to 200`, `7:44: world.service.engine: unknown engine "trt"`,
		`unknown objective "foo"`, `unknown field "meen" (did you mean "mean"?`, `unknown alerts "slos" (did you mean "slo"?`, `900 is out of range`,
		`11:10: faults[0].at: want a moment, got the number 5`, `12:5: faults[1]: nothing goes wrong (allowed: traffic,`, `-7h is before the world's history`,
		`a fault is one thing, and this is traffic and prompts`, `want the number of a replica or all, got the text "first"`, `unknown field "chunk"`,
		`no service is named "chat"`, `missing field times`, `want the number of a node, 0 to 7, or all`, `unknown ailment "cold"`, `unknown reason "boredom"`,
		`faults[7].wrong: unknown field "share"`, `missing field replica`, `in Git, what is bad is about an image (name another image)`, `missing field tokens`, `some_prompts.share: 2 is out of range`, `unknown difference "answers"`,
		`missing field for (how long Prometheus does not answer)`, `answer: invalid duration "never"`, `unknown lever "kube.scal" (did you mean "kube.scale"?`,
		`unknown verdict "great"`, `unknown outcome "fine"`, `want.told: error parsing regexp`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q:\n%v", want, err)
		}
	}
}
