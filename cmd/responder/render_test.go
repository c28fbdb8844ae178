package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// eventKinds reads the kinds of events from the machine's source, so that a new
// one cannot be forgotten here.
func eventKinds(t *testing.T) []machine.EventKind {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "internal", "executor", "machine", "event.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []machine.EventKind
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == "EventKind" {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, machine.EventKind(value))
		}
		return true
	})
	if len(kinds) < 30 {
		t.Fatalf("found only %d kinds of events", len(kinds))
	}
	return kinds
}

// A person reads words, whatever happens in a run; and an event that lacks what
// its kind promises is no reason to crash.
func TestEveryEventHasWords(t *testing.T) {
	for _, kind := range eventKinds(t) {
		what, _ := describe(kind, machine.Event{Kind: kind})
		if what == string(kind) {
			t.Errorf("%s is shown as its stored name", kind)
		}
		r := newRunRenderer(&strings.Builder{})
		r.event(kind, machine.Event{Kind: kind, Sample: &machine.Sample{}, Plan: &machine.Plan{}, Guards: []machine.GuardVerdict{{}}})
		if r.err != nil {
			t.Errorf("%s: %v", kind, r.err)
		}
	}
}

// What a person must be able to tell from a held run: why, and what to type.
func TestHeldRun(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var b strings.Builder
	newRunRenderer(&b).head(machine.State{
		Start: machine.Start{
			Run: "r-1", Playbook: "pb", Digest: "sha256:0123456789abcdef0123", Service: playbook.Service{Name: "serving/chat"},
			Alert: playbook.Alert{Labels: map[string]string{"alertname": "X", "b": "2", "a": "\x1b[2Jevil"}},
		},
		Phase: machine.PhaseHeld, Current: "scale", Updated: at,
		Held: &machine.Hold{Action: machine.ActionApply, Effect: "r-1/scale#1/apply#1", Message: "the answer was cut off"},
	})
	want := `run       r-1
playbook  pb sha256:0123456789ab
service   serving/chat
alert     X{a="\x1b[2Jevil", b="2"}
status    held in state scale since 2026-03-01 12:00:00Z
held      apply of r-1/scale#1/apply#1: the answer was cut off
          look, then: responder runs resolve r-1 --applied|--not-applied --reason ...
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The chart shows the recovery, and a gap as a gap.
func TestCurves(t *testing.T) {
	value := func(v float64) *float64 { return &v }
	var samples []machine.Sample
	for _, v := range []*float64{value(0.8), value(0.4), nil, value(0.1), value(0.05)} {
		samples = append(samples, machine.Sample{Values: []machine.Reading{{Name: "error ratio", Value: v, Limit: 0.1, Op: "<", OK: v != nil && *v < 0.1}}})
	}
	want := []string{"error ratio", "  █▅·▂▁  0.05 < 0.1 ok"}
	if diff := cmp.Diff(want, curves(samples)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
