package machine

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

var update = flag.Bool("update", false, "rewrite the expected output of testdata/*.txt")

// testKinds are the steps of the test playbooks.
func testKinds() []playbook.Kind {
	str := playbook.Type{Name: playbook.Duration}
	to := []playbook.Field{{Name: "to", Type: playbook.Type{Name: playbook.Int}, Required: true, Doc: "To."}}
	return []playbook.Kind{
		{
			Name: "test.look", Role: playbook.RoleCheck, Doc: "Looks.",
			With: []playbook.Field{{Name: "window", Type: str, Doc: "Window."}},
			Out: []playbook.Field{
				{Name: "bad", Type: playbook.Type{Name: playbook.Bool}, Doc: "Bad."},
				{Name: "value", Type: playbook.Type{Name: playbook.Int}, Doc: "Value."},
				{Name: "node", Type: playbook.Type{Name: playbook.String}, Doc: "Node."},
			},
		},
		{
			Name: "test.turn", Role: playbook.RoleLever, Doc: "Turns.", Idempotent: true, With: to,
		},
		{
			Name: "test.ask", Role: playbook.RoleLever, Doc: "Asks for a repair.", Idempotent: true, Request: true, With: to,
		},
		{Name: "test.restart", Role: playbook.RoleLever, Doc: "Turns and restarts.", Idempotent: true, With: to, Restarts: true},
		{Name: "test.add", Role: playbook.RoleLever, Doc: "Adds.", Idempotent: true, With: to, Class: playbook.ClassCapacity},
		{
			Name: "test.more", Role: playbook.RoleLever, Doc: "Adds in steps.", Idempotent: true, Class: playbook.ClassCapacity,
			With: []playbook.Field{{Name: "by", Type: playbook.Type{Name: playbook.Int}, Required: true, Doc: "By."}}, Steps: &playbook.Stepping{Param: "by", Relative: true},
		},
		{Name: "test.tune", Role: playbook.RoleLever, Doc: "Tunes in steps.", Idempotent: true, With: to, Restarts: true, Steps: &playbook.Stepping{Param: "to"}},
		{Name: "test.give", Role: playbook.RoleLever, Doc: "Gives back.", Idempotent: true, With: to, Class: playbook.ClassReturn},
		{Name: "test.back", Role: playbook.RoleLever, Doc: "Goes back.", Idempotent: true, With: to, Class: playbook.ClassRollback},
		{Name: "test.out", Role: playbook.RoleLever, Doc: "Takes out.", Idempotent: true, With: to, Class: playbook.ClassHardware},
		{
			Name: "test.oust", Role: playbook.RoleLever, Doc: "Takes a node out.", Idempotent: true, Class: playbook.ClassHardware,
			With: []playbook.Field{{Name: "node", Type: playbook.Type{Name: playbook.String}, Required: true, Doc: "Node."}},
		},
		{Name: "test.in", Role: playbook.RoleLever, Doc: "Puts back.", Idempotent: true, With: to, Class: playbook.ClassRepaired},
		{Name: "test.move", Role: playbook.RoleLever, Doc: "Moves traffic.", Idempotent: true, With: to, Class: playbook.ClassTraffic},
		{Name: "test.stop", Role: playbook.RoleLever, Doc: "Holds a release.", Idempotent: true, With: to, Class: playbook.ClassHold},
	}
}

func testPlaybooks(t testing.TB) *playbook.Set {
	t.Helper()
	data, err := os.ReadFile("testdata/playbooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all, err := playbook.Parse("playbooks.yaml", data, testKinds())
	if err != nil {
		t.Fatal(err)
	}
	set, err := playbook.NewSet(all)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func testAlert(name string) playbook.Alert {
	return playbook.Alert{
		Fingerprint: "f-" + name, Status: playbook.Firing, StartsAt: epoch.Add(-5 * time.Minute),
		Labels: map[string]string{"alertname": name},
	}
}

var epoch = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

func testStart(set *playbook.Set, name string, level playbook.Autonomy) Command {
	p := set.ByName(name)
	return Command{
		Kind: CmdStart, Playbook: p,
		Start: &Start{
			Run: "r-1", Playbook: p.Name, Digest: p.Digest, Alert: testAlert("Slow"), Autonomy: level,
			Service: playbook.Service{Name: "serving/chat", Owners: []string{"user:ada", "group:ml", "group:sre"}, Selector: `service="chat"`, Autonomy: playbook.Auto},
		},
	}
}

// TestScripts runs testdata/*.txt: a line "> command" is followed by the events
// it caused and what the run owes then. Read them as the machine's manual.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	set := testPlaybooks(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := &script{t: t, set: set, now: epoch}
			got := s.run(string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("run the test with -update and look at the difference (-want +got):\n%s", d)
			}
		})
	}
}

type script struct {
	t      *testing.T
	set    *playbook.Set
	now    time.Time
	state  State
	events []Event
	out    bytes.Buffer
}

func (s *script) run(text string) string {
	comment := false
	for _, line := range strings.Split(text, "\n") {
		if s.out.Len() > 0 && !strings.HasPrefix(line, "  ") && line != "" && s.state.Phase != "" && !strings.HasSuffix(s.out.String(), "\n\n") && !comment {
			s.out.WriteByte('\n')
		}
		comment = strings.HasPrefix(line, "#")
		if comment {
			fmt.Fprintln(&s.out, line)
			continue
		}
		cmd, ok := strings.CutPrefix(line, "> ")
		if !ok {
			continue
		}
		fmt.Fprintln(&s.out, line)
		s.command(cmd)
	}
	return s.out.String()
}

func (s *script) command(line string) {
	words := strings.Fields(line)
	if len(words) > 0 && strings.HasPrefix(words[0], "+") {
		s.now = s.now.Add(s.duration(words[0][1:]))
		words = words[1:]
	}
	if len(words) == 0 {
		words = []string{"tick"}
	}
	if words[0] == "restart" {
		s.restart()
		words = []string{"resume"}
	}
	c := s.parse(words)
	c.Now = s.now
	if c.Kind == CmdStart {
		s.state.Playbook = c.Playbook
	}
	events, err := Decide(s.state, c)
	for _, e := range events {
		s.state = Evolve(s.state, e)
		fmt.Fprintln(&s.out, "  "+eventLine(e))
	}
	s.events = append(s.events, events...)
	if err != nil {
		fmt.Fprintln(&s.out, "  error: "+err.Error())
	}
	fmt.Fprintln(&s.out, "  = "+stateLine(s.state, s.now))
	s.checkFold()
}

// checkFold proves that the log alone gives the same state.
func (s *script) checkFold() {
	s.t.Helper()
	if d := cmp.Diff(s.state, refold(s.t, s.state.Playbook, s.events), ignorePlaybook()); d != "" {
		s.t.Fatalf("folding the stored events gives another state (-live +folded):\n%s", d)
	}
}

func ignorePlaybook() cmp.Option {
	return cmp.Comparer(func(a, b *playbook.Playbook) bool { return a == b })
}

// refold sends events through JSON, as the journal does, and folds them.
func refold(t testing.TB, p *playbook.Playbook, events []Event) State {
	t.Helper()
	s := State{Playbook: p}
	for _, e := range events {
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		back := Event{Kind: e.Kind}
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		s = Evolve(s, back)
	}
	return s
}

func (s *script) restart() { s.state = refold(s.t, s.state.Playbook, s.events) }

// parse reads one command; key=value words set its fields.
func (s *script) parse(words []string) Command {
	opts := map[string]string{}
	var flags []string
	for _, w := range words[1:] {
		if k, v, ok := strings.Cut(w, "="); ok {
			opts[k] = v
		} else {
			flags = append(flags, w)
		}
	}
	has := func(f string) bool { return strings.Contains(" "+strings.Join(flags, " ")+" ", " "+f+" ") }
	d := &Decision{
		By: "user:ada", Channel: "api", Person: !has("undeclared"), Digest: opts["digest"], Gate: opts["gate"], Reason: strings.ReplaceAll(opts["reason"], "_", " "),
		Strong: has("strong"), BreakGlass: has("glass"),
	}
	if by := opts["by"]; by != "" {
		d.By = by
	}
	if g := opts["group"]; g != "" {
		d.Groups = []string{g}
	}
	switch words[0] {
	case "start":
		level := playbook.Auto
		if a, ok := opts["autonomy"]; ok {
			if err := level.UnmarshalText([]byte(a)); err != nil {
				s.t.Fatal(err)
			}
		}
		c := testStart(s.set, flags[0], level)
		c.Start.By = opts["by"]
		if load := opts["load"]; load != "" {
			c.Start.Service.LoadTime = s.duration(load)
		}
		return c
	case "tick", "resume", "unpause", "retry":
		return Command{Kind: CommandKind(words[0])}
	case "pause":
		return Command{Kind: CmdPause, Message: strings.Join(flags, " ")}
	case "approve", "deny":
		d.Approve = words[0] == "approve"
		return Command{Kind: CmdDecide, Decision: d}
	case "replan":
		return Command{Kind: CmdReplan, Decision: d}
	case "proceed":
		return Command{Kind: CmdProceed, Decision: d}
	case "cancel":
		return Command{Kind: CmdCancel, Decision: d}
	case "resolve":
		d.Approve = has("applied")
		return Command{Kind: CmdResolve, Decision: d}
	case "alert":
		a := testAlert("Slow")
		if n := opts["name"]; n != "" {
			a = testAlert(n)
		}
		if has("resolved") {
			a.Status = playbook.Resolved
		}
		return Command{Kind: CmdAlert, Alert: &a}
	case "nobody-to-divert-to":
		fallthrough
	default:
		return s.outcome(words, opts, has)
	}
}

// outcome makes the outcome of the effect that is owed.
func (s *script) outcome(words []string, opts map[string]string, has func(string) bool) Command {
	e, ok := Pending(s.state)
	if !ok && s.state.Open != nil {
		e = Effect{Key: s.state.Open.Key, Action: s.state.Open.Action}
	}
	out := Outcome{Status: Status(words[0]), Reason: fault.Reason(opts["reason"]), Slow: opts["slow"] == "true", Message: strings.ReplaceAll(opts["message"], "_", " ")}
	out.Waits, out.Next, out.Stays = opts["waits"], has("next"), has("stays")
	if fact := opts["fact"]; fact != "" {
		out.Facts = []string{strings.ReplaceAll(fact, "_", " ")}
	}
	if again := opts["again"]; again != "" {
		out.Again = s.duration(again)
	}
	if done, err := strconv.Atoi(opts["done"]); err == nil {
		out.Progress = &Progress{Revision: 5, Done: done}
	}
	if data, ok := opts["data"]; ok {
		out.Data = json.RawMessage(data)
	}
	for _, a := range e.Gather {
		switch data, ok := opts[a.Name]; {
		case ok && strings.HasPrefix(data, "{"):
			out.Gathered = append(out.Gathered, Gathered{Name: a.Name, Step: a.Step, Data: json.RawMessage(data), Facts: []string{"looked"}})
		case ok:
			out.Gathered = append(out.Gathered, Gathered{Name: a.Name, Step: a.Step, Reason: fault.Timeout, Why: strings.ReplaceAll(data, "_", " ")})
		case a.Why != "":
			out.Gathered = append(out.Gathered, Gathered{Name: a.Name, Step: a.Step, Reason: fault.Expression, Why: a.Why})
		}
	}
	switch e.Action {
	case ActionPlan:
		if out.Status == StatusOK {
			out.Plan = testPlan(opts["generation"], e.With["to"])
			out.Plan.Unseen, out.Plan.Asks = opts["unseen"], opts["asks"]
			out.Plan.Stops, out.Plan.Unrepeatable = has("stops"), has("unrepeatable")
			if staged := opts["staged"]; staged != "" {
				out.Plan.Staged = s.duration(staged)
			}
			if loading := opts["loading"]; loading != "" {
				out.Plan.Loading = s.duration(loading)
			}
			if rounds, err := strconv.Atoi(opts["rounds"]); err == nil {
				out.Plan.Rounds = rounds
			}
			if has("back") {
				out.Plan.Back = map[string]any{"by": -1}
			}
			if pool, ok := opts["pool"]; ok {
				out.Plan.Target = Target{Kind: "Node", Name: fmt.Sprint(e.With["node"]), UID: "n"}
				out.Plan.Summary, out.Plan.Diff = "oust gpu-17", nil
				out.Plan.NodeOwners = &NodeOwners{}
				if name, owners, named := strings.Cut(pool, ":"); named {
					out.Plan.NodeOwners = &NodeOwners{Pool: name, Owners: strings.Split(owners, ",")}
				}
			}
			if within := opts["merge"]; within != "" {
				out.Plan.MergeWithin = s.duration(within)
			}
		}
	case ActionGuard:
		out.Guards = []GuardVerdict{{Guard: "firing", OK: true, Why: "1 of 1 fire"}}
		if has("wait") {
			out.Guards = append(out.Guards, GuardVerdict{Guard: "lock", Wait: true, Why: "held by r-0"})
		}
		if has("behind") {
			out.Guards = append(out.Guards, GuardVerdict{Guard: "lock", Wait: true, Why: "waits for run r-0", Run: "r-0", Again: true})
		}
		if has("old") {
			out.Guards = append(out.Guards, GuardVerdict{Guard: "evidence", Why: "newest is 6m old"})
		}
		if until := opts["cooldown"]; until != "" {
			out.Guards = append(out.Guards, GuardVerdict{Guard: "cooldown", Wait: true, Why: "by r-0", Run: "r-0", Again: true, Until: s.now.Add(s.duration(until))})
		}
		if has("no") {
			out.Guards = append(out.Guards, GuardVerdict{Guard: "cooldown", Why: "2m ago, cooldown 10m"})
		}
		out.Terms = s.terms(opts, has)
	case ActionApply:
		before := 12.0
		out.Before = &before
		if out.Status == StatusOK && out.Data == nil {
			out.Data = json.RawMessage(`{"generation":2}`)
		}
	case ActionVerify:
		if v, ok := opts["sample"]; ok {
			out.Sample = &Sample{At: s.now, Verdict: Verdict(v), Message: v, Ends: Verdict(opts["ends"])}
			if v == string(VerdictRecovering) {
				out.Sample.HeldFrom = s.now
			}
		}
	}
	return Command{Kind: CmdOutcome, Effect: e.Key, Outcome: &out, NoDivert: strings.ReplaceAll(opts["nodivert"], "_", " ")}
}

func testPlan(generation string, to any) *Plan {
	p := &Plan{
		Step: "test.turn", Target: Target{Kind: "Deployment", Namespace: "serving", Name: "chat", UID: "u", Generation: 1},
		Summary: fmt.Sprintf("turn to %v", to), Diff: []FieldChange{{Path: "spec.turn", From: "1", To: fmt.Sprint(to)}},
		Locks: []string{"service:serving/chat"}, Risk: RiskLow, Capacity: Capacity{ReadyNow: 2, LowestReady: 2, ReadyAfter: 2},
	}
	if generation != "" {
		p.Target.Generation = int64(len(generation))
	}
	return p
}
