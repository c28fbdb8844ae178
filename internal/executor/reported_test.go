package executor

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
)

func week(until time.Time) Report {
	return Report{Reported: Reported{Name: "weekly", Until: until.UTC()}, Text: "report of the week", To: []string{"platform"}}
}

// dueReports counts the messages about reports that the journal has as due.
func (h *rig) dueReports() (n int) {
	for rec, err := range h.journal.Stream(streamControl, 0) {
		if err != nil {
			h.t.Fatal(err)
		}
		if rec.Kind == KindNoticeDue && strings.Contains(string(rec.Data), "report/weekly/") {
			n++
		}
	}
	return n
}

// Wherever the process ends, the report of a period is one message: it is owed once, and
// sent again only under the same key.
func TestReportSurvivesCrash(t *testing.T) {
	for n := 1; ; n++ {
		crashed := true
		bubble(t, func(t *testing.T, h *rig) {
			keys := map[string]bool{}
			h.world.before = func(e machine.Effect) {
				if e.Action == machine.ActionNotify {
					keys[e.Key] = true
				}
			}
			h.start()
			if err := h.stop(); err != nil { // what the first start records is not the subject
				t.Fatal(err)
			}
			until, stopped := time.Now(), h.stopAt(n)
			h.start()
			err := h.e.RecordReport(t.Context(), week(until))
			h.pass(time.Minute)
			if crashed = stopped.at() != ""; !crashed && err != nil {
				t.Fatal(err)
			}
			if crashed {
				h.crashed()
			} else if err := h.stop(); err != nil {
				t.Fatal(err)
			}
			h.options = nil
			h.start()
			if !h.e.Reported()["weekly"].Equal(until) { // the service makes it again
				if err := h.e.RecordReport(t.Context(), week(until)); err != nil {
					t.Fatal(err)
				}
			}
			if err := h.e.RecordReport(t.Context(), week(until)); !errors.Is(err, ErrConflict) {
				t.Errorf("stop %d: a second report of the same period: %v", n, err)
			}
			h.pass(time.Minute)
			if told, due := h.world.told("report of the week"), h.dueReports(); told == 0 || due != 1 || len(keys) != 1 {
				t.Errorf("stop %d at %q: told %d times, owed %d times, under %d keys", n, stopped.at(), told, due, len(keys))
			}
		})
		if !crashed {
			return
		}
	}
}

// A message that was due when the process ended goes to the same channels, with the time at
// which it was decided: by that time a channel knows that it may already be there.
func TestDueMessageKeepsChannelAndTime(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		tries, began := 0, time.Now()
		h.options = func(o *Options) { o.Steps = muted{h.world, began.Add(time.Hour), fault.Unreachable, &tries} }
		var sent []machine.Effect
		h.world.before = func(e machine.Effect) { sent = append(sent, e) }
		h.start()
		r := week(began)
		if err := h.e.RecordReport(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		h.pass(2 * time.Hour)
		h.start()
		if len(sent) != 1 || !slices.Equal(sent[0].To, r.To) || !sent[0].At.Equal(began) {
			t.Errorf("sent after the start: %+v", sent)
		}
	})
}

// A report that is configured no more is forgotten, so that one of the same name begins anew.
func TestReportForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		r := week(time.Now())
		for _, x := range []Report{r, {Reported: Reported{Name: "weekly"}}} {
			if err := h.e.RecordReport(t.Context(), x); err != nil {
				t.Fatal(err)
			}
		}
		h.restart()
		if all := h.e.Reported(); len(all) != 0 {
			t.Errorf("it is still known: %v", all)
		}
	})
}

// A channel that refuses a report leaves a warning in the log. The next report is sent in its
// turn.
func TestRefusedReportIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		tries, began := 0, time.Now()
		var log strings.Builder
		h.options = func(o *Options) {
			o.Steps, o.Log = muted{h.world, began.Add(time.Hour), fault.Forbidden, &tries}, slog.New(slog.NewTextHandler(&log, nil))
		}
		h.start()
		for range 2 {
			if err := h.e.RecordReport(t.Context(), week(time.Now())); err != nil {
				t.Fatal(err)
			}
			h.pass(7 * 24 * time.Hour)
		}
		if n := h.world.told("report of the week"); n != 1 || strings.Count(log.String(), `level=WARN msg="people could not be told"`) != 1 {
			t.Errorf("told %d times after %d refusals; the log:\n%s", n, tries, log.String())
		}
	})
}
