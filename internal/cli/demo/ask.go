package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
)

// answer is what a person, or --yes, says to an open question.
type answer struct {
	approve bool
	reason  string
}

// answerer asks a person. Lines are read in the background, so that a question
// can be withdrawn while somebody thinks.
type answerer struct {
	screen *screen
	lines  <-chan string // closed at the end of the input
}

// errNoAnswer is the end of the input while a question is open.
var errNoAnswer = errors.New("the input ended without an answer; --yes answers by itself")

func newAnswerer(s *screen, in io.Reader) *answerer {
	lines := make(chan string)
	go func() {
		defer close(lines)
		scan := bufio.NewScanner(in)
		for scan.Scan() {
			lines <- scan.Text()
		}
	}()
	return &answerer{screen: s, lines: lines}
}

// ask asks for the answer to the question shown last and waits for the answer, the end of ctx or
// of the input.
func (a *answerer) ask(ctx context.Context) (answer, error) {
	for {
		a.screen.clear()
		a.screen.write(fmt.Sprintf("%*sApprove it? [y]es, [n]o: ", detailIndent, ""))
		line, err := a.line(ctx)
		if err != nil {
			a.screen.raw("")
			return answer{}, err
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return answer{approve: true, reason: "approved in the demo"}, nil
		case "n", "no":
			return answer{reason: "denied in the demo"}, nil
		case "":
		default:
			a.screen.detail(plain, "%q is neither yes nor no.", runview.Cut(line, 20))
		}
	}
}

func (a *answerer) line(ctx context.Context) (string, error) {
	select {
	case line, ok := <-a.lines:
		if !ok {
			return "", errNoAnswer
		}
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// question shows everything a person needs to decide: the change, why, what
// could go wrong, what will be looked at, and what happens otherwise.
func (d *show) question(st machine.State) {
	s, g := d.screen, st.Gate
	s.title("%sApproval needed: %s", strings.Repeat(" ", detailIndent), stateTitle(st.Playbook, st.Current))
	if g.Text != "" && (st.Lever == nil || st.Lever.Plan == nil) {
		s.detail(plain, "%s", g.Text)
	}
	if st.Lever != nil && st.Lever.Plan != nil {
		d.leverQuestion(st)
	}
	s.label("asks", plain, "%s, until %s, else %s", g.Who(), g.Deadline.UTC().Format(time.TimeOnly), g.OnExpiry)
}

func (d *show) leverQuestion(st machine.State) {
	s, l := d.screen, st.Lever
	p := *l.Plan
	s.label("lever", plain, "%s: %s", p.Step, p.Summary)
	d.diff(p)
	word := "evidence"
	for _, name := range slices.SortedFunc(maps.Keys(st.Evidence), func(a, b string) int {
		return st.Evidence[a].At.Compare(st.Evidence[b].At)
	}) {
		for _, f := range st.Evidence[name].Facts {
			s.label(word, plain, "%s", f)
			word = ""
		}
	}
	word = "notes"
	for _, n := range p.Notes {
		s.label(word, plain, "%s", n)
		word = ""
	}
	s.label("risk", plain, "%s: %s", p.Risk, p.Why)
	s.label("ready", plain, "%s", runview.CapacityLine(p.Capacity))
	word = "guards"
	for _, g := range l.Guards {
		s.label(word, plain, "%s %s: %s", runview.GuardWord(g), g.Guard, g.Why)
		word = ""
	}
	if spec, err := st.Proof(st.Current, st.Updated); err == nil {
		s.label("verify", plain, "%s", proofLine(*spec))
	} else {
		s.label("verify", plain, "cannot be said, so nothing will be changed: %s", err)
	}
	s.label("if not", plain, "undone: %s", p.Undo)
}

// proofLine reports what a verification looks at.
func proofLine(v machine.VerifySpec) string {
	parts := make([]string, 0, len(v.Until)+2)
	for _, u := range v.Until {
		parts = append(parts, fmt.Sprintf("%s %s %s", u.Shown(), u.Op, playbook.Quantity(u.Value, u.Unit)))
	}
	if v.ErrorRatio != "" {
		parts = append(parts, fmt.Sprintf("burn since the fix under %sx", brief(v.MaxBurn)))
	}
	if v.Traffic != "" {
		parts = append(parts, fmt.Sprintf("traffic at least %s%% of before", brief(100*v.MinTraffic)))
	}
	return fmt.Sprintf("%s; for %s without a break, within %s", strings.Join(parts, ", "), v.Hold, v.Within)
}
