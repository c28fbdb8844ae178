package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

const dryRunLong = `Walk alerts through the same receiver, playbooks, guards and levers as the
service, live against the configured cluster and Prometheus, and change nothing.
Shows which playbook matched and why others did not, every check's evidence,
the path taken, the guards' verdicts, what would change, who would be asked, and
what would follow if it did not help.

Exit codes:
  0  nothing to do
  1  an error
  2  would act, or propose to
  3  refused by a guard or by the lever itself
  4  no playbook matched, or no service was found`

// dryRunFlags are what dry-run is asked.
type dryRunFlags struct {
	source   dryRunSource
	alert    []string
	config   string
	sandbox  string
	policy   string
	playbook string
	timeout  time.Duration
	verbose  bool
}

func newDryRunCommand(p *process) *cobra.Command {
	var f dryRunFlags
	var out output
	cmd := &cobra.Command{
		Use:   "dry-run -f FILE | --alert LABEL=VALUE... | --from-alertmanager URL",
		Short: "Show what the service would do about an alert, and change nothing",
		Long:  dryRunLong,
		Args:  none,
		Example: `  responder dry-run -f notification.json --config responder.yaml
  responder dry-run --alert alertname=InferenceTTFTFastBurn --alert namespace=serving --config responder.yaml
  responder dry-run --from-alertmanager http://alertmanager:9093 --config responder.yaml -o json
  responder dry-run --sandbox bad-rollout`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.config == "" && f.sandbox == "" {
				return errors.New("on what? --config FILE names a cluster, --sandbox SCENARIO simulates one")
			}
			var err error
			if f.source.labels, err = parseAlert(f.alert); err != nil {
				return err
			}
			if err := f.source.check(f.sandbox != ""); err != nil {
				return err
			}
			report, err := dryRun(cmd.Context(), p, f)
			if err != nil {
				return err
			}
			if err := out.print(p.stdout, report, func(w io.Writer) error { return writeDryRun(w, report, out.wide()) }); err != nil {
				return err
			}
			return exitCode(report.ExitCode)
		},
	}
	cmd.Flags().StringVarP(&f.source.file, "file", "f", "", "webhook body of Alertmanager; - reads standard input")
	cmd.Flags().StringArrayVar(&f.alert, "alert", nil, "a label of one alert that fires now, label=value; repeat it for each label")
	cmd.Flags().StringVar(&f.source.fromAlertmanager, "from-alertmanager", "", "take the alerts that fire at this Alertmanager, URL")
	cmd.Flags().StringVar(&f.config, "config", "", "configuration of the service")
	cmd.Flags().StringVar(&f.sandbox, "sandbox", "", "walk through a simulated cluster instead, without network: "+strings.Join(scenarioNames(), ", ")+"; without alerts given, its own is taken")
	cmd.Flags().StringVar(&f.playbook, "playbooks", "", "playbook file or directory (default: the configuration's, else the shipped ones)")
	cmd.Flags().StringVar(&f.policy, "policy", "", "file of rules over all playbooks (default: the configuration's)")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 2*time.Minute, "most time to spend")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "show the program's own log")
	cmd.MarkFlagsMutuallyExclusive("config", "sandbox")
	completeScenarios(cmd, "sandbox")
	out.addFlag(cmd)
	return cmd
}

// dryRunSetup is what a dry run walks through.
type dryRunSetup struct {
	config config
	world  world
	bodies [][]byte
	// ceiling is the autonomy that the service would have had.
	ceiling playbook.Autonomy
}

// dryRun builds a service around a read-only world and a journal that goes
// away, hands it the alerts, and reports what became of them.
func dryRun(ctx context.Context, p *process, f dryRunFlags) (dryRunReport, error) {
	logTo := io.Discard
	if f.verbose {
		logTo = p.stderr
	}
	log := slog.New(slog.NewTextHandler(logTo, nil))
	setup, err := prepareDryRun(ctx, p, f, log)
	if err != nil {
		return dryRunReport{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	return walk(ctx, p, setup, log)
}

// prepareDryRun opens the world and reads the alerts.
func prepareDryRun(ctx context.Context, p *process, f dryRunFlags, log *slog.Logger) (s dryRunSetup, err error) {
	now := time.Now()
	if f.sandbox != "" {
		sim, w, err := openSandbox(f.sandbox, now, dryRunPace)
		if err != nil {
			return s, err
		}
		s.config, s.world = sandboxConfig(), w
		s.world.Channels = sandboxChannels(log)
		if f.source.file == "" && len(f.source.labels) == 0 && f.source.fromAlertmanager == "" {
			body, err := sim.Notification(ctx, sim.Clock().Now())
			if err != nil {
				return s, fmt.Errorf("simulate the alert: %w", err)
			}
			s.bodies = [][]byte{body}
		}
	} else {
		if s.config, err = loadConfig(f.config); err != nil {
			return s, err
		}
		s.config.once = p.temp
		if s.world, err = openCluster(s.config, log); err != nil {
			return s, err
		}
	}
	if f.playbook != "" {
		s.config.Playbooks.Dir = f.playbook
	}
	if f.policy != "" {
		s.config.Policy.File = f.policy
	}
	if s.bodies == nil {
		if s.bodies, err = f.source.bodies(ctx, p, now); err != nil {
			return s, err
		}
	}
	s.ceiling = s.config.Autonomy
	s.config.Autonomy = playbook.Observe // the first lock; readOnly is the second
	s.world.Deps = readOnly(s.world.Deps)
	// Nobody else reaches the receiver: it is called in this process.
	s.config.Auth = authConfig{Insecure: true}
	s.config.TLS = tlsConfig{}
	return s, nil
}

// dryRunPace lets a simulated back-off pass quickly without running away from
// the evidence.
const dryRunPace = 10

// walk runs the service until nothing is left to do, and reports.
func walk(ctx context.Context, p *process, setup dryRunSetup, log *slog.Logger) (report dryRunReport, err error) {
	dir, remove, err := p.temp.dir("responder-dry-run-")
	if err != nil {
		return report, fmt.Errorf("make a directory for the journal: %w", err)
	}
	defer func() { err = errors.Join(err, remove()) }()
	s, err := newService(serviceOptions{config: setup.config, world: setup.world, log: log, temporary: dir})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.run(running, nil) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	if setup.world.Prepare != nil {
		if err := setup.world.Prepare(ctx); err != nil {
			return report, err
		}
	}
	for _, body := range setup.bodies {
		if err := postInProcess(ctx, s, body); err != nil {
			return report, err
		}
	}
	if err := waitQuiet(ctx, s); err != nil {
		return report, err
	}
	return newDryRunReport(s, setup)
}

// postInProcess posts one body to the receiver, as Alertmanager would.
func postInProcess(ctx context.Context, s *service, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/alertmanager", bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer := &recordedAnswer{header: http.Header{}, status: http.StatusOK}
	s.receiver.Handler().ServeHTTP(answer, req)
	if answer.status != http.StatusOK {
		return fmt.Errorf("the receiver would refuse this notification with %d: %s", answer.status, serverMessage(&answer.body))
	}
	return nil
}

// recordedAnswer keeps the answer to a request that never left the process.
type recordedAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header is the header of the answer.
func (a *recordedAnswer) Header() http.Header { return a.header }

// WriteHeader keeps the status.
func (a *recordedAnswer) WriteHeader(status int) { a.status = status }

// Write keeps the body.
func (a *recordedAnswer) Write(b []byte) (int, error) { return a.body.Write(b) }

// waitQuiet waits until every notification was dispatched and every run has
// ended or waits for a person.
func waitQuiet(ctx context.Context, s *service) error {
	changed, stop := s.journal.Watch()
	defer stop()
	for {
		quiet, err := isQuiet(s)
		if err != nil || quiet {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the dry run did not come to an end: %w; --timeout allows more time", context.Cause(ctx))
		}
	}
}

func isQuiet(s *service) (bool, error) {
	taken, err := s.journal.Head(intakeStream)
	if err != nil {
		return false, err
	}
	done, err := dispatched(s.journal)
	if err != nil || done < taken {
		return false, err
	}
	runs, err := allRuns(s)
	if err != nil {
		return false, err
	}
	for _, run := range runs {
		switch run.Phase {
		case machine.PhaseEnded, machine.PhaseDeciding, machine.PhaseHeld, machine.PhaseWaiting:
		default:
			return false, nil
		}
	}
	return true, nil
}

// dispatched is how many notifications the executor is done with: the last
// record of the stream dispatch is its cursor.
func dispatched(j *audit.Journal) (uint64, error) {
	head, err := j.Head(dispatchStream)
	if err != nil || head == 0 {
		return 0, err
	}
	for rec, err := range j.Stream(dispatchStream, head-1) {
		if err != nil {
			return 0, err
		}
		var d executor.Dispatched
		if err := json.Unmarshal(rec.Data, &d); err != nil {
			return 0, fmt.Errorf("read the dispatcher's cursor: %w", err)
		}
		if !d.Done {
			return d.Index, nil
		}
		return d.Index + 1, nil
	}
	return 0, nil
}
