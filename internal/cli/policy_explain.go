package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
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
		Short: "Show what could run on a service at a time, and who would have to approve it",
		Long: `Show for every lever and gate of every playbook that may run for a service whether
it would be denied, only observed, asked about or applied, and by which rule.

Policy, services, playbooks and levels are read from the configuration, without any
connection. With --server, a running service is asked for its services, which
include those found in the cluster, and for the levers that it demoted (see
'responder ladder').

Below that it lists who has which right about the service, by auth.rights.

What depends on the plan is not guessed; it is listed under depends. Pauses and the
guards of the configuration, such as cooldown and budget, are not evaluated.`,
		Args: none,
		Example: `  responder policy explain --service serving/chat --at 23:00
  responder policy explain --service serving/chat --server https://responder.example
  responder policy explain -f policy.yaml --service serving/chat --at 2026-12-24T23:00:00+01:00
  responder policy explain -f policy.yaml --service serving/chat --playbook inference-slo-breach -o yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := parseMoment(f.at, time.Now())
			if err != nil {
				return err
			}
			answer, err := explainPolicy(cmd.Context(), f, &c, at)
			if err != nil {
				return err
			}
			return out.Print(p.Stdout, answer, func(w io.Writer) error { return writeExplanation(w, answer, at) })
		},
	}
	cmd.Flags().StringVarP(&f.file, "file", "f", "", "policy file (default: the configuration's)")
	cmd.Flags().StringVar(&f.service, "service", "", "service, as the catalog names it")
	cmd.Flags().StringVar(&f.at, "at", "", "when: 23:00 (the next time it is, on this machine's clock) or 2026-12-24T23:00:00+01:00 (default: now)")
	cmd.Flags().StringVar(&f.playbook, "playbook", "", "this playbook only")
	cmd.Flags().StringVar(&f.config, "config", "responder.yaml", "configuration of the service")
	c.AddFlags(cmd)
	completeServiceFlag(cmd, func(ctx context.Context) []cobra.Completion {
		if c.Server == "" {
			return configuredServices(f.config)
		}
		return servedServices(ctx, &c)
	})
	cmd.Flags().Lookup("server").Usage = "URL of a running service, to use its services instead of the configuration's"
	out.AddFlag(cmd)
	return cmd
}

// holds lists the settings that are at the lowest level, where that is below auto.
func (f explainFlags) holds(c config.Config, run machine.State, st *playbook.State) []api.Limit {
	// by names a setting; where nobody set it, the default that holds instead.
	by := func(set bool, what string) string {
		if !set {
			return "default: " + what + " sets no autonomy"
		}
		return "autonomy of " + what
	}
	pb, service := run.Playbook, run.Start.Service
	type held struct {
		level playbook.Autonomy
		by    string
	}
	all := []held{{c.Autonomy, by(c.IsSet("autonomy"), f.config)}}
	for _, part := range pb.Parts(st, service.Autonomy, run.Start.Override) {
		rule := part.Setting
		switch {
		case rule != "":
		case part.Holder == playbook.HeldByService:
			rule = by(setsAutonomy(c, service.Name), "service "+service.Name)
		case part.Holder == playbook.HeldByPlaybook:
			rule = by(pb.SetsAutonomy, "playbook "+pb.Name)
		default:
			rule = "autonomy of state " + st.Name
		}
		all = append(all, held{part.Level, rule})
	}
	lowest := playbook.Auto
	for _, x := range all {
		lowest = min(lowest, x.level)
	}
	var out []api.Limit
	for _, x := range all {
		if x.level == lowest && lowest < playbook.Auto {
			out = append(out, api.Limit{Level: x.level.String(), Rule: x.by})
		}
	}
	return out
}

// setsAutonomy reports whether a service's level was set. Of a service that the
// configuration does not list it is not known, and the service itself is named.
func setsAutonomy(c config.Config, service string) bool {
	for i, s := range app.ConfiguredServices(c) {
		if s.Name == service {
			return c.IsSet(fmt.Sprintf("services[%d].autonomy", i))
		}
	}
	return true
}

// The answers for a lever.
const (
	leverDenied   = "denied"
	leverObserved = "observed"
	leverAsks     = "asks"
	leverApplies  = "applies"
)

func explainPolicy(ctx context.Context, f explainFlags, server *client.Client, at time.Time) (api.PolicyExplanation, error) {
	var none api.PolicyExplanation
	if f.service == "" {
		return none, errors.New("missing --service; 'responder services' lists the names")
	}
	c, err := config.Load(f.config)
	if err != nil {
		return none, err
	}
	file := runview.OrText(f.file, c.Policy.File)
	if file == "" {
		return none, fmt.Errorf("no policy: %s names none under policy.file; name the file with -f", f.config)
	}
	service, err := explainedService(ctx, c, server, f.service)
	if err != nil {
		return none, err
	}
	books, err := app.ConfiguredPlaybooks(c.Playbooks)
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
	answer := api.PolicyExplanation{Service: service.Name, At: at.UTC(), Policy: file, Digest: set.Digest(), Levers: []api.LeverExplanation{}}
	if answer.Rights, err = app.RightsOn(c, service); err != nil {
		return none, err
	}
	for _, pb := range books.All() {
		if (f.playbook == "" || pb.Name == f.playbook) && pb.Serves(service.Name) {
			start := machine.Start{Playbook: pb.Name, Service: service, Autonomy: c.Autonomy, Override: books.Override(pb.Name, service.Name)}
			answer.Levers = append(answer.Levers, f.explainPlaybook(set, machine.State{Playbook: pb, Start: start, Updated: at}, c, caps)...)
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
	if server.Server != "" {
		var answer api.ServiceList
		if err := server.Get(ctx, client.ServicesPath, nil, &answer); err != nil {
			return playbook.Service{}, err
		}
		var services []playbook.Service
		for _, s := range answer.Services {
			services = append(services, s.Playbook())
		}
		return findService(services, name)
	}
	s, err := findService(app.ConfiguredServices(c), name)
	if err != nil && c.Discovery.Enabled {
		err = fmt.Errorf("%w; services found in the cluster are known to a running service: name it with --server", err)
	}
	return s, err
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

func findService(services []playbook.Service, name string) (playbook.Service, error) {
	var names []string
	for _, s := range services {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return playbook.Service{}, unknownName("service", name, names)
}

func unknownName(what, got string, names []string) error {
	hint := ""
	if near := spelling.Nearest(got, names); near != "" {
		hint = fmt.Sprintf("did you mean %q? ", near)
	}
	return fmt.Errorf("no %s is named %q; %sthere is %s", what, got, hint, runview.OrText(strings.Join(names, ", "), "none"))
}

// explainPlaybook reports what would become of each lever and gate of a playbook in
// a run that begins now.
func (f explainFlags) explainPlaybook(set *policy.Set, began machine.State, c config.Config, caps map[stateName]machine.Cap) []api.LeverExplanation {
	var out []api.LeverExplanation
	pb := began.Playbook
	for _, st := range pb.States {
		if st.Kind != playbook.StateLever && st.Kind != playbook.StateGate {
			continue
		}
		run := began
		run.Current = st.Name
		result := set.Explain(policy.Input{Now: run.Updated, Service: run.Start.Service, Playbook: pb, State: st, Autonomy: run.Autonomy(st)})
		if most, ok := caps[stateName{pb.Name, st.Name}]; ok && (result.Terms.Cap == nil || result.Terms.Cap.Level > most.Level) {
			result.Terms.Cap = &most
		}
		run = run.Under(&result.Terms)
		e := api.LeverExplanation{
			Playbook: pb.Name, State: st.Name, Kind: string(st.Kind), Lever: st.Step, Autonomy: run.Autonomy(st).String(),
			HeldBy: f.holds(c, run, st), LevelBy: run.AutonomyBy(st),
		}
		if most := result.Terms.Cap; most != nil {
			e.Cap = limitOf(*most)
		}
		for _, cause := range result.Causes {
			switch {
			case cause.Denies:
				e.Denied = append(e.Denied, causeOf(cause))
			case cause.Depends:
				e.Depends = append(e.Depends, causeOf(cause))
			}
		}
		addAnswer(&e, st, run, result.Terms)
		out = append(out, e)
	}
	return out
}

// addAnswer sets the answer, and who is asked if that is the answer.
func addAnswer(e *api.LeverExplanation, st *playbook.State, run machine.State, terms machine.Terms) {
	needs := run.Needs(st)
	switch {
	case len(e.Denied) > 0:
		e.Answer = leverDenied
		return
	case run.Autonomy(st) == playbook.Observe:
		e.Answer = leverObserved
		return
	case len(needs) == 0:
		e.Answer = leverApplies
		return
	}
	e.Answer = leverAsks
	e.Within, e.BreakGlass = askedFor(st, run, terms), terms.BreakGlass
	for _, n := range needs {
		e.Needs = append(e.Needs, api.NeedOf(n))
	}
	for _, t := range terms.Tiers {
		e.Tiers = append(e.Tiers, api.TierOf(t))
	}
}

// askedFor returns how long people have, as text. Without a run the evidence is
// missing that a playbook's own time may depend on.
func askedFor(st *playbook.State, run machine.State, terms machine.Terms) string {
	within, err := run.Deciding(st, run.Updated)
	switch {
	case err == nil && terms.Within > 0:
		return playbook.FormatDuration(min(within, terms.Within))
	case err == nil:
		return playbook.FormatDuration(within)
	case terms.Within > 0:
		return "at most " + playbook.FormatDuration(terms.Within)
	default:
		return st.Approve.Within.Source()
	}
}

func causeOf(c policy.Cause) api.Cause {
	out := api.Cause{Rule: c.Rule, Place: c.Place, Effect: c.Effect, Why: c.Why}
	if c.Need != nil {
		need := api.NeedOf(*c.Need)
		out.Need = &need
	}
	if c.Cap != nil {
		out.Cap = limitOf(*c.Cap)
	}
	return out
}

func limitOf(c machine.Cap) *api.Limit {
	limit := api.LimitOf(c)
	return &limit
}
