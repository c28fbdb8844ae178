package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/app/cluster"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/slo/rules"
	"github.com/inference-responder/responder/internal/spelling"
	"github.com/inference-responder/responder/internal/yamldoc"
)

func newSLOCommand(p *command.Process) *cobra.Command {
	return group("slo", "Service-level objectives as Prometheus rules", newSLORulesCommand(p))
}

// sloRules are the flags of `slo rules`.
type sloRules struct {
	config, format, only, runbook string
	files, engines, labels        []string
	period                        string
	object                        rules.Metadata
	keepNames, custom, discovered bool
	out                           command.Output
	stdin                         io.Reader
}

func newSLORulesCommand(p *command.Process) *cobra.Command {
	f := sloRules{stdin: p.Stdin}
	cmd := &cobra.Command{
		Use:   "rules [--config FILE | -f FILE... | --engine NAME...]",
		Short: "Print recording and burn-rate alerting rules, and alerts about engines",
		Long: `Print rules for Prometheus: for each objective the share of bad events over each
window, and alerts for four pairs of windows, as the SRE workbook and Sloth have them.
Pages are for 5m and 1h, and 30m and 6h; tickets for 2h and 1d, and 6h and 3d.

Objectives come from the services of a configuration (--config) and those in its
cluster (--discovered), or from documents of OpenSLO v1 and Sloth prometheus/v1 (-f).
The shipped playbooks match the names of the alerts, and their labels name the service.

The services' engines are alerted on, too: one that makes no progress, a full KV cache,
preemptions, a queue that grows, one that ends and starts again, replicas that do not
start. --engine prints these for all services of an engine, whatever is configured.

What cannot be measured is refused with its place: a series that the engine lacks, or a
threshold where none of its buckets ends. Notes go to standard error.`,
		Args: none,
		Example: `  responder slo rules --config responder.yaml > responder-slo.rules.yaml
  responder slo rules --config responder.yaml --discovered
  responder slo rules -f openslo.yaml -f sloth.yaml
  responder slo rules --format prometheusrule --name chat-slo --namespace monitoring --label release=kube-prom
  responder slo rules --engine vllm --engine sglang`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			groups, notes, err := f.groups(cmd.Context(), cmd.Flags().Changed("config"))
			if err != nil {
				return err
			}
			for _, n := range notes {
				fmt.Fprintln(p.Stderr, "note:", n)
			}
			return f.print(p.Stdout, groups)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "responder.yaml", "configuration file whose services to take")
	flags.BoolVar(&f.discovered, "discovered", false, "take the services that are in the cluster now, too; needs discovery.enabled")
	flags.StringArrayVarP(&f.files, "file", "f", nil, "file of OpenSLO or Sloth documents, - for standard input; may be given several times")
	flags.StringArrayVar(&f.engines, "engine", nil, "print the alerts about this engine for all of its services; may be given several times")
	flags.StringVar(&f.only, "only", "", "slo or engine: print only the rules of objectives, or the alerts about engines")
	flags.StringVar(&f.format, "format", "rules", "rules, a rule file of Prometheus, or prometheusrule, an object for its operator")
	flags.StringVar(&f.object.Name, "name", "responder-slo", "name of the PrometheusRule")
	flags.StringVar(&f.object.Namespace, "namespace", "", "namespace of the PrometheusRule")
	flags.StringArrayVar(&f.labels, "label", nil, "KEY=VALUE, label of the PrometheusRule, by which the operator selects it; may be given several times")
	flags.StringVar(&f.runbook, "runbook-url", "", "annotation runbook_url of alerts that no document gives one")
	flags.StringVar(&f.period, "period", "30d", "over which the budget of documents is counted that name no period")
	flags.BoolVar(&f.keepNames, "keep-names", false, "name alerts as Sloth's documents do, though no shipped playbook may match them")
	flags.BoolVar(&f.custom, "custom-buckets", false, "of -f: take thresholds that the engines have no bucket for unless configured")
	f.out.AddFlag(cmd)
	for name, values := range map[string][]string{"format": {"rules", "prometheusrule"}, "only": {"slo", "engine"}, "engine": engine.Names()} {
		// The error is of a flag that does not exist; it was added above.
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	return cmd
}

// groups returns the rules that are asked for. configured is whether --config is.
func (f *sloRules) groups(ctx context.Context, configured bool) (out []rules.Group, notes []string, err error) {
	period, err := f.check()
	if err != nil {
		return nil, nil, err
	}
	var objectives []rules.Objective
	var engines []rules.Service
	if configured || f.discovered || len(f.files)+len(f.engines) == 0 {
		services, err := cluster.RuleServices(ctx, f.config, f.discovered)
		if err != nil {
			return nil, nil, err
		}
		var refused []error
		for _, s := range services {
			s.Runbook = f.runbook
			engines = append(engines, s)
			o, n, err := s.Objectives()
			if err != nil && f.only != "engine" {
				refused = append(refused, err)
			}
			objectives, notes = append(objectives, o...), append(notes, n...)
		}
		if err := errors.Join(refused...); err != nil {
			return nil, nil, err
		}
	}
	if len(f.files) > 0 {
		o, n, err := f.documents(period)
		if err != nil {
			return nil, nil, err
		}
		objectives, notes = append(objectives, o...), append(notes, n...)
	}
	for _, name := range f.engines {
		engines = append(engines, rules.Service{Engine: name, Runbook: f.runbook})
	}
	if f.only != "engine" {
		if out, notes, err = f.burns(objectives, notes); err != nil {
			return nil, nil, err
		}
	}
	for _, s := range engines {
		if f.only == "slo" {
			break
		}
		g, err := rules.EngineGroup(s)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, g)
	}
	if len(out) == 0 {
		return nil, nil, fmt.Errorf("no rules: nothing that was given has any for --only %s", f.only)
	}
	return out, notes, nil
}

// burns returns the rules of objectives.
func (f *sloRules) burns(objectives []rules.Objective, notes []string) ([]rules.Group, []string, error) {
	var out []rules.Group
	var refused []error
	seen := map[string]rules.Objective{}
	for _, o := range objectives {
		if first, twice := seen[o.ID]; twice {
			refused = append(refused, fmt.Errorf("%s: a second objective %q, also at %s: give one of them another name", o.Source, o.ID, first.Source))
			continue
		}
		seen[o.ID] = o
		g, n, err := o.Group()
		if err != nil {
			refused = append(refused, fmt.Errorf("%s: %s: %w", o.Source, o.ID, err))
			continue
		}
		for _, note := range n {
			notes = append(notes, o.ID+": "+note)
		}
		out = append(out, g)
	}
	return out, notes, errors.Join(refused...)
}

// documents reads the objectives of files.
func (f *sloRules) documents(period time.Duration) ([]rules.Objective, []string, error) {
	var files []rules.Document
	for _, name := range f.files {
		file, err := f.open(name)
		if err != nil {
			return nil, nil, fmt.Errorf("read documents: %w", err)
		}
		// A byte more than is allowed: the reader refuses it, with what to do.
		data, err := io.ReadAll(io.LimitReader(file, yamldoc.MaxFile+1))
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, nil, fmt.Errorf("read documents: %w", err)
		}
		files = append(files, rules.Document{Name: documentName(name), Data: data})
	}
	objectives, notes, err := rules.Read(files, rules.Options{Period: period, KeepNames: f.keepNames, CustomBuckets: f.custom})
	if err != nil {
		return nil, nil, err
	}
	for i := range objectives {
		for _, a := range []*rules.Alert{&objectives[i].Page, &objectives[i].Ticket} {
			if f.runbook != "" && a.Annotations["runbook_url"] == "" {
				a.Annotations["runbook_url"] = f.runbook
			}
		}
	}
	return objectives, notes, nil
}

// documentName is how messages name a file.
func documentName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// open opens a file of documents; "-" is standard input.
func (f *sloRules) open(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(f.stdin), nil
	}
	return os.Open(name)
}

// objectName is what Kubernetes takes as the name of an object.
var objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// check refuses flags that mean nothing.
func (f *sloRules) check() (period time.Duration, err error) {
	period, err = yamldoc.ParseDuration(f.period)
	switch {
	case err != nil:
		return 0, fmt.Errorf("--period: %w", err)
	case !slices.Contains([]string{"rules", "prometheusrule"}, f.format):
		return 0, fmt.Errorf("--format: there is no %q; there is rules, prometheusrule", f.format)
	case !slices.Contains([]string{"", "slo", "engine"}, f.only):
		return 0, fmt.Errorf("--only: there is no %q; there is slo, engine", f.only)
	case !objectName.MatchString(f.object.Name):
		return 0, fmt.Errorf("--name: %q is not the name of an object: write lower-case letters, digits, dashes and dots", f.object.Name)
	case f.custom && len(f.files) == 0:
		return 0, errors.New("--custom-buckets is of documents, which -f names: in a service's entry add custom_buckets: true to the objective")
	case f.format == "rules" && (len(f.labels) > 0 || f.object.Namespace != ""):
		return 0, errors.New("--label and --namespace are of a PrometheusRule: add --format prometheusrule")
	}
	for _, name := range f.engines {
		if !slices.Contains(engine.Names(), name) {
			hint := ""
			if near := spelling.Nearest(name, engine.Names()); near != "" {
				hint = fmt.Sprintf("did you mean %q? ", near)
			}
			return 0, fmt.Errorf("--engine: no engine is named %q; %sthere is %s", name, hint, strings.Join(engine.Names(), ", "))
		}
	}
	f.object.Labels = map[string]string{}
	for _, l := range f.labels {
		key, value, ok := strings.Cut(l, "=")
		if !ok || key == "" {
			return 0, fmt.Errorf("--label: %q is not KEY=VALUE", l)
		}
		f.object.Labels[key] = value
	}
	return period, nil
}

// print writes the rules in the format that was asked for.
func (f *sloRules) print(w io.Writer, groups []rules.Group) error {
	var data any = rules.File{Groups: groups}
	if f.format == "prometheusrule" {
		data = rules.PrometheusRule(f.object, groups)
	}
	return f.out.Print(w, data, func(w io.Writer) error {
		if _, err := fmt.Fprintln(w, "# Generated by 'responder slo rules'. Change what it was made of, not this file."); err != nil {
			return err
		}
		return command.WriteYAML(w, data)
	})
}
