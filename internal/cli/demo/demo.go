package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/sandbox"
)

// Options are the demo's flags.
type Options struct {
	Scenario string
	Yes      bool
	Dir      string
	Speed    float64
	Out      command.Output
}

const (
	// DefaultSpeed is how many simulated seconds pass in a real one.
	DefaultSpeed = 20
	maxSpeed     = 120 // beyond it a simulated scrape interval is shorter than a query takes
)

// errNobody is why a demo without a terminal and without --yes does not start.
var errNobody = errors.New("nobody can approve here: the input is not a terminal; run it in one, or let --yes answer")

// Run is the whole demo.
func Run(ctx context.Context, p *command.Process, o Options) error {
	if !(o.Speed > 0 && o.Speed <= maxSpeed) { // NaN is neither
		return fmt.Errorf("--speed %v: give simulated seconds per real second, above 0 and at most %d", o.Speed, maxSpeed)
	}
	clock, err := sandbox.NewClock(time.Now(), o.Speed)
	if err != nil {
		return err
	}
	world, err := sandbox.New(o.Scenario, clock)
	if err != nil {
		return fmt.Errorf("--scenario: %w", err)
	}
	switch {
	case o.Yes:
	case o.Out.Structured():
		return fmt.Errorf("-o %s shows no question that you could answer; add --yes", o.Out.Format)
	case !command.IsTerminal(p.Stdin):
		return errNobody
	}
	w := p.Stdout
	if o.Out.Structured() {
		w = io.Discard // a program reads the report only
	}
	show := &show{screen: newScreen(w, p.Getenv), world: world}
	show.opening(o.Speed)
	d := demo{process: p, options: o, world: world, show: show}
	if !o.Yes {
		d.answers = newAnswerer(show.screen, p.Stdin)
	}
	return d.run(ctx)
}

// demo is one demo under way.
type demo struct {
	process *command.Process
	options Options
	world   *sandbox.World
	show    *show
	answers *answerer // nil: --yes

	dir     string
	service *demoService
	client  client.Client
}

// run starts the service, lets the alert in, follows its run to the end, and
// reports.
func (d *demo) run(ctx context.Context) error {
	remove, err := d.openDir()
	if err != nil {
		return err
	}
	defer remove()
	// An interrupt cancels the run, not the service that has to carry that out.
	running := context.WithoutCancel(ctx)
	if d.service, err = startDemoService(running, d.process, d.world, d.dir, d.options.Speed); err != nil {
		return err
	}
	defer func() { _ = d.service.stop() }() // where it matters what it says, it was called before
	d.client = d.service.client
	d.introduce(running)
	service := d.world.Services()[0]
	before := measure(running, d.world, service, d.world.Clock().Now())
	if err := d.deliver(running); err != nil {
		return err
	}
	state, events, err := d.followAll(ctx, running)
	if err != nil {
		return err
	}
	after := measure(running, d.world, service, d.world.Clock().Now())
	if err := d.service.stop(); err != nil {
		return fmt.Errorf("stop the service: %w", err)
	}
	r := report{phases: runview.Phases(d.world.Incident(), events), Demo: api.Demo{
		Scenario: d.world.Scenario().Name, Run: state.Start.Run, Playbook: state.Start.Playbook, Service: service.Name, Levers: state.Levers,
		Timeline: timeline(d.world, events), Figures: compare(before, after),
	}}
	return d.finish(running, state, r)
}

// openDir makes the directory of the journal; remove takes a temporary one away.
func (d *demo) openDir() (remove func(), err error) {
	if d.dir = d.options.Dir; d.dir == "" {
		dir, clean, err := d.process.Temp.Dir("responder-demo-")
		if err != nil {
			return nil, fmt.Errorf("make a temporary directory: %w; --dir names another", err)
		}
		d.dir = dir
		return func() { _ = clean() }, nil // what is left is in the system's temporary directory
	}
	if d.dir, err = filepath.Abs(d.dir); err != nil {
		return nil, fmt.Errorf("--dir: %w", err)
	}
	if _, err := os.Stat(filepath.Join(d.dir, app.JournalFile)); err == nil {
		return nil, fmt.Errorf("--dir %s: it holds a %s already, and a demo's runs do not belong into another's log; name a new directory", d.options.Dir, app.JournalFile)
	}
	return func() {}, nil
}

// introduce shows the cluster and the service.
func (d *demo) introduce(ctx context.Context) {
	s := d.show.screen
	s.raw("")
	for i, svc := range d.world.Services() {
		word := ""
		if i == 0 {
			word = "cluster"
		}
		s.block(fmt.Sprintf("%-10s", word), plain, describeService(ctx, d.world, svc))
	}
	s.block(fmt.Sprintf("%-10s", "receiver"), plain, d.client.Server+alertmanagerPath)
	s.block(fmt.Sprintf("%-10s", "journal"), plain, filepath.Join(d.dir, app.JournalFile))
	s.raw("")
}

// deliver posts what Alertmanager would.
func (d *demo) deliver(ctx context.Context) error {
	now := d.world.Clock().Now()
	alerts, err := d.world.Firing(ctx, now)
	if err != nil {
		return err
	}
	for _, a := range alerts {
		d.show.screen.at(now, red, "%s fires since %s", a.Labels["alertname"], a.StartsAt.UTC().Format(time.TimeOnly))
		d.show.screen.detail(plain, "%s", a.Annotations["summary"])
	}
	began := time.Now()
	size, err := d.service.post(ctx, now)
	switch {
	case err != nil:
		return err
	case size == 0:
		return fmt.Errorf("no alert of scenario %s fires at its beginning, so no run can start: this is a defect of the scenario", d.world.Scenario().Name)
	}
	d.show.screen.detail(dim, "POST %s: %d bytes, 200 after %s: it is on disk", alertmanagerPath, size, runview.Round(time.Since(began)))
	return nil
}

// finish verifies the log as anybody could who has the file and the public
// key, shows the report, and says whether all of it is well.
func (d *demo) finish(ctx context.Context, state machine.State, r report) error {
	path := filepath.Join(d.dir, app.JournalFile)
	public, err := os.ReadFile(filepath.Join(d.dir, audit.PublicKeyFile))
	if err != nil {
		return fmt.Errorf("read the journal's public key: %w", err)
	}
	check, err := app.SelfChecker()
	if err != nil {
		return err
	}
	if r.audit, err = audit.Verify(ctx, path, strings.TrimSpace(string(public)), audit.VerifyOptions{Checker: check}); err != nil {
		return fmt.Errorf("verify the audit log: %w", err)
	}
	r.Verified = r.audit.OK() && r.audit.Unsigned == 0 && r.audit.Entries > 0
	if d.options.Dir != "" {
		r.Journal = path
	}
	if state.Ending != nil {
		r.outcome, r.Message = state.Ending.Outcome, state.Ending.Message
	}
	d.show.report(r)
	err = d.options.Out.Print(d.process.Stdout, r.answer(), func(io.Writer) error { return d.show.screen.err })
	switch {
	case err != nil:
		return err
	case !r.Verified:
		return errors.New("the audit log does not verify")
	case r.outcome != machine.OutcomeResolved && !d.leftAlone(state):
		return fmt.Errorf("the run ended %s: %s%s", r.outcome, r.Message, left(state))
	}
	return nil
}

// leftAlone reports whether a run ended without a change in a scenario that no change
// repairs, which is how it has to end.
func (d *demo) leftAlone(s machine.State) bool {
	if d.world.Scenario().Fix != "" || s.Ending == nil || s.Levers > 0 {
		return false
	}
	return slices.Contains([]machine.RunOutcome{machine.OutcomeEscalated, machine.OutcomeNoAction, machine.OutcomeCleared}, s.Ending.Outcome)
}

// left reports in what state a run left the simulated cluster, after a semicolon.
func left(s machine.State) string {
	switch {
	case s.Levers == 0:
		return "; nothing was changed"
	case s.Lever != nil && s.Lever.Applied:
		return "; a change is still in place"
	case s.Kept+s.Stays > 0:
		return "; a change stays that did not help enough"
	default:
		return "; what was changed is as it was before"
	}
}
