package replay

import (
	"fmt"
	"io"
	"strings"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
)

// Write writes the report for people. Against another set of playbooks only the
// differences are written.
func Write(w io.Writer, r Report, wide, verbose bool) error {
	out := runview.NewRenderer(w)
	out.Wide = wide
	if r.Compared != nil {
		if err := writeDifferences(w, r, wide); err != nil {
			return err
		}
	} else if err := writeRuns(w, out, r, wide, verbose); err != nil {
		return err
	}
	say := func(head, text string) {
		for _, line := range runview.Wrap(text, max(runview.Width-len(head), 20)) {
			out.Printf("%s%s\n", head, line)
			head = strings.Repeat(" ", len(head))
		}
	}
	out.Printf("\n")
	say("", fmt.Sprintf("%s to %s: %s, %s, %s", r.From.Format(span), r.To.Format(span), runview.Count(r.Episodes, "episode"), runview.Count(len(r.Runs), "run"), queries(r.Queries)))
	for _, n := range r.Notes {
		say("note: ", n)
	}
	if r.Unread > 0 {
		say("WARNING: ", runview.Count(r.Unread, "notification")+" could not be read; stderr says where")
	}
	if r.Interrupted {
		say("", "INTERRUPTED: this is a part of it only")
	}
	return out.Err
}

// span is how the ends of the span are written.
const span = "2006-01-02 15:04Z"

func queries(n int) string {
	if n == 1 {
		return "1 query"
	}
	return fmt.Sprintf("%d queries", n)
}

func writeRuns(w io.Writer, out *runview.Renderer, r Report, wide, verbose bool) error {
	t := &runview.Table{
		Columns: []runview.Column{
			{Head: "TIME (UTC)"},
			{Head: "SERVICE", Flex: true},
			{Head: "ALERT", Wide: true},
			{Head: "PLAYBOOK", Flex: true},
			{Head: "PATH", Flex: true},
			{Head: "FIRST CHANGE, OR END", Flex: true},
			{Head: "LASTED"},
		},
		Empty: "no run would have started",
	}
	for i, run := range r.Runs {
		t.Add(run.Began.Format("01-02 15:04"), run.Service, run.Alert.Labels["alertname"], run.Playbook, strings.Join(way(run, r.runs[i]), " -> "), r.runs[i].text(), run.Lasted)
	}
	if err := t.Write(w, wide); err != nil {
		return err
	}
	if verbose {
		for i := range r.Runs {
			writeRun(out, r.Runs[i], r.runs[i])
		}
	}
	if len(r.Playbooks) > 0 {
		out.Printf("\n")
		if err := playbookTable(r.Playbooks).Write(w, wide); err != nil {
			return err
		}
	}
	if len(r.Without) > 0 {
		out.Printf("\n")
		return withoutTable(r.Without).Write(w, wide)
	}
	return out.Err
}

// way returns the path without the end state that the end names.
func way(run api.ReplayRun, x *run) []string {
	last := len(run.Path) - 1
	if last > 0 {
		if st := x.s.Playbook.State(run.Path[last]); st != nil && st.Kind == playbook.StateEnd {
			return run.Path[:last]
		}
	}
	return run.Path
}

// writeRun writes the events of a run: evidence, branches with their values, edges.
func writeRun(out *runview.Renderer, run api.ReplayRun, x *run) {
	out.Printf("\nrun %s of playbook %s\n", run.Run, run.Playbook)
	if run.DivertedFrom != "" {
		out.Printf("  from run %s\n", run.DivertedFrom)
	}
	out.Began, out.Book, out.Run = x.s.Began, x.s.Playbook, x.s
	for _, e := range x.events {
		out.Event(e)
	}
	out.Printf("  so: %s\n", runview.JoinClauses(x.text(), x.end.message))
}

func playbookTable(all []api.ReplayPlaybook) *runview.Table {
	t := &runview.Table{Columns: []runview.Column{
		{Head: "PLAYBOOK"}, {Head: "EPISODES"}, {Head: "RUNS"}, {Head: "FIRST CHANGES", Flex: true}, {Head: "OTHER ENDS", Flex: true}, {Head: "PEOPLE"},
	}}
	for _, p := range all {
		t.Add(p.Playbook, fmt.Sprint(p.Episodes), fmt.Sprint(p.Runs), counts(p.Proposed), counts(p.Ended), fmt.Sprint(p.People))
	}
	return t
}

func counts(all []api.ReplayCount) string {
	var out []string
	for _, c := range all {
		out = append(out, fmt.Sprintf("%dx %s", c.Runs, c.What))
	}
	return strings.Join(out, ", ")
}

func withoutTable(all []api.ReplayWithout) *runview.Table {
	t := &runview.Table{Columns: []runview.Column{{Head: "ALERT WITHOUT A RUN"}, {Head: "EPISODES"}, {Head: "DECISION"}, {Head: "WHY", Flex: true}}}
	for _, x := range all {
		t.Add(x.Alert, fmt.Sprint(x.Episodes), x.Decision, x.Reason)
	}
	return t
}

func writeDifferences(w io.Writer, r Report, wide bool) error {
	t := &runview.Table{
		Columns: []runview.Column{{Head: "ALERT BEGAN (UTC)"}, {Head: "SERVICE", Flex: true}, {Head: "ALERT", Flex: true}, {Head: "NOW", Flex: true}, {Head: "AGAINST", Flex: true}},
		Empty:   "no episode differs",
	}
	for _, d := range r.Compared.Differs {
		t.Add(d.Began.Format("01-02 15:04"), d.Service, d.Alert, d.Was, d.Against)
	}
	if err := t.Write(w, wide); err != nil {
		return err
	}
	n := len(r.Compared.Differs)
	_, err := fmt.Fprintf(w, "%d of %s differ\n", n, runview.Count(n+r.Compared.Same, "episode"))
	return err
}
