package app

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/catalog"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/policy"
	"github.com/inference-responder/responder/internal/rights"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/trace"
	"github.com/inference-responder/responder/internal/webhook"
)

// CheckConfig does what serve does before it opens anything: files that the
// configuration names are read, so that a missing token is found here. What is wrong
// with one of them does not hide what is wrong with another.
func CheckConfig(file string, open func(config.Config) (World, error)) (_ api.ConfigCheck, err error) {
	c, invalid := config.Load(file)
	if c.File == "" {
		return api.ConfigCheck{}, invalid
	}
	missing := c.MissingFiles()
	w, broken := World{Close: func() error { return nil }}, error(nil)
	if invalid == nil && missing == nil {
		w, broken = checkWorld(c, open)
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	opened := invalid == nil && missing == nil && broken == nil
	set, unread := ConfiguredPlaybooks(c.Playbooks)
	if unread != nil {
		unread = c.Unread(unread, "playbooks.dir")
	} else if opened {
		unread = playbooksTell(w.Channels)(set)
	}
	allows := allowsRules(func(string, *policy.Set) error { return nil })
	if opened {
		allows = policyTells(w.Channels)
	}
	rules, refused := checkPolicy(c.Policy.File, allows)
	switch {
	case missing != nil && errors.Is(refused, fs.ErrNotExist):
		refused = nil // it is among the missing files
	case refused != nil:
		refused = c.Unread(refused, "policy.file")
	}
	if err := errors.Join(invalid, missing, broken, unread, refused); err != nil {
		return api.ConfigCheck{}, err
	}
	return summarize(file, c, w, set, rules), nil
}

// checkWorld opens what a configuration names, and checks who may talk to the service.
func checkWorld(c config.Config, open func(config.Config) (World, error)) (World, error) {
	quiet := slog.New(slog.DiscardHandler)
	probe := webhook.Options{
		Intake: admission{}, Auth: c.ReceiverAuth(), TLS: c.ServerTLS(), DropLabels: c.Receiver.DropLabels,
		MaxBody: int64(c.Receiver.MaxBody), InFlightBytes: int64(c.Receiver.MaxInFlight), MaxConns: c.Receiver.MaxConcurrent, Quota: c.Receiver.Quota.Options(), Logger: quiet,
	}
	_, receiver := webhook.New(probe)
	if receiver != nil {
		receiver = c.Blame(receiver, "auth", "tls")
	}
	var tracing error
	if c.Tracing.Enabled() {
		_, tracing = trace.New(trace.Options{Config: c.Tracing})
		tracing = c.Blame(tracing, "tracing")
	}
	w, err := open(c)
	if w.Close == nil {
		w.Close = func() error { return nil }
	}
	return w, errors.Join(err, receiver, tracing)
}

// summarize returns what a configuration that is good comes to.
func summarize(file string, c config.Config, w World, set *playbook.Set, rules *api.ConfigPolicy) api.ConfigCheck {
	summary := api.ConfigCheck{
		File: file, Listen: c.Listen, Autonomy: c.Autonomy.String(), Services: len(w.Services()), Playbooks: len(set.All()),
		Prometheus: c.Prometheus.URL, Cluster: clusterName(c.Kubernetes), Discovery: c.Discovery.Enabled, DiscoveryNamespaces: c.Discovery.Namespaces,
		Policy: rules, Repositories: []string{}, Channels: []string{}, Warnings: []string{},
	}
	if c.Incident.Window > 0 {
		summary.IncidentWindow = playbook.FormatDuration(c.Incident.Window)
	}
	for _, p := range c.NodePools {
		summary.NodePools = append(summary.NodePools, p.String())
	}
	levelsTell(&summary, c, set)
	summary.Keep, summary.Archive = playbook.FormatDuration(c.Journal.Keep), c.Journal.Archive
	if info, err := os.Stat(c.Journal.Archive); c.Journal.Archive != "" && (err != nil || !info.IsDir()) {
		summary.Warnings = append(summary.Warnings, "journal.archive: "+c.Journal.Archive+" is not a directory: nothing is archived, and the journal only grows")
	}
	summary.Warnings = append(summary.Warnings, c.Exposures()...)
	if summary.Playbooks == 0 {
		summary.Warnings = append(summary.Warnings, noPlaybooks+" (playbooks.dir: "+c.Playbooks.Dir+")")
	}
	for _, w := range set.Warnings() {
		summary.Warnings = append(summary.Warnings, w.String())
	}
	rightsTell(&summary, c)
	quorumTells(&summary, c, set)
	journalTells(&summary, c)
	objectivesTell(&summary, c)
	probesTell(&summary, c, w)
	for _, r := range c.Gitops.Repositories {
		summary.Repositories = append(summary.Repositories, r.URL)
	}
	if c.Gitops.ArgoCD != nil {
		summary.ArgoCD = c.Gitops.ArgoCD.Server
	}
	for _, ch := range c.Channels {
		summary.Channels = append(summary.Channels, ch.Name)
	}
	return summary
}

// rightsTell adds who has which right, and whose credentials count for less because
// auth.people does not list them.
func rightsTell(summary *api.ConfigCheck, c config.Config) {
	rules, _ := c.Auth.RightsRules() // config.Load has refused what is wrong
	summary.Rights = []api.RightHolders{}
	for _, right := range rights.All() {
		summary.Rights = append(summary.Rights, api.RightHolders{Right: string(right), Who: rules.Anywhere(right)})
	}
	if len(rules.Anywhere(rights.Approve)) == 0 && c.Autonomy > playbook.Observe {
		summary.Warnings = append(summary.Warnings, "auth.rights: nobody may approve: every question expires")
	}
	summary.Warnings = append(summary.Warnings, c.Undeclared()...)
}

// quorumTells warns of questions that need more people than the configuration declares.
func quorumTells(summary *api.ConfigCheck, c config.Config, set *playbook.Set) {
	var rules []policy.Rule
	if c.Policy.File != "" {
		if policies, _, err := readRules(c.Policy.File, func(string, *policy.Set) error { return nil }); err == nil { // else checkPolicy has refused it
			rules = policies.Rules()
		}
	}
	summary.Warnings = append(summary.Warnings, quorums(c.Auth, set, rules)...)
}

// journalTells warns of a limit that the journal's volume cannot meet.
func journalTells(summary *api.ConfigCheck, c config.Config) {
	size, err := sizeOf(c.Journal.Dir)
	if least := int64(c.Journal.MinFree); err == nil && size > 0 && least >= size {
		summary.Warnings = append(summary.Warnings, fmt.Sprintf("journal.min_free: %d MiB are never free on the volume of %s, which has %d MiB: every notification would be refused", least>>20, c.Journal.Dir, size>>20))
	}
}

// RightsOn returns who has which right about a service.
func RightsOn(c config.Config, s playbook.Service) ([]api.RightHolders, error) {
	rules, err := c.Auth.RightsRules()
	if err != nil {
		return nil, err
	}
	var all []api.RightHolders
	for _, right := range rights.All() {
		all = append(all, api.RightHolders{Right: string(right), Who: rules.Who(right, subject(s))})
	}
	return all, nil
}

// probesTell adds which golden prompts cannot be read.
func probesTell(summary *api.ConfigCheck, c config.Config, w World) {
	for _, one := range catalog.ProbedServices(c.Services) {
		if _, _, err := w.Deps.Probes.Prompts(one.Service.Name); err != nil {
			summary.Warnings = append(summary.Warnings, "probe of service "+one.Service.Name+": "+err.Error())
		}
	}
}

// objectivesTell adds what services without objectives of their own are judged by.
func objectivesTell(summary *api.ConfigCheck, c config.Config) {
	summary.DefaultSLOs, summary.Defaulted = []string{}, []string{}
	engines := map[string]bool{}
	for i, e := range c.CatalogEntries() {
		if len(c.Services[i].SLOs) == 0 {
			summary.Defaulted = append(summary.Defaulted, e.Service.Name)
			engines[e.Service.Engine] = true
		}
	}
	defaultsTell(summary, c, engines)
}

// defaultsTell adds the default objectives, and where engines cannot measure one as it
// is: those of services that declare none, or all that may be discovered.
func defaultsTell(summary *api.ConfigCheck, c config.Config, engines map[string]bool) {
	var names []string
	if !summary.Discovery {
		names = slices.Sorted(maps.Keys(engines))
	}
	for i, o := range c.SLO.Defaults {
		text := o.Name + " " + slo.Percent(o.Objective)
		if o.Threshold > 0 {
			text += fmt.Sprintf(" within %v s", o.Threshold)
		}
		var moved []string
		if len(engines) > 0 || summary.Discovery {
			moved = c.ServiceDefaults().Moved(i, names...)
		}
		if len(moved) > 0 {
			text += " (" + strings.Join(moved, ", ") + ")"
		}
		summary.DefaultSLOs = append(summary.DefaultSLOs, text)
		if path := fmt.Sprintf("slo.defaults[%d]", i); len(moved) > 0 && c.IsSet(path+".threshold") {
			summary.Warnings = append(summary.Warnings, fmt.Sprintf("%s: %s: no bucket ends at %v s; services are judged by the nearest: %s", path, o.Name, o.Threshold, strings.Join(moved, ", ")))
		}
	}
}

// levelsTell adds the levels that stand in place of those of services and
// playbooks.
func levelsTell(summary *api.ConfigCheck, c config.Config, set *playbook.Set) {
	for _, l := range c.Playbooks.Autonomy {
		setting, of := strings.TrimSuffix(l.Path(), "."+l.Name()), ""
		if l.Service != "" {
			of = " for " + l.Service
		}
		summary.Levels = append(summary.Levels, fmt.Sprintf("%s: %s%s by %s%s", l.Name(), l.Level, of, setting, itself(l, set)))
		if l.Level > c.Autonomy {
			summary.Warnings = append(summary.Warnings, fmt.Sprintf("%s: %s acts as %s: autonomy is at most that", l.Path(), l.Level, c.Autonomy))
		}
	}
	for _, l := range set.Hidden(c.Playbooks.Autonomy) {
		summary.Warnings = append(summary.Warnings, fmt.Sprintf("%s: %s has no effect: other entries decide each of its levers", l.Path(), l.Level))
	}
}

// itself describes what an entry stands in place of.
func itself(l playbook.LevelSetting, set *playbook.Set) string {
	p := set.ByName(l.Playbook)
	if p == nil {
		var in []string
		for _, p := range set.All() {
			if slices.ContainsFunc(p.States, func(s *playbook.State) bool { return s.Step == l.Kind && s.Kind == playbook.StateLever }) {
				in = append(in, p.Name)
			}
		}
		return ", in " + strings.Join(in, ", ")
	}
	own := p.Autonomy
	if st := p.State(l.State); st != nil && st.Autonomy != nil {
		own = min(own, *st.Autonomy)
	}
	return fmt.Sprintf(", itself %s", own)
}

// checkPolicy sums up the policy file; nil where none is configured.
func checkPolicy(file string, allows allowsRules) (*api.ConfigPolicy, error) {
	if file == "" {
		return nil, nil
	}
	set, _, err := readRules(file, allows)
	if err != nil {
		return nil, err
	}
	s := &api.ConfigPolicy{File: file, BreakGlass: []api.PolicyRule{}}
	for _, r := range set.Rules() {
		s.Rules++
		if len(r.BreakGlass) > 0 {
			s.BreakGlass = append(s.BreakGlass, PolicyRuleOf(r))
		}
	}
	return s, nil
}

// PolicyRuleOf returns a rule of a policy as the API has it.
func PolicyRuleOf(r policy.Rule) api.PolicyRule {
	return api.PolicyRule{Name: r.Name, Place: r.Place, Line: r.Line, Effect: r.Kind, When: r.When, Says: r.Says, BreakGlass: r.BreakGlass}
}

func clusterName(k config.Kubernetes) string {
	switch {
	case k.InCluster:
		return "the one it runs in"
	case k.Kubeconfig != "" && k.Context != "":
		return k.Kubeconfig + " context " + k.Context
	default:
		return k.Kubeconfig
	}
}
