package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// shownPlaybook is the answer of playbook show.
type shownPlaybook struct {
	Name     string `json:"name"`
	Source   string `json:"source"`
	Digest   string `json:"digest"`
	Autonomy string `json:"autonomy"`           // of its levers, unless override has another for one
	Override string `json:"override,omitempty"` // levels that the configuration sets, and where
	Document string `json:"document"`
}

func newPlaybookShowCommand(p *command.Process) *cobra.Command {
	var out command.Output
	var file string
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Print a playbook: the shipped one, or the one in force",
		Long: `Print the document of a playbook. With --config it is the one that the service
would have in force: your own, if playbooks.dir has one of that name, else the
shipped one. Copy a shipped playbook to change it:

  responder playbook show gpu-fault > /etc/responder-playbooks/gpu-fault.yaml`,
		Args: one("NAME"),
		Example: `  responder playbook show inference-slo-breach
  responder playbook show inference-slo-breach --config responder.yaml`,
		RunE: func(_ *cobra.Command, args []string) error {
			source := config.Playbooks{Shipped: true}
			if file != "" {
				c, err := config.Load(file)
				if err != nil {
					return err
				}
				source = c.Playbooks
			}
			set, err := app.ConfiguredPlaybooks(source)
			if err != nil {
				return err
			}
			pb := set.ByName(args[0])
			if pb == nil {
				return fmt.Errorf("no playbook is named %q: %s", args[0], yamldoc.DidYouMean(args[0], app.PlaybookNames(set)))
			}
			o := set.Override(pb.Name, "")
			shown := shownPlaybook{Name: pb.Name, Source: pb.Source, Digest: pb.Digest, Autonomy: pb.Level(o).String(), Document: string(pb.Doc)}
			if o != nil {
				shown.Override = o.String()
			}
			return out.Print(p.Stdout, shown, func(w io.Writer) error {
				_, err := w.Write(pb.Doc)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration whose playbooks are meant (default: the shipped ones)")
	out.AddFlag(cmd)
	return cmd
}

func newPlaybookNewCommand(p *command.Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Print a small playbook to start from",
		Long: `Print a playbook that passes 'playbook lint': it gathers evidence, adds a replica
while requests are waiting, proves that it helped, and tells people otherwise.
Change what it matches first.`,
		Args:    one("NAME"),
		Example: `  responder playbook new queue-too-long > queue-too-long.yaml`,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := checkName(args[0]); err != nil {
				return err
			}
			_, err := fmt.Fprintf(p.Stdout, playbookTemplate, args[0])
			return err
		},
	}
	return cmd
}

// checkName reports a name that the language does not allow, with the nearest
// one that it does.
func checkName(name string) error {
	rule := playbook.NameRule(name)
	if rule == "" {
		return nil
	}
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	if near := strings.Join(words, "-"); playbook.NameRule(near) == "" {
		rule += fmt.Sprintf("; did you mean %q?", near)
	}
	return fmt.Errorf("%q cannot name a playbook: %s", name, rule)
}

// playbookTemplate is a playbook with a hole for its name.
const playbookTemplate = `# yaml-language-server: $schema=playbook.schema.json
# 'responder playbook schema > playbook.schema.json' makes editors complete this file.
apiVersion: responder/v1alpha1
kind: Playbook
metadata:
  name: %s
  runbook: https://wiki.example/runbooks/change-me
spec:
  match: ['{alertname="ChangeMe"}']      # Alertmanager's matchers; each entry suffices
  autonomy: suggest                      # people approve; observe only records
  let:
    waiting: 'queue.status == "ok" && queue.value > 5.0'
  start: triage
  states:
    triage:
      title: Triage
      gather:                            # side by side; each evidence has its own name
        slo:     {check: slo.burn}         # is an objective of the service missed?
        queue:   {check: prometheus.query, with: {query: 'sum(vllm:num_requests_waiting{${service.selector}})'}}
        changes: {check: service.changes}  # in the cluster and in Git
        gpus:    {check: gpu.health}
      next:                              # the first that is true; what cannot be told never leads to a lever
        - {when: slo.status == "met",    to: nothing,   label: within its objectives}
        - {when: 'gpus.known && gpus.verdict == "failing"', to: escalated, label: GPU at fault}
        - {when: changes.suspect,        to: escalated, label: suspect release}
        - {when: waiting,                to: add,       label: requests are waiting}
        - {to: escalated,                label: no cause found}
    add:
      title: Add a replica
      lever: kube.scale
      with: {by: 1}
      approve: {by: service.owners, within: 15m}
      verify: {also: engine.waiting < 1} # besides the service's objectives, which prove every lever
      next:
        - {when: verified, to: resolved}
        - {to: triage}                   # look again; a lever is tried once in a run
    nothing:   {title: Not confirmed, end: no-action}
    resolved:  {title: Resolved, end: resolved}
    escalated: {title: Escalated, end: escalated}
`
