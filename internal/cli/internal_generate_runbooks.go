package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// runbookPages returns a page for each shipped playbook, by file name, and a page
// that lists them.
func runbookPages() (map[string]string, error) {
	set, err := app.ConfiguredPlaybooks(config.Playbooks{Shipped: true})
	if err != nil {
		return nil, err
	}
	docs := map[string]playbook.Kind{}
	for _, k := range kinds.Declarations() {
		docs[k.Name] = k
	}
	index := generatedNote + "# Runbooks\n\nWhat the shipped playbooks do, for the person on call. `responder playbook show NAME` prints the documents.\n\n" +
		"| runbook | for | levers |\n|---|---|---|\n"
	pages := map[string]string{}
	for _, p := range set.All() {
		page := runbookPage{p: p, kinds: docs}
		pages[p.Name+".md"] = page.text()
		index += fmt.Sprintf("| [%s](%s.md) | %s | %s |\n", p.Title, p.Name, tableCell(p.Description), strings.Join(page.levers(), ", "))
	}
	pages["README.md"] = index
	return pages, nil
}

// runbookPage writes the page of one playbook.
type runbookPage struct {
	p     *playbook.Playbook
	kinds map[string]playbook.Kind
	b     strings.Builder
}

func (r *runbookPage) text() string {
	p := r.p
	r.f("%s# %s\n\n%s\n\n", generatedNote, p.Title, p.Description)
	if why := p.Preamble(); why != "" {
		r.f("%s\n\n", why)
	}
	r.f("Playbook `%s`, level `%s`. It encodes: %s.\n\n## Alerts\n\n", p.Name, p.Autonomy, p.Runbook)
	if match := p.Match(); len(match) == 0 {
		r.f("No alert starts it.\n\n")
	} else {
		r.f("It answers alerts that match one of:\n\n    %s\n\n", strings.Join(match, "\n    "))
		r.f("[SLO rules](../how-to/slo-rules.md) and `deploy/prometheus/` have the rules that fire those about latency, errors, the KV cache, engines and GPUs. An alert of another name is yours to send.\n\n")
	}
	drawn, err := playbook.Graph(p, nil, playbook.GraphMermaid)
	if err != nil {
		// unreachable unless Mermaid is no format any more
		panic(err)
	}
	r.f("## Diagram\n\n```mermaid\n%s```\n\n", drawn)
	r.evidence()
	r.branches()
	r.changes()
	r.told()
	return r.b.String()
}

func (r *runbookPage) f(format string, args ...any) { fmt.Fprintf(&r.b, format, args...) }

// evidence lists what each state reads.
func (r *runbookPage) evidence() {
	r.f("## Evidence\n\n| state | evidence | check | it |\n|---|---|---|---|\n")
	row := func(s *playbook.State, name, kind string, with map[string]*playbook.Value) {
		r.f("| %s | `%s` | [`%s`](../reference/steps.md#%s)%s | %s |\n", tableCell(title(s)), name, kind, strings.ReplaceAll(kind, ".", ""), parameters(with), tableCell(firstSentence(r.kinds[kind].Doc)))
	}
	for _, s := range r.p.States {
		for _, g := range s.Gather {
			row(s, g.Name, g.Step, g.With)
		}
		if len(s.Gather) == 0 && s.Step != "" && s.Kind != playbook.StateLever {
			row(s, s.Name, s.Step, s.With)
		}
	}
	r.f("\n")
}

// branches lists where each state leads, in the order in which that is decided.
func (r *runbookPage) branches() {
	if names := definitions(r.p.Doc); names != "" {
		r.f("## Names\n\nConditions below use these:\n\n```yaml\n%s```\n\n", names)
	}
	r.f("## Branches\n\nThe first that holds is taken. A condition that reads what is not known does not hold, and nothing is changed on the way past it.\n\n")
	for _, s := range r.p.States {
		if len(s.Next) < 2 {
			continue
		}
		r.f("%s:\n\n", title(s))
		for i, e := range s.Next {
			r.f("%d. %s to **%s**", i+1, when(e), title(r.p.State(e.To)))
			if e.Label != "" {
				r.f(": %s", e.Label)
			}
			r.f("\n")
		}
		r.f("\n")
	}
}

func when(e playbook.Edge) string {
	switch {
	case e.When != nil:
		return "`" + e.When.Source() + "`"
	case e.On != "":
		return string(e.On)
	}
	return "else"
}

// changes lists the levers: what they change, who is asked, how it is proven, and
// what becomes of the change.
func (r *runbookPage) changes() {
	if len(r.levers()) == 0 {
		return
	}
	r.f("## Levers\n\nA change that is refused, denied or not decided in time is not made, and the run ends with people unless a branch above says otherwise.\n\n")
	for _, s := range r.p.States {
		if s.Kind != playbook.StateLever {
			continue
		}
		r.f("### %s\n\n[`%s`](../reference/steps.md#%s)%s. %s\n\n", title(s), s.Step, strings.ReplaceAll(s.Step, ".", ""), parameters(s.With), firstSentence(r.kinds[s.Step].Doc))
		if a := s.Approve; a != nil {
			r.f("Asks %s", strings.Join(a.By, ", "))
			if a.Quorum != nil {
				r.f(", %s of them", a.Quorum.Source())
			}
			if a.Within != nil {
				r.f(", within %s", a.Within.Source())
			}
			r.f("; without a decision: %s.\n\n", a.OnExpiry)
		}
		if w := s.Steps; w != nil {
			r.f("In steps, at most: `%s`.", w.Times.Source())
			if via := r.p.State(w.Via); via != nil {
				r.f(" Between two of them **%s** is entered, whose branches lead to the next step or elsewhere.", title(via))
			}
			r.f("\n\n")
		}
		class, restarts := r.p.ClassOf(s)
		r.f("| the proof shows | then |\n|---|---|\n")
		for _, v := range playbook.Verdicts() {
			r.f("| %s | %s |\n", v, machine.FateOf(class, restarts, machine.Verdict(v)).Text())
		}
		r.f("\n")
	}
}

// told lists what people are told.
func (r *runbookPage) told() {
	var rows []string
	for _, s := range r.p.States {
		if s.Kind == playbook.StateNotify && s.Message != nil {
			rows = append(rows, fmt.Sprintf("| %s | %s |\n", tableCell(title(s)), tableCell(s.Message.Source())))
		}
	}
	if len(rows) > 0 {
		r.f("## What people are told\n\n| state | text |\n|---|---|\n%s", strings.Join(rows, ""))
	}
}

// levers returns the kinds of levers that the playbook uses.
func (r *runbookPage) levers() []string {
	var out []string
	for _, s := range r.p.States {
		if s.Kind == playbook.StateLever && !slices.Contains(out, "`"+s.Step+"`") {
			out = append(out, "`"+s.Step+"`")
		}
	}
	return out
}

func title(s *playbook.State) string {
	if s.Title != "" {
		return s.Title
	}
	return s.Name
}

func parameters(with map[string]*playbook.Value) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(with)) {
		out = append(out, fmt.Sprintf("%s: `%s`", name, with[name].Source()))
	}
	if len(out) == 0 {
		return ""
	}
	return " with " + tableCell(strings.Join(out, ", "))
}

// firstSentence returns the beginning of a doc, in one line.
func firstSentence(doc string) string {
	doc = strings.Join(strings.Fields(doc), " ")
	if i := strings.Index(doc, ". "); i > 0 {
		return doc[:i+1]
	}
	return doc
}

// definitions returns the lines of spec.let.
func definitions(doc []byte) string {
	out, within := "", false
	for line := range strings.Lines(string(doc)) {
		switch {
		case line == "  let:\n":
			within = true
		case within && !strings.HasPrefix(line, "    "):
			return out
		case within:
			out += strings.TrimPrefix(line, "    ")
		}
	}
	return out
}
