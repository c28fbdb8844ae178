// Package doctor is `responder doctor`: it asks everything that the service will ask in
// an incident, by the same parts, and tells what will not work. It changes nothing.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/app/cluster"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/slo"
)

// flags are those of the command.
type flags struct {
	config       string
	only         []string
	alertmanager []string
	receiver     string
	timeout      time.Duration
}

// NewCommand returns the command.
func NewCommand(p *command.Process) *cobra.Command {
	var f flags
	var out command.Output
	cmd := &cobra.Command{
		Use:   "doctor --config FILE",
		Short: "Check that everything an incident needs is there, and say what to fix",
		Long: `Ask everything that the service will ask in an incident: Prometheus for the series
and buckets of each service's objectives and the rules that alert on them,
Alertmanager for the way of each alert to Responder, the API server for the
workloads and the rights of each lever, Git, Argo CD, Slack, the GPUs of the nodes,
the clocks and the journal's directory. Nothing is changed.

Below the checks stands for each playbook and service whether it is armed, and what
it has to do without. A service that runs meanwhile is not disturbed.

Exit codes:
  0  nothing failed
  1  something failed; below the table stands what to do`,
		Args: cobra.NoArgs,
		Example: `  responder doctor --config responder.yaml
  responder doctor --config responder.yaml --only prometheus,kubernetes -o json
  responder doctor --config responder.yaml --alertmanager http://alertmanager.monitoring:9093 --receiver inference`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := f.examine(cmd.Context(), p)
			if err != nil {
				return err
			}
			if err := out.Print(p.Stdout, report, func(w io.Writer) error { return report.write(w, out.Wide()) }); err != nil {
				return err
			}
			if slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.Result == Failed }) {
				return command.ExitCode(command.ExitError)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&f.config, "config", "responder.yaml", "configuration file")
	cmd.Flags().StringSliceVar(&f.only, "only", nil, "check only these: "+strings.Join(subjectNames(), ", "))
	cmd.Flags().StringSliceVar(&f.alertmanager, "alertmanager", nil, "URL of an Alertmanager (default: those that Prometheus sends alerts to)")
	cmd.Flags().StringVar(&f.receiver, "receiver", "responder", "name of Alertmanager's receiver that posts here, where Alertmanager hides its URL")
	cmd.Flags().DurationVar(&f.timeout, "timeout", time.Minute, "time limit of the checks of one subject")
	// The error is of a flag that does not exist; it was added above.
	_ = cmd.RegisterFlagCompletionFunc("only", cobra.FixedCompletions(subjectNames(), cobra.ShellCompDirectiveNoFileComp))
	out.AddFlag(cmd)
	return cmd
}

// subject is one part of the world that is asked.
type subject struct {
	name string
	ask  func(*exam, context.Context) []Finding
}

// subjects are in the order in which they are shown.
func subjects() []subject {
	return []subject{
		{"catalog", (*exam).catalog},
		{"prometheus", (*exam).prometheus},
		{"alertmanager", (*exam).alertmanager},
		{"kubernetes", (*exam).kubernetes},
		{"gitops", (*exam).gitops},
		{"slack", (*exam).slack},
		{"gpu", (*exam).gpu},
		{"clocks", (*exam).clocks},
		{"journal", (*exam).journal},
	}
}

func subjectNames() []string {
	var out []string
	for _, s := range subjects() {
		out = append(out, s.name)
	}
	return out
}

// exam is one examination: what is examined, and what the parts found out for the
// verdicts on playbooks.
type exam struct {
	flags
	c          config.Config
	world      app.World
	prom       *slo.Prometheus // nil: none is configured
	cluster    *kube.Client    // nil: none is configured
	playbooks  *playbook.Set
	services   []playbook.Service
	undiscover error // why services may be missing
	temp       app.TempDir
	now        time.Time

	mu     sync.Mutex // guards what follows
	bars   []bar
	scaled map[string][]kube.Owner // owners of services whose replicas an autoscaler has, or what makes the workload
}

// examine asks all subjects side by side.
func (f flags) examine(ctx context.Context, p *command.Process) (_ Report, err error) {
	for _, name := range f.only {
		if !slices.Contains(subjectNames(), name) {
			return Report{}, fmt.Errorf("--only: there is no %q; there is %s", name, strings.Join(subjectNames(), ", "))
		}
	}
	if f.timeout <= 0 {
		return Report{}, fmt.Errorf("--timeout %s: want a positive duration", f.timeout)
	}
	e, err := f.open(p)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, e.world.Close()) }()
	e.discover(ctx)

	asked := subjects()
	results := make([][]Finding, len(asked))
	var wg sync.WaitGroup
	var progress sync.Mutex // one line at a time
	for i, s := range asked {
		if len(f.only) > 0 && !slices.Contains(f.only, s.name) {
			continue
		}
		wg.Go(func() {
			began := time.Now()
			ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("no answer within %s; --timeout allows more", f.timeout))
			defer cancel()
			results[i] = s.ask(e, ctx)
			for j := range results[i] {
				results[i][j].Subject = s.name
			}
			progress.Lock()
			defer progress.Unlock()
			fmt.Fprintf(p.Stderr, "%s: %s (%s)\n", s.name, tally(results[i]), time.Since(began).Round(100*time.Millisecond))
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return Report{}, context.Cause(ctx)
	}
	return Report{Config: f.config, Findings: slices.Concat(results...), Playbooks: e.verdicts()}, nil
}

// open builds what the service would build, and connects to nothing.
func (f flags) open(p *command.Process) (*exam, error) {
	c, err := config.Load(f.config)
	if err != nil {
		return nil, err
	}
	if err := c.MissingFiles(); err != nil {
		return nil, err
	}
	e := &exam{flags: f, c: c, temp: p.Temp.Dir, now: time.Now(), scaled: map[string][]kube.Owner{}}
	if e.playbooks, err = app.ConfiguredPlaybooks(c.Playbooks); err != nil {
		return nil, c.Unread(err, "playbooks.dir")
	}
	if c.Prometheus.URL != "" {
		if e.prom, err = cluster.Prometheus(c.Prometheus); err != nil {
			return nil, c.Blame(err, "prometheus")
		}
	}
	if c.Kubernetes.Configured() {
		if e.cluster, err = cluster.Kubernetes(c.Kubernetes); err != nil {
			return nil, c.Blame(err, "kubernetes")
		}
	}
	if e.world, err = cluster.Open(c, p.Temp.Dir, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	return e, nil
}

// discover takes the services that are known now.
func (e *exam) discover(ctx context.Context) {
	e.undiscover = e.world.Prepare(ctx)
	e.services = e.world.Services()
}

// catalog checks that there are services, and that alerts can find them.
func (e *exam) catalog(context.Context) []Finding {
	var out []Finding
	if e.undiscover != nil {
		out = append(out, failed("discovery", e.undiscover.Error(), "see that the API server answers and that the role responder-read of deploy/kubernetes is bound"))
	}
	if len(e.services) == 0 {
		return append(out, failed("services", "there are none", "declare them under services, or label workloads with responder.dev/service=true and set discovery.enabled"))
	}
	out = append(out, ok("services", fmt.Sprintf("%d: %s", len(e.services), some(names(e.services), 5))))
	for _, s := range e.services {
		if s.Engine == "" {
			out = append(out, failed(s.Name, "its engine is not known, so nothing is measured of it", "set engine of the service"))
			e.bar(s.Name, "", "its engine is not known")
		}
		if len(s.Owners) == 0 && s.Autonomy > playbook.Observe {
			out = append(out, warning(s.Name, "it has no owners, so that nobody may approve a change", "set owners of the service"))
		}
		out = append(out, e.probe(s)...)
	}
	return out
}

// probe reads the golden prompts of a service, without asking any engine: that costs
// tokens.
func (e *exam) probe(s playbook.Service) []Finding {
	probes := e.world.Deps.Probes
	if _, declared := probes.Settings(s.Name); !declared {
		e.bar(s.Name, "engine.probe", "it declares no probe")
		return nil
	}
	check := s.Name + ": golden prompts"
	file, _, err := probes.Prompts(s.Name)
	if err != nil {
		e.bar(s.Name, "engine.probe", "its golden prompts cannot be read")
		return []Finding{failed(check, err.Error(), "record them with 'responder engine probe --record', or correct probe.prompts_file of the service")}
	}
	return []Finding{ok(check, runview.Count(len(file.Prompts), "prompt")+"; 'responder engine probe' asks them")}
}

func names(services []playbook.Service) []string {
	out := make([]string, len(services))
	for i, s := range services {
		out[i] = s.Name
	}
	return out
}

// some joins the first texts of a list, and counts the others.
func some(list []string, most int) string {
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// sideBySide bounds how many services are asked about at once.
const sideBySide = 8

// each asks about all services side by side, and returns the findings in their order.
func (e *exam) each(ask func(playbook.Service) []Finding) []Finding {
	out := make([][]Finding, len(e.services))
	var wg sync.WaitGroup
	slots := make(chan struct{}, sideBySide)
	for i, s := range e.services {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			out[i] = ask(s)
		})
	}
	wg.Wait()
	return slices.Concat(out...)
}
