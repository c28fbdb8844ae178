package approvals

import (
	"slices"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
)

// TestWaitingForAMerge: the thread shows what a change waits for, each thing
// once, and the merge.
func TestWaitingForAMerge(t *testing.T) {
	const url = "https://git.example/pull/7"
	missing, failed := "waits for the merge of "+url+" by people: a required review is missing", "waits for the merge of "+url+" by people: check ci: failure"
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	settling := func(message, waits string, why fault.Reason) machine.Event {
		return machine.Event{Kind: machine.Settling, At: at, Message: message, Waits: waits, Reason: why}
	}
	s := newTimeline(machine.State{}, []machine.Event{
		{Kind: machine.PlanCompleted, At: at, Plan: &machine.Plan{Summary: "set it, by pull request"}},
		{Kind: machine.Applied, At: at, Waits: url},
		settling(missing, url, ""),
		settling(missing, url, ""),
		settling("no route to the forge", url, fault.Unreachable),
		settling(missing, url, ""),
		settling(failed, url, ""),
		settling("argocd/chat: a sync runs", "", ""),
		settling("argocd/chat: health Progressing", "", ""),
	})
	var got []string
	for _, l := range s.thread {
		got = append(got, l.Text)
	}
	want := []string{"ASKED FOR, and applied when it is merged: " + url + ": set it, by pull request", missing, failed, "merged, rolling out: argocd/chat: a sync runs"}
	if !slices.Equal(got, want) {
		t.Errorf("the thread says\n%q, want\n%q", got, want)
	}
	s = newTimeline(machine.State{}, []machine.Event{{Kind: machine.Declined, At: at, Message: url + " was closed"}})
	if len(s.thread) != 1 || s.thread[0].Text != "DECLINED, nothing was changed: "+url+" was closed" {
		t.Errorf("the thread says %+v", s.thread)
	}
}
