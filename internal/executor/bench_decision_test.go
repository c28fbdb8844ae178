package executor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// BenchmarkDecision is from a person's word to its record on disk, on an idle
// service with one open question. The word is of somebody who may not decide,
// which is journaled too and leaves the question open.
func BenchmarkDecision(b *testing.B) {
	dir, err := os.MkdirTemp("/var/tmp", "decision-") // a disk: tests have theirs in memory
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			b.Error(err)
		}
	})
	j, err := audit.Open(filepath.Join(dir, "journal.db"), audit.Options{})
	if err != nil {
		b.Fatal(err)
	}
	set := loadSet(b, func(s string) string { return strings.Replace(s, "autonomy: auto", "autonomy: suggest", 1) })
	e, err := New(Options{
		Journal: j, Playbooks: func() *playbook.Set { return set }, Kinds: testKinds(), Services: testServices(),
		Steps: newWorld(time.Now), Autonomy: playbook.Auto, Policy: allow(twoOf("oncall")),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	b.Cleanup(func() {
		end()
		if err := errors.Join(<-ended, j.Close()); err != nil {
			b.Error(err)
		}
	})
	n := playbook.Notification{
		Receiver: "responder", Version: "4", Status: playbook.Firing, GroupKey: "{}",
		Alerts: []playbook.Alert{alertOf("Slow", "a")}, ReceivedAt: time.Now().UTC(),
	}
	if _, err := j.Append(ctx, audit.Append{
		Stream: dispatch.StreamIntake, After: audit.Any, Records: []audit.Record{{Kind: "notification", Data: n.AppendJSON(nil)}},
	}); err != nil {
		b.Fatal(err)
	}
	var id string
	for id == "" {
		if all := e.Runs(Filter{}); len(all) == 1 && all[0].Gate != nil {
			id = all[0].Start.Run
		}
	}
	word := machine.Command{Kind: machine.CmdDecide, Decision: &machine.Decision{Approve: true, By: "user:eve", Channel: "api"}}
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		if err := e.Command(ctx, id, word); !errors.Is(err, ErrForbidden) {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
