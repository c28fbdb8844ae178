package api

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

var update = flag.Bool("update", false, "write the golden files")

var (
	noon    = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	later   = noon.Add(90 * time.Second)
	number  = 1.5
	alert   = playbook.Alert{Fingerprint: "00000000000000aa", Status: playbook.Firing, Labels: map[string]string{"alertname": "InferenceTTFTFastBurn"}, Annotations: map[string]string{"summary": "slow"}, StartsAt: noon, GeneratorURL: "https://prometheus.example/g"}
	joined  = playbook.Alert{Fingerprint: "00000000000000bb", Status: playbook.Resolved, Labels: map[string]string{"alertname": "InferenceTPOTFastBurn"}, StartsAt: noon, EndsAt: later}
	service = playbook.Service{
		Name: "serving/chat", Namespace: "serving", Workload: playbook.Workload{Kind: "Deployment", Name: "chat"}, Container: "vllm", Engine: "vllm",
		Model: "llama", Endpoint: "http://chat.serving:8000", Gateway: "edge-eu", Owners: []string{"group:ml-platform"}, Autonomy: playbook.Auto, MinReady: 1, MaxScale: 8,
		Selector: `model_name="llama"`, SLOs: []playbook.SLO{{Name: "ttft", Objective: 0.99, Window: 28 * 24 * time.Hour, Threshold: 0.5, Indicator: "ttft", Model: "llama", Route: "chat", By: "pod", CustomBuckets: true}},
		LoadTime: 12 * time.Minute, Recovery: time.Hour,
		Warm:   playbook.Warm{Route: playbook.Workload{Kind: "HTTPRoute", Name: "chat"}, Backend: "chat-stable", Workload: playbook.Workload{Kind: "Deployment", Name: "chat-stable"}, Each: 12.5},
		GitOps: playbook.GitOps{Application: "argocd/chat", Repository: "https://git.example/fleet", Branch: "main", Path: "apps/chat", Object: playbook.Workload{Kind: "InferenceService", Name: "chat"}},
	}
	decision = machine.Decision{Gate: "r-1/rollback#1/gate#1", Digest: "sha256:1", Approve: true, By: "user:ada", Groups: []string{"group:ml-platform"}, Person: true, Channel: "slack", Strong: true, BreakGlass: true, Reason: "all asleep", Lacks: []string{"search"}}
	guards   = []machine.GuardVerdict{{Guard: "firing", OK: true, Why: "1 alert fires"}, {Guard: "lock", Wait: true, Why: "held by r-2"}}
	plan     = machine.Plan{
		Step: "kube.rollback", Target: machine.Target{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "serving", Name: "chat", UID: "u", Generation: 7},
		Summary: "back to revision 3", Diff: []machine.FieldChange{{Path: "spec.template", From: "v2", To: "v1"}}, Undo: "revision 4", Risk: machine.RiskMedium,
		Why: "pods restart", Locks: []string{"service:serving/chat"}, Lacks: "update deployments", Unseen: "the cache", Asks: "a Job", Good: []machine.Setting{{Name: "image", Value: "v1"}},
		Payload: json.RawMessage(`{"revision":3,"note":"a b"}`), MergeWithin: time.Hour, Staged: 3 * time.Minute, Unrepeatable: true, NodeOwners: &machine.NodeOwners{Pool: "h100", Owners: []string{"group:dc-ops"}},
		Capacity: machine.Capacity{ReadyNow: 4, LowestReady: 3, ReadyAfter: 4, TokensPerSecond: &number},
		Others:   []machine.Affected{{Service: "serving/code", MinReady: 1, Capacity: machine.Capacity{Unknown: true}}},
		Pool:     &machine.NodePool{Name: "h100", Size: 8, Out: []string{"gpu-1: cordoned"}}, Shares: []machine.Share{{Namespace: "prod", Wanted: 8, Missing: 1, Lost: 2}, {Unknown: "no answer", Lost: 2}}, Notes: []string{"a PDB allows 1"},
		Lowest: map[string]int{"Deployment serving/chat": 3}, Drift: []machine.Drift{{Kind: "Service", Name: "chat", Sync: "OutOfSync"}},
		Class: playbook.ClassHold, Back: map[string]any{"to": "4"}, Stops: true, Ends: "the hold has an end of its own", Stepwise: true,
		Rehold:  &machine.Rehold{Step: "rollout.hold", Summary: "hold the rollout of revision 4", Back: map[string]any{"hold": false}},
		Touches: []machine.Touched{{Service: "serving/code", Namespace: "serving", Owners: []string{"group:code"}, App: "argocd/code"}},
		Rest:    []machine.Affected{{Service: "Deployment tools/proxy", Namespace: "tools", MinReady: 1, Capacity: machine.Capacity{ReadyNow: 2}}},
		Loading: 4 * time.Minute, Rounds: 3,
	}
	sample = machine.Sample{At: later, Verdict: machine.VerdictRecovering, Reason: fault.NotMet, Message: "held for 30s", HeldFrom: noon, Values: []machine.Reading{
		{Name: "slow first tokens", Unit: "ratio", Value: &number, Limit: 2, Op: "<", OK: true}, {Name: "traffic", Limit: 1, Op: ">", Why: fault.NoData},
	}}
	gate = machine.Gate{
		ID: "r-1/rollback#1/gate#1", Digest: "sha256:1", Opened: noon, Deadline: later, OnExpiry: playbook.ExpiryEscalate, Text: "roll back?",
		Needs: []machine.Need{{Rule: "policy two, policy.yaml:4", From: []string{"group:ml-platform"}, As: "owners of node pool h100", Quorum: 2, Strong: true, For: []string{"chat", "search"}}}, BreakGlass: []string{"user:ada"},
		NotBy: "user:bob", GlassOwn: true, RemindAt: later, Reminded: true, Tiers: []machine.Tier{{After: 5 * time.Minute, To: []string{"pagerduty"}}}, Told: 1,
		Votes: []machine.Decision{decision},
	}
	ending = machine.Ending{Outcome: machine.OutcomeDiverted, Reason: fault.Degraded, Message: "a GPU is at fault", Divert: "gpu-fault"}
)

// override raises the playbook and lowers one lever of it.
func override() *playbook.Override {
	level := playbook.Auto
	return &playbook.Override{
		Levels:    playbook.Levels{Level: &level, States: map[string]playbook.Autonomy{"rollback": playbook.Observe}, By: "playbooks.autonomy of responder.yaml"},
		OfService: &playbook.Levels{States: map[string]playbook.Autonomy{"scale": playbook.Auto}, By: "services[0].autonomy_of of responder.yaml"},
	}
}

// state is a run in which everything is set that an open run can have.
func state() machine.State {
	return machine.State{
		Start: machine.Start{Run: "r-1", Playbook: "bad-rollout", Digest: "sha256:2", Service: service, Alert: alert, Autonomy: playbook.Suggest, DivertedFrom: "r-0", Override: override()},
		Began: noon, Head: 12, Phase: machine.PhaseSettling, Current: "rollback", Updated: later, Truncated: true,
		Path:     []machine.Visit{{State: "triage", Visit: 1, At: noon, Edge: "change in burn window", To: "rollback"}, {State: "rollback", Visit: 1, At: later}},
		Evidence: map[string]*machine.Evidence{"triage": {At: noon, Step: "slo.burn", Data: json.RawMessage(`{"status":"burning"}`), Facts: []string{"burns 14x"}}},
		Episodes: machine.EpisodesOf(map[string]*machine.Episode{joined.Episode(): {Alert: joined, Since: later}, alert.Episode(): {Alert: alert, Firing: true, Since: noon}}),
		Open:     &machine.OpenEffect{Key: "r-1/rollback#1/settle#1", Action: machine.ActionSettle, Attempt: 2, At: noon, NotUntil: later, Observe: true},
		Lever: &machine.Lever{
			State: "rollback", Step: "kube.rollback", With: map[string]any{"to": "previous"}, Plan: &plan, Would: true, Applied: true, AppliedAt: noon, FixedAt: later,
			Deadline: later, Waits: "https://git.example/pull/7", Signal: playbook.OnVerified, Reason: fault.NotMet, Message: "m", Samples: []machine.Sample{sample},
			Consent: machine.Consent{Guards: guards, Terms: &machine.Terms{Merge: &machine.Merger{By: machine.MergeResponder}}, Approved: &decision, Votes: []machine.Decision{decision}, GoodUntil: later},
		},
		Gate: &gate, Held: &machine.Hold{Action: machine.ActionApply, Effect: "e", Message: "unknown", At: noon}, Paused: "load test", Cancel: &decision,
		Quarantine: &machine.Quarantine{Message: "a panic", At: later}, ObservedOutcome: &machine.ObservedOutcome{Known: true, Until: later, Recovered: true, After: time.Minute, Acted: "r-3"},
		Levers: 2, Kept: 1,
	}
}

// event is one in which every field is set.
func event() machine.Event {
	start := state().Start
	return machine.Event{
		Kind: machine.RunStarted, At: noon, State: "rollback", Visit: 1, Effect: "e", Action: machine.ActionApply, Attempt: 2, Observe: true, Start: &start, Alert: &alert,
		With: map[string]any{"to": "previous"}, Data: json.RawMessage(`{"a":1}`), Facts: []string{"f"}, Plan: &plan,
		Gathered: []machine.Gathered{
			{Name: "slo", Step: "slo.burn", Data: json.RawMessage(`{"status":"met"}`), Facts: []string{"met"}},
			{Name: "gpus", Step: "gpu.health", Reason: fault.Timeout, Why: "no answer"},
		},
		Examined: []machine.Examined{
			{Edge: "GPU at fault", To: "hardware", Result: playbook.Unknown, Why: "gpus is unknown: no answer"},
			{Edge: "met", To: "fine", Result: playbook.True, Values: []string{"slo.status = met"}},
		}, Digest: plan.Digest(), Guards: guards, Gate: &gate,
		Tier: 1, Decision: &decision, Sample: &sample, Verdict: machine.VerdictFailed, To: "escalated", NotUntil: later, HeldFrom: noon, Waits: "https://git.example/pull/7",
		Ending: &ending, Reason: fault.Timeout, Message: "m",
	}
}

// dryRun is one in which every field of its own is set.
func dryRun() DryRun {
	p, need := PlanOf(plan), NeedOf(gate.Needs[0])
	match := playbook.MatchResult{Name: "p", Sets: []playbook.SetResult{{Matchers: "{a=b}", Failed: []playbook.Mismatch{{Matcher: "a=b", Label: "a", Missing: true}}}}}
	return DryRun{
		Verdict: "would-act", ExitCode: 2, Notes: []string{"n"},
		Alerts: []DryRunAlert{{
			Alert: AlertOf(alert), Services: []string{"serving/chat"}, Why: "w",
			Decisions: []Dispatch{{"matched", "p", "r-1", "r"}}, Playbooks: []Match{MatchOf(match)},
		}},
		Runs: []DryRunRun{{Run: RunOf(machine.State{}), Events: []Event{}, Levers: []DryRunLever{{
			State: "rollback", Kind: "lever", Step: "kube.rollback", Would: true, Refused: "no", Plan: &p, Digest: p.Digest, Guards: []Guard{GuardOf(guards[0])},
			Approval: DryRunApproval{
				Autonomy: "suggest", Why: "the configuration", Needed: true, Needs: []Need{need}, Within: "15m", OnExpiry: "escalate",
				Tiers: []Tier{TierOf(gate.Tiers[0])}, BreakGlass: []string{"user:ada"},
			},
			Then: []Branch{{Result: "no_effect", First: "undo", To: "triage", What: "check", Reaches: []string{"end"}}},
		}}}},
	}
}

// explanation is one in which every field is set.
func explanation() PolicyExplanation {
	need, limit := NeedOf(gate.Needs[0]), Limit{Level: "suggest", Rule: "r"}
	cause := Cause{Rule: "two", Place: "policy two, policy.yaml:4", Effect: "require_approval", Why: "w", Need: &need, Cap: &limit}
	return PolicyExplanation{Service: "serving/chat", At: noon, Policy: "policy.yaml", Digest: "sha256:1", Levers: []LeverExplanation{{
		Playbook: "p", State: "rollback", Kind: "lever", Lever: "kube.rollback", Answer: "asks", Autonomy: "suggest", LevelBy: "playbooks.autonomy of responder.yaml", HeldBy: []Limit{limit}, Cap: &limit,
		Denied: []Cause{cause}, Needs: []Need{need}, Within: "15m", Tiers: []Tier{TierOf(gate.Tiers[0])}, BreakGlass: []string{"user:ada"}, Depends: []Cause{cause},
	}}, Rights: []RightHolders{{Right: "approve", Who: []string{"asked"}}, {Right: "start"}}}
}

// The reports of commands, in which every field is set.
var (
	faults   = []Fault{{File: "p.yaml", Line: 3, Column: 5, Path: "spec.states", Message: "m", Hint: "h"}, {File: "q.yaml", Message: "m"}}
	rule     = PolicyRule{Name: "two", Place: "policy two, policy.yaml:4", Line: 4, Effect: "require_approval", When: "true", Says: "2 of group:ml-platform", BreakGlass: []string{"user:ada"}}
	verified = Verification{
		Intact: true, Origin: "responder/1", Since: "2026-03-04T12:00:00Z", Entries: 6, Streams: 2, Checkpoints: 1, Signed: 5, Unsigned: 1, Root: "cm9vdA==", Continues: true,
	}
	altered = Verification{Origin: "responder/1", Finding: &Finding{Seq: 2, Last: 2, Stream: "control", Kind: "pause.set", Time: noon, Problem: "m"}}
	demo    = Demo{
		Scenario: "bad-rollout", Run: "r-1", Playbook: "bad-rollout", Service: "serving/chat", Outcome: "resolved", Message: "m", Levers: 1,
		Timeline: []DemoMoment{{At: noon, What: "w"}}, Repair: []DemoPhase{{Name: "detect", Took: "1m"}},
		Figures: []DemoFigure{{Name: "requests served", Unit: "/s", Before: &number, Target: "under 1x"}}, Audit: verified, Verified: true, Journal: "journal.db",
	}
	tally   = AlertTally{Received: 40, WithRun: 12, Unmatched: 20, NoService: 3, Suppressed: 2, Quarantined: 1, Resolved: 2, KnownSince: noon, UnmatchedNames: []UnmatchedAlert{{Alert: "Slw", Count: 20, Nearest: "p", Mismatch: "m"}}, MoreUnmatched: true}
	digests = DigestPage{
		Since: noon, Until: noon, Service: "serving/chat", Playbook: "p", Archived: 1, Unreadable: []string{"r-0"}, Next: "r-1", Alerts: &tally,
		Runs: []RunDigest{{
			Run: "r-1", Service: "serving/chat", Playbook: "p", Alert: "Slow", Alerts: 2, Began: noon, Ended: noon, Status: "resolved", Why: "w", Became: "responder", DivertedFrom: "r-0", Cause: "saturated",
			Phases: []IncidentPhase{{Name: "decide", Seconds: 2.5}}, Attention: []string{"it was held"},
			Changes: []DigestChange{{Lever: "kube.scale", State: "scale", Planned: true, Question: "approved", WaitedSeconds: 240, Applied: true, Verdict: "verified", Undone: true}},
		}},
	}
	period = PeriodReport{
		Since: noon, Until: noon, Service: "serving/chat", Playbook: "p", Alerts: &tally, AlertsInRuns: 2, Archived: 1, Unreadable: []string{"r-0"},
		Runs: PeriodRuns{9, 1, 2, 1, 1, 1, 1, 1, 1}, Changes: PeriodChanges{6, 5, 4, 3, 2, 1}, Services: []PeriodGroup{{"serving/chat", 9, 1, 2, 1, 1, 4, 2, 1, 1, &number}}, Playbooks: []PeriodGroup{{Name: "p"}},
		Levers: []PeriodLever{{"kube.scale", 9, 2, 1, 1, 1, 1, 1, 1, 1, 1}}, Repair: []PeriodPhase{{"total", 1, 60, 90}}, Autonomy: []PeriodAutonomy{{"kube.scale", 3, 2, 240, 1, 1, 1}},
		Causes: []PeriodCause{{"saturated", "p", 2, 1}}, LookAt: []PeriodLook{{Run: "r-1", Service: "serving/chat", Began: noon, Status: "held", Why: []string{"it is held"}}},
	}
	incident = Incident{
		Run: "r-1", Playbook: "p", Service: "serving/chat", Alert: "InferenceTTFTFastBurn{}", Source: "http://prometheus/graph", Fired: noon, Began: noon, Ended: noon, Outcome: "resolved", Message: "m",
		Phases: []IncidentPhase{{Name: "decide", Seconds: 2.5}}, Timeline: []IncidentMoment{{At: noon, What: "w"}}, Evidence: []IncidentEvidence{{State: "triage", Lines: []string{"slo: burns"}}},
		Budget:    []IncidentBudget{{At: noon, State: "triage", Objective: "ttft", Left: -0.1}},
		Changes:   []IncidentChange{{State: "rollback", Lever: "kube.rollout_undo", Summary: "s", Fields: []string{"image: b -> a"}, Applied: noon, Result: "VERIFIED"}},
		Decisions: []IncidentDecision{{At: noon, What: "APPROVED", By: "user:ada", Channel: "slack", Reason: "r", WaitedSeconds: 30}},
	}
	checked = ConfigCheck{
		File: "responder.yaml", Listen: ":8080", Autonomy: "suggest", Services: 1, Playbooks: 2, Prometheus: "http://prometheus:9090", Cluster: "the one it runs in", Discovery: true, IncidentWindow: "30m", Levels: []string{"p: auto by playbooks.autonomy, itself suggest"}, NodePools: []string{"h100: group:dc-ops (nvidia.com/gpu.product=NVIDIA-H100)"}, DefaultSLOs: []string{"ttft 99 % within 0.5 s"}, Defaulted: []string{"serving/chat"},
		Repositories: []string{"https://git.example/fleet"}, ArgoCD: "argocd:443", Channels: []string{"oncall"}, Warnings: []string{"w"},
		Policy: &ConfigPolicy{File: "policy.yaml", Rules: 1, BreakGlass: []PolicyRule{rule}},
		Rights: []RightHolders{{Right: "approve", Who: []string{"asked"}}, {Right: "start"}},
	}
)

// loaded returns a playbook whose autonomy the configuration sets.
func loaded(t *testing.T) (*playbook.Set, *playbook.Playbook) {
	t.Helper()
	p := &playbook.Playbook{Name: "p", Title: "P", Digest: "sha256:2", Source: "p.yaml", Start: "s"}
	set, err := playbook.NewSet([]*playbook.Playbook{p})
	if err != nil {
		t.Fatal(err)
	}
	if set, err = set.Overridden(playbook.Overrides{{Playbook: "p", Level: playbook.Auto, By: "playbooks.autonomy of responder.yaml"}}); err != nil {
		t.Fatal(err)
	}
	return set, p
}

// TestAPI holds the bytes of the API.
func TestAPI(t *testing.T) {
	yes := true
	ended := state()
	ended.Phase, ended.Ending, ended.Ended, ended.Quarantine, ended.Lever, ended.Open = machine.PhaseEnded, &ending, later, nil, nil, nil
	stretch := JournalStretch{First: 5, Last: 6, From: noon, To: later, Bodies: 2, Notifications: 1, Runs: 1, Kept: 1, Segment: "1a2b3c4d-5-7.segment"}
	byHand := machine.State{
		Start: machine.Start{Run: "r-2", Playbook: "p", Alert: playbook.Alert{Labels: map[string]string{"sli": "ttft"}}, By: "user:ada", Reason: "slow"},
		Began: noon, Updated: noon, Phase: machine.PhaseEntering,
	}
	for name, answer := range map[string]any{
		"run":       RunDetail{Run: RunOf(state()), Document: "kind: Playbook\n"},
		"run_ended": RunOf(ended),
		"run_empty": RunOf(byHand),
		"runs":      RunList{Runs: []RunSummary{SummaryOf(state()), SummaryOf(ended), SummaryOf(byHand)}, Now: noon},
		"event":     EventOf(3, event()),
		"alerts": AlertList{Now: later, More: true, Alerts: []ReceivedAlert{{
			Episode: alert.Episode(), Labels: alert.Labels, Firing: true, Starts: noon, Seen: noon, Became: "unmatched", Runs: []string{}, Reason: "r",
			Nearest: "p", Mismatches: []string{"m"}, Waits: true, Remedy: "do", Source: alert.GeneratorURL,
		}, {Episode: joined.Episode(), Starts: noon, Seen: later, Resolved: later, Became: "joined", Runs: []string{"r-1"}, Repeats: 3, Repeated: later}}},
		"services":  ServiceList{Services: []Service{ServiceOf(service), ServiceOf(playbook.Service{Name: "a"})}},
		"playbooks": PlaybookList{Playbooks: []Playbook{PlaybookOf(loaded(t))}},
		"pauses":    PauseList{Pauses: []Pause{{Scope: "service:serving/chat", Service: "serving/chat", Since: noon, By: "user:ada", Reason: "load test"}}, Note: "n"},
		"ladder":    LeverList{Levers: []TrackRecord{{Service: "serving/chat", Playbook: "p", Lever: "rollback", Kind: "kube.rollback", Level: "suggest", HeldBy: []Limit{LimitOf(machine.Cap{Level: playbook.Suggest, Rule: "ladder"})}, Tried: 1, OK: 1, Results: []string{"verified"}, Last: noon, Demoted: true, Changed: later, Why: "w"}}},
		"last_good": LastGoodList{Good: []LastGood{{Service: "serving/chat", Variable: "image", Value: "v1", Commit: "c", Verified: noon, Run: "r-1", Lever: "git.revert"}}},
		"audit":     AuditPage{Entries: []Entry{{Seq: 0, Archived: "1a2b3c4d-0-1.segment"}, {Seq: 1, Time: noon, Stream: "run/r-1", Index: 0, Kind: "run.started", Data: json.RawMessage(`{"at":"x"}`)}}, Next: 2, More: true, Archived: 1},
		"journal": JournalStatus{
			Origin: "responder/1a2b3c4d", Entries: 9, Archived: 4, Bytes: 8192, Oldest: later, Keep: "90d", Archive: "/archive",
			Segments: []JournalSegment{{Segment: "1a2b3c4d-0-5.segment", First: 0, Last: 4, Bytes: 4096, SHA256: "ab"}},
			Next:     &stretch, Waits: "w", Failed: &JournalFailure{At: noon, Message: "m"},
		},
		"journal_archive":  JournalArchive{Stretch: &stretch, More: true, Waits: "w"},
		"journal_archived": JournalArchived{Stretches: []JournalStretch{stretch}, Waits: "w"},
		"journal_restored": JournalRestored{Restored: 3, Present: 2, Segment: SegmentVerification{
			Intact: true, File: "s.segment", Origin: "responder/1a2b3c4d", First: 5, Last: 9, From: noon, To: later, Bytes: 4096, SHA256: "ab", Root: "r=",
			Finding: altered.Finding,
		}},
		"journal_redacted":  JournalRedacted{Entries: []Redaction{{Entry: 3, Stream: "run/r-1", Kind: "step.done", By: "ada", Reason: "a token", At: noon}}, Segments: []string{"s.segment"}, Archived: 2},
		"journal_compacted": JournalCompacted{File: "data/journal.db", Before: 8192, After: 4096},
		"journal_request":   JournalArchiveRequest{DryRun: true, From: 5},
		"readyz":            Readiness{Missing: []string{"journal is being checked"}},
		"start":             StartRequest{Playbook: "p", Service: "serving/chat", Labels: map[string]string{"sli": "ttft"}, Reason: "slow"},
		"decide":            DecisionRequest{Reason: "r", Digest: "sha256:1", Gate: "g", BreakGlass: true, Applied: &yes, As: "ada"},
		"sandbox":           Sandbox{Scenario: "bad-rollout", Opened: noon, Now: later, Pace: 10, Scenarios: []SandboxScenario{{Name: "bad-rollout", Title: "T"}}},
		"sandbox_fire":      SandboxFire{Scenario: "bad-rollout"},
		"sandbox_fired":     SandboxFired{Scenario: "bad-rollout", Opened: noon, Alerts: []SandboxAlert{{Name: "A", Status: "firing", Starts: noon, Runs: []string{"r-1"}}}},
		"pause":             PauseRequest{Service: "serving/chat", Playbook: "p", Intake: true, Reason: "load test"},
		"promote":           Promotion{Playbook: "p", Service: "serving/chat", Lever: "rollback", Reason: "r"},
		"dry_run":           dryRun(),
		"policy":            explanation(),
		"playbook_lint":     PlaybookLint{Playbooks: 1, Problems: faults, Warnings: faults, Unchecked: []string{"vllm:kv_cache_usage_perc"}},
		"policy_lint":       PolicyLint{Rules: 1, Problems: faults},
		"playbook_test": PlaybookTest{
			Cases: []PlaybookCase{{
				Result: "failed", Case: "c", File: "t.test.yaml", Line: 3, Path: []string{"look", "add"}, Levers: []string{"add (by=1)"}, Outcome: "resolved", Took: "5m",
				Steps: []PlaybookStep{{After: "1m", From: "look", To: "add", Why: "busy"}}, Wrong: []string{"outcome: got resolved, want escalated"},
			}},
			Failed: 1, Coverage: []PlaybookCoverage{{Playbook: "p", States: 3, Edges: 4, Unseen: []string{"tell"}, Untaken: []PlaybookEdge{{From: "look", To: "tell", Why: "out.bad"}}}},
			Worlds: []PlaybookWorld{{
				Result: "failed", Scenario: "burst", Title: "A burst", Cause: "burst", File: "burst.world.yaml", Alerts: []string{"Slow"}, Outcome: "resolved", Named: true, Recovered: "4m0s", Bad: 4,
				Runs:    []WorldRun{{Playbook: "p", Service: "serving/chat", Path: []string{"look", "add"}, Outcome: "watching", Returns: true}},
				Changes: []WorldChange{{Lever: "kube.scale", After: "10s", Returns: true, Verdict: "worse", Undone: "9m0s"}},
				Wrong:   []string{"harmful: kube.scale"}, Timeline: []WorldLine{{After: "10s", Run: "r1", Text: "applied"}},
			}},
			Figures: &WorldFigures{Scenarios: 10, Causes: 9, Named: 8, Levers: 7, Harmful: 6, Useless: 5, TakenBack: 4, Curable: 3, Recovered: 2, BadMinutes: 1},
		},
		"policy_test":    PolicyTest{Cases: []PolicyCase{{Result: "ok", Case: "c", File: "t.yaml", Line: 3, Got: "denies"}, {Result: "failed", Case: "d", File: "t.yaml", Line: 5, Got: "denies", Want: "nothing"}}, Failed: 1, Unhit: []PolicyRule{rule}},
		"audit_verify":   verified,
		"audit_altered":  altered,
		"demo":           demo,
		"incident":       incident,
		"digest_page":    digests,
		"report_preview": ReportPreview{Name: "weekly", To: []string{"platform"}, Since: noon, Until: noon, Now: noon, Text: "t"},
		"period_report":  period,
		"backup":         Backup{Made: noon, Origin: "responder/1", Entries: 3, Last: noon, Root: "r", Key: true, Segments: []JournalSegment{{Segment: "s", First: 1, Last: 2, Bytes: 3, SHA256: "h"}}, Dir: "d", Version: "v"},
		"restored":       Restored{File: "data/journal.db", Origin: "responder/1", Entries: 3, Last: noon, Lost: 2, Replaced: "data/replaced", Open: []RestoredRun{{Run: "r-1", Last: "gate.opened", At: noon}}, Segments: []string{"s"}},
		"config_check":   checked,
		"problem":        map[string]Problem{"error": {Code: "busy", Message: "m", Hint: "h"}},
	} {
		got, err := json.MarshalIndent(answer, "", "  ")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got = append(got, '\n')
		path := filepath.Join("testdata", name+".golden.json")
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("%v; run with -update", err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s changed: within v1 answers only grow; if it may change, run with -update\n%s", path, diff)
		}
	}
}

// throughJSON is what a client decodes.
func throughJSON[T any](t *testing.T, in T) T {
	t.Helper()
	var out T
	b, err := json.Marshal(in)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestAClientShowsWhatTheServerKnows: what is shown of a run survives the wire.
func TestAClientShowsWhatTheServerKnows(t *testing.T) {
	for name, s := range map[string]machine.State{
		"open":  state(),
		"ended": {Start: state().Start, Began: noon, Updated: later, Ended: later, Phase: machine.PhaseEnded, Ending: &ending, Evidence: state().Evidence, Episodes: state().Episodes},
	} {
		want := s
		want.Open, want.Tries = nil, machine.Tries{}
		got := throughJSON(t, RunOf(s)).Machine()
		if s.Lever != nil {
			got.Lever.Terms.Merge.Rule = want.Lever.Terms.Merge.Rule
		}
		want.Start.Notification, want.Truncated = 0, s.Truncated
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -server +client\n%s", name, diff)
		}
	}
	want := event()
	start := *want.Start
	start.Service = playbook.Service{Name: start.Service.Name}
	want.Start = &start
	got := throughJSON(t, EventOf(0, event())).Machine()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("event: -server +client\n%s", diff)
	}
	if digest := got.Plan.Digest(); digest != plan.Digest() {
		t.Errorf("the digest of a plan changes on the wire")
	}
}

// TestPlanIsWhole: what people and programs see of a plan, and a client makes of it, is
// the plan whose digest an approval names.
func TestPlanIsWhole(t *testing.T) {
	for f, v := range reflect.ValueOf(plan).Fields() {
		if v.IsZero() {
			t.Errorf("the plan of this test does not set %s", f.Name)
		}
	}
	seen := PlanOf(plan).machine()
	if diff := cmp.Diff(plan, seen); diff != "" {
		t.Errorf("a client sees another plan (-planned +seen):\n%s", diff)
	}
	if seen.Digest() != plan.Digest() {
		t.Errorf("a client's plan has another digest")
	}
}
