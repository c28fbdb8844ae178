package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/catalog"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/policy"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/spelling"
)

// explainFlags are the flags of policy explain.
type explainFlags struct {
	service, at, playbook, file, config string
}

func newPolicyExplainCommand(p *command.Process) *cobra.Command {
	var f explainFlags
	c := client.Client{Process: p}
	var out command.Output
	cmd := &cobra.Command{
		Use:   "explain --service NAME [-f FILE]",
		Short: "Say what could run on a service at a time, and who would have to say yes",
		Long: `Say of every lever and gate of every playbook that may run for a service whether
it would be denied, only observed, put to people or applied, and by which rule. It reads
the configuration for the policy, services, playbooks and levels, and connects to
nothing, unless --server names a running service: then the services are those
that it knows, also those found in the cluster, and levers that it demoted
('responder ladder') are at their level.

What is not known before there is a plan is not guessed: it is listed under
depends. Namespaces are those of the service itself. Pauses and the guards of
the configuration, such as cooldown and budget, come on top.`,
		Args: none,
		Example: `  responder policy explain --service serving/chat --at 23:00
  responder policy explain --service serving/chat --server https://responder.example
  responder policy explain -f policy.yaml --service serving/chat --at 2026-12-24T23:00:00+01:00
  responder policy explain -f policy.yaml --service serving/chat --playbook inference-slo-breach -o yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := explainPolicy(cmd.Context(), f, &c, time.Now())
			if err != nil {
				return err
			}
			return out.Print(p.Stdout, answer, answer.write)
		},
	}
	cmd.Flags().StringVarP(&f.file, "file", "f", "", "policy file (default: the configuration's)")
	cmd.Flags().StringVar(&f.service, "service", "", "service, as the catalog names it")
	cmd.Flags().StringVar(&f.at, "at", "", "when: 23:00 (the next time it is, on this machine's clock) or 2026-12-24T23:00:00+01:00 (default: now)")
	cmd.Flags().StringVar(&f.playbook, "playbook", "", "this playbook only")
	cmd.Flags().StringVar(&f.config, "config", "responder.yaml", "configuration of the service")
	c.AddFlags(cmd)
	cmd.Flags().Lookup("server").Usage = "URL of a running service, whose services are taken in place of the configuration's"
	out.AddFlag(cmd)
	return cmd
}

// policyExplanation is the answer of policy explain.
type policyExplanation struct {
	Service string             `json:"service"`
	At      time.Time          `json:"at"`
	Policy  string             `json:"policy"` // the file
	Digest  string             `json:"digest"`
	Levers  []leverExplanation `json:"levers"` // and gate states
}

// leverExplanation is what would become of one lever, or one gate state.
type leverExplanation struct {
	Playbook string         `json:"playbook"`
	State    string         `json:"state"`
	Kind     string         `json:"kind"`             // lever, gate
	Lever    string         `json:"lever,omitempty"`  // of a lever: its kind of step
	Answer   string         `json:"answer"`           // denied, observed, asks, applies
	Autonomy string         `json:"autonomy"`         // effective, policy included
	HeldBy   []heldBy       `json:"heldBy,omitempty"` // what keeps it below auto; all of them have to be raised
	Cap      *machine.Cap   `json:"cap,omitempty"`
	Denied   []policy.Cause `json:"denied,omitempty"`
	Needs    []machine.Need `json:"needs,omitempty"` // who would have to say yes, each of them
	Within   string         `json:"within,omitempty"`
	Tiers    []machine.Tier `json:"tiers,omitempty"`

	BreakGlass []string       `json:"breakGlass,omitempty"`
	Depends    []policy.Cause `json:"depends,omitempty"` // what may change the answer once there is a plan
}

// heldBy is a setting of autonomy that holds a lever back.
type heldBy struct {
	Level string `json:"level"`
	By    string `json:"by"`
}

// holds lists the settings that are at the lowest level, where that is below auto.
func (f explainFlags) holds(c config.Config, pb *playbook.Playbook, st *playbook.State, service playbook.Service) []heldBy {
	configured := "autonomy in " + f.config
	if !c.IsSet("autonomy") {
		configured += ", which does not set it"
	}
	all := []struct {
		level playbook.Autonomy
		by    string
	}{
		{c.Autonomy, configured},
		{service.Autonomy, "autonomy of service " + service.Name},
		{pb.Autonomy, "autonomy of playbook " + pb.Name},
	}
	if st.Autonomy != nil {
		all = append(all, all[0])
		all[3].level, all[3].by = *st.Autonomy, "autonomy of state "+st.Name
	}
	lowest := playbook.Auto
	for _, x := range all {
		lowest = min(lowest, x.level)
	}
	var out []heldBy
	for _, x := range all {
		if x.level == lowest && lowest < playbook.Auto {
			out = append(out, heldBy{x.level.String(), x.by})
		}
	}
	return out
}

// The answers for a lever.
const (
	leverDenied   = "denied"
	leverObserved = "observed"
	leverAsks     = "asks"
	leverApplies  = "applies"
)

func explainPolicy(ctx context.Context, f explainFlags, server *client.Client, now time.Time) (policyExplanation, error) {
	var none policyExplanation
	if f.service == "" {
		return none, errors.New("which service? name it with --service")
	}
	at, err := parseMoment(f.at, now)
	if err != nil {
		return none, err
	}
	c, err := config.Load(f.config)
	if err != nil {
		return none, err
	}
	file := runview.OrText(f.file, c.Policy.File)
	if file == "" {
		return none, fmt.Errorf("which policy? %s names none under policy.file; name the file with -f", f.config)
	}
	service, err := explainedService(ctx, c, server, f.service)
	if err != nil {
		return none, err
	}
	books, err := app.LoadPlaybooks(c.Playbooks.Dir)
	if err != nil {
		return none, err
	}
	if f.playbook != "" && books.ByName(f.playbook) == nil {
		return none, unknownName("playbook", f.playbook, app.PlaybookNames(books))
	}
	set, err := app.LoadPolicy(file)
	if err != nil {
		return none, err
	}
	caps, err := demotions(ctx, server, f.service)
	if err != nil {
		return none, err
	}
	answer := policyExplanation{Service: service.Name, At: at, Policy: file, Digest: set.Digest(), Levers: []leverExplanation{}}
	for _, pb := range books.All() {
		if (f.playbook == "" || pb.Name == f.playbook) && pb.Serves(service.Name) {
			answer.Levers = append(answer.Levers, f.explainPlaybook(set, pb, service, c, at, caps)...)
		}
	}
	return answer, nil
}

// parseMoment reads --at: nothing, a time of the day, or a moment.
func parseMoment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return now, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	clock, err := time.Parse("15:04", text)
	if err != nil {
		return time.Time{}, fmt.Errorf("--at %q is no time; write 23:00 or 2026-12-24T23:00:00+01:00", text)
	}
	at := time.Date(now.Year(), now.Month(), now.Day(), clock.Hour(), clock.Minute(), 0, 0, now.Location())
	if at.Before(now) {
		at = at.AddDate(0, 0, 1)
	}
	return at, nil
}

// explainedService finds a service by its name: at the running service, if one
// is named, else in the configuration.
func explainedService(ctx context.Context, c config.Config, server *client.Client, name string) (playbook.Service, error) {
	var services []playbook.Service
	if server.Server != "" {
		var answer api.ServiceList
		if err := server.Get(ctx, client.ServicesPath, nil, &answer); err != nil {
			return playbook.Service{}, err
		}
		for _, s := range answer.Services {
			services = append(services, s.Playbook())
		}
	} else {
		entries, err := catalog.ParseNode(c.File, &c.Services)
		if err != nil {
			return playbook.Service{}, err
		}
		for _, e := range entries {
			services = append(services, e.Service)
		}
	}
	var names []string
	for _, s := range services {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	err := unknownName("service", name, names)
	if c.Discovery.Enabled && server.Server == "" {
		err = fmt.Errorf("%w; services found in the cluster are known to a running service: name it with --server", err)
	}
	return playbook.Service{}, err
}

// stateName is a playbook's state.
type stateName struct{ playbook, state string }

// demotions are the caps of levers that a running service demoted; without one
// nothing is known of them.
func demotions(ctx context.Context, server *client.Client, service string) (map[stateName]machine.Cap, error) {
	if server.Server == "" {
		return nil, nil
	}
	var answer api.LeverList
	if err := server.Get(ctx, client.LadderPath, url.Values{"service": {service}}, &answer); err != nil {
		return nil, err
	}
	out := map[stateName]machine.Cap{}
	for _, l := range answer.Levers {
		if l.Demoted {
			out[stateName{l.Playbook, l.Lever}] = machine.Cap{Level: playbook.Suggest, Rule: l.Why}
		}
	}
	return out, nil
}

func unknownName(what, got string, names []string) error {
	hint := ""
	if near := spelling.Nearest(got, names); near != "" {
		hint = fmt.Sprintf("did you mean %q? ", near)
	}
	return fmt.Errorf("no %s is named %q; %sthere is %s", what, got, hint, runview.OrText(strings.Join(names, ", "), "none"))
}

// explainPlaybook reports what would become of each lever and gate of a playbook.
func (f explainFlags) explainPlaybook(set *policy.Set, pb *playbook.Playbook, service playbook.Service, c config.Config, at time.Time, caps map[stateName]machine.Cap) []leverExplanation {
	var out []leverExplanation
	for _, st := range pb.States {
		if st.Kind != playbook.StateLever && st.Kind != playbook.StateGate {
			continue
		}
		run := machine.State{Playbook: pb, Current: st.Name, Start: machine.Start{Playbook: pb.Name, Service: service, Autonomy: c.Autonomy}}
		result := set.Explain(policy.Input{Now: at, Service: service, Playbook: pb, State: st, Autonomy: run.Autonomy(st)})
		if most, ok := caps[stateName{pb.Name, st.Name}]; ok && (result.Terms.Cap == nil || result.Terms.Cap.Level > most.Level) {
			result.Terms.Cap = &most
		}
		run = run.Under(&result.Terms)
		e := leverExplanation{
			Playbook: pb.Name, State: st.Name, Kind: string(st.Kind), Lever: st.Step, Autonomy: run.Autonomy(st).String(), Cap: result.Terms.Cap,
			HeldBy: f.holds(c, pb, st, service),
			Needs:  run.Needs(st), Tiers: result.Terms.Tiers, BreakGlass: result.Terms.BreakGlass,
		}
		for _, cause := range result.Causes {
			switch {
			case cause.Denies:
				e.Denied = append(e.Denied, cause)
			case cause.Depends:
				e.Depends = append(e.Depends, cause)
			}
		}
		e.answer(st, result.Terms, run.Autonomy(st))
		out = append(out, e)
	}
	return out
}

// answer sums up in a word, and drops what that word makes pointless.
func (e *leverExplanation) answer(st *playbook.State, terms machine.Terms, level playbook.Autonomy) {
	switch {
	case len(e.Denied) > 0:
		e.Answer = leverDenied
	case level == playbook.Observe:
		e.Answer = leverObserved
	case len(e.Needs) > 0:
		e.Answer = leverAsks
		within := machine.AskWithin
		if st.Approve != nil && st.Approve.Within > 0 {
			within = st.Approve.Within
		}
		if terms.Within > 0 {
			within = min(within, terms.Within)
		}
		e.Within = playbook.FormatDuration(within)
		return
	default:
		e.Answer = leverApplies
	}
	e.Needs, e.Tiers, e.BreakGlass = slices.Clip(e.Needs[:0]), nil, nil
}
