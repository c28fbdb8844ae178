package doctor

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/runview"
)

// Result is what came out of a check.
type Result string

// The results of checks.
const (
	OK       Result = "ok"
	Warning  Result = "warning"
	Failed   Result = "failed"
	NotAsked Result = "not asked"
)

// Finding is the result of one check.
type Finding struct {
	Subject string `json:"subject"`
	Check   string `json:"check"`
	Result  Result `json:"result"`
	Detail  string `json:"detail"`
	Fix     string `json:"fix,omitempty"` // what to do
}

// Report is what an examination found.
type Report struct {
	Config    string    `json:"config"`
	Findings  []Finding `json:"findings"`
	Playbooks []Verdict `json:"playbooks"`
}

func ok(check, detail string) Finding { return Finding{Check: check, Result: OK, Detail: detail} }

func notAsked(check, detail string) Finding {
	return Finding{Check: check, Result: NotAsked, Detail: detail}
}

func warning(check, detail, fix string) Finding {
	return Finding{Check: check, Result: Warning, Detail: detail, Fix: fix}
}

func failed(check, detail, fix string) Finding {
	return Finding{Check: check, Result: Failed, Detail: detail, Fix: fix}
}

// because is why a question has no answer: the time limit, or the error itself.
func because(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err.Error()
}

// converted returns findings of another command's check.
func converted(found []app.Finding) []Finding {
	var out []Finding
	for _, f := range found {
		result := OK
		if !f.OK {
			result = Failed
		}
		out = append(out, Finding{Check: f.Name, Result: result, Detail: f.Detail, Fix: f.Fix})
	}
	return out
}

// tally counts findings for people.
func tally(found []Finding) string {
	count := map[Result]int{}
	for _, f := range found {
		count[f.Result]++
	}
	var out []string
	for _, r := range []Result{OK, Warning, Failed, NotAsked} {
		if n := count[r]; n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, r))
		}
	}
	return strings.Join(out, ", ")
}

// write prints the tables, and below them what to do.
func (r Report) write(w io.Writer, wide bool) error {
	t := runview.Table{Columns: []runview.Column{{Head: "RESULT"}, {Head: "SUBJECT"}, {Head: "CHECK", Flex: true}, {Head: "DETAIL", Flex: true}}}
	for _, f := range r.Findings {
		result := string(f.Result)
		if f.Result == Failed {
			result = "FAILED"
		}
		t.Add(result, f.Subject, runview.Printable(f.Check), runview.Printable(f.Detail))
	}
	if err := t.Write(w, wide); err != nil {
		return err
	}
	if err := writeVerdicts(w, r.Playbooks, wide); err != nil {
		return err
	}
	for _, f := range r.Findings {
		if f.Result != Failed && f.Result != Warning {
			continue
		}
		text := fmt.Sprintf("%s: %s: %s", f.Subject, f.Check, f.Detail)
		if _, err := fmt.Fprintf(w, "\n%s\n", strings.Join(runview.Wrap(runview.Printable(text), runview.Width), "\n")); err != nil {
			return err
		}
		fix := strings.Join(runview.Wrap(runview.Printable(f.Fix), runview.Width-2), "\n  ")
		if _, err := fmt.Fprintf(w, "  %s\n", fix); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s: %s\n", r.Config, tally(r.Findings))
	return err
}
