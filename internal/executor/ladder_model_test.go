package executor

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/ladder"
	"github.com/inference-responder/responder/internal/playbook"
)

// What was learned is there after a crash at any place, and counts once.
func TestTrustSurvivesCrashes(t *testing.T) {
	for _, autonomy := range []playbook.Autonomy{playbook.Observe, playbook.Auto} {
		for k := 1; ; k++ {
			crashed := ""
			bubble(t, func(t *testing.T, h *rig) {
				h.world.helps = func(int) bool { return false }
				stop := h.stopAt(k)
				failpoint := h.options
				h.options = func(o *Options) {
					failpoint(o)
					o.Autonomy, o.Ladder = autonomy, recordOf(ladder.Config{DemoteAfter: 1})
				}
				h.start()
				a := alertOf("Slow", "a")
				h.post(a)
				h.passUntil(func() bool { return stop.at() != "" })
				if crashed = stop.at(); crashed == "" {
					return
				}
				h.crashed()
				h.end, h.options = nil, func(o *Options) { o.Autonomy, o.Ladder = autonomy, recordOf(ladder.Config{DemoteAfter: 1}) }
				h.start()
				h.pass(time.Hour)
				h.post(resolvedOf(a))
				when := fmt.Sprintf("%s, crash %d at %s", autonomy, k, crashed)
				h.mustAgree(when)
				got := h.trustIn(firstOn("a"))
				if autonomy == playbook.Observe && (got.Recovered != 1 || got.Watched != 0) {
					t.Errorf("%s: %+v", when, got.Figured)
				}
				if n := h.world.told("is demoted"); autonomy == playbook.Auto && (!got.Demoted || n < 1 || n > 2) {
					t.Errorf("%s: demoted %v, people told %d times", when, got.Demoted, n)
				}
			})
			if crashed == "" {
				break
			}
		}
	}
}

// Whatever happens to levers in whatever order, with restarts between, the
// figures are those that a plain count gives, a demotion stands exactly after so
// many failures in a row, and promotion is only proposed.
func TestTrustAgainstModel(t *testing.T) {
	all := []ladder.Result{ladder.ResultVerified, ladder.ResultIneffective, ladder.ResultInconclusive, ladder.ResultOverridden, ladder.ResultRefused, ladder.ResultDenied, ladder.ResultWouldApply}
	rapid.Check(t, func(rt *rapid.T) {
		c := ladder.Config{DemoteAfter: rapid.IntRange(0, 4).Draw(rt, "after"), Within: 10 * time.Hour, ProposeAfter: 3}
		ops := rapid.SliceOfN(rapid.IntRange(0, len(all)+1), 0, 60).Draw(rt, "ops")
		synctest.Test(t, func(t *testing.T) {
			h := newRig(t)
			h.options = func(o *Options) { o.Ladder, o.Autonomy = recordOf(c), playbook.Suggest }
			h.start()
			want, row, streak, demoted := ladder.Figured{}, []time.Time{}, 0, false
			for i, op := range ops {
				h.pass(time.Duration(1+op) * time.Hour)
				switch {
				case op == len(all): // restart
					if err := h.stop(); err != nil {
						rt.Fatal(err)
					}
					h.start()
				case op > len(all):
					if err := h.e.PromoteLever(t.Context(), firstOn("a"), "user:ada", "why not"); (err == nil) != demoted {
						rt.Fatalf("promote while demoted is %v: %v", demoted, err)
					}
					if demoted {
						row, streak, demoted = nil, 0, false
					}
				default:
					h.learn(all[op], i)
					count(&want, all[op])
					switch {
					case all[op] == ladder.ResultVerified:
						row, streak = nil, streak+1
					case failed(all[op]):
						row, streak = append(row, time.Now()), 0
					case all[op] == ladder.ResultOverridden, all[op] == ladder.ResultDenied:
						streak = 0
					}
					if n := len(row); c.DemoteAfter > 0 && n >= c.DemoteAfter && failed(all[op]) && time.Since(row[n-c.DemoteAfter]) <= c.Within {
						demoted = true
					}
				}
				got := h.trustIn(firstOn("a"))
				if got.Figured != want || got.Demoted != demoted || got.Streak != streak {
					rt.Fatalf("after %v: %+v, want %+v, demoted %v, streak %d", ops[:i+1], got, want, demoted, streak)
				}
				if proposed := strings.HasPrefix(got.Proposal, "propose auto"); proposed != (streak >= 3) {
					rt.Fatalf("after %v: streak %d, proposal %q", ops[:i+1], streak, got.Proposal)
				}
			}
			h.mustFold(fmt.Sprint(ops))
		})
	})
}

func failed(r ladder.Result) bool {
	return r == ladder.ResultIneffective || r == ladder.ResultInconclusive
}

// count is the plain count.
func count(f *ladder.Figured, r ladder.Result) {
	if r == ladder.ResultVerified || failed(r) {
		f.Attempts++
	}
	switch r {
	case ladder.ResultVerified:
		f.Verified++
	case ladder.ResultIneffective:
		f.Ineffective++
	case ladder.ResultInconclusive:
		f.Inconclusive++
	case ladder.ResultOverridden:
		f.Overridden++
	case ladder.ResultRefused:
		f.Refused++
	case ladder.ResultDenied:
		f.Denied++
	case ladder.ResultWouldApply:
		f.WouldApply++
	}
}

// learn commits a result as a run's batch does.
func (h *rig) learn(r ladder.Result, i int) {
	h.t.Helper()
	e := h.e
	l := ladder.Additions{Results: []ladder.LeverResult{{LeverID: firstOn("a"), Run: fmt.Sprintf("r-%d", i), Result: r, Applied: r == ladder.ResultVerified || failed(r)}}}
	now := e.clock.now()
	l.Demotions = e.ladder.Demotions(l.Results, now)
	h.inLoop(func(b *batch) error {
		b.ladder = l.Records(now)
		return nil
	})
	e.ladder.Take(l, now)
}

// BenchmarkLoadTrust folds what a hundred thousand levers came to, on a hundred
// services.
func BenchmarkLoadTrust(b *testing.B) {
	const records = 100_000
	j, err := audit.OpenTemp("")
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	var l ladder.Additions
	for i := range records {
		l.Results = append(l.Results, ladder.LeverResult{
			LeverID: firstOn(fmt.Sprintf("team-%d/service", i%100)), Run: fmt.Sprintf("r-%026d", i),
			Result: ladder.ResultVerified, Level: playbook.Auto, Applied: true,
		})
		if len(l.Results) == audit.MaxBatch {
			a := audit.Append{Stream: ladder.Stream, After: audit.Any, Records: l.Records(time.Now())}
			if _, err := j.Append(b.Context(), a); err != nil {
				b.Fatal(err)
			}
			l.Results = nil
		}
	}
	e := &Executor{o: Options{Journal: j}}
	for b.Loop() {
		e.ladder = recordOf(ladder.Config{})
		if err := e.loadLadder(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
}
