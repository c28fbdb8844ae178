package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/notify/alertmanager"
	"github.com/inference-responder/responder/internal/notify/alertmanager/routing"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo/rules"
)

// alertmanager checks that each Alertmanager answers, and that alerts reach us.
func (e *exam) alertmanager(ctx context.Context) []Finding {
	urls, external, out := e.alertmanagers(ctx)
	for _, u := range urls {
		c := alertmanager.Config{AlertmanagerURL: u}
		if s := e.c.Silence; sameURL(s.AlertmanagerURL, u) {
			c.TokenFile, c.CAFile = s.TokenFile, s.CAFile
		}
		status, err := alertmanager.ReadStatus(ctx, c)
		if err != nil {
			out = append(out, failed(u, because(ctx, err), "see that it runs and answers from here, or name its address with --alertmanager"))
			continue
		}
		out = append(out, ok(u, "version "+status.Version))
		config, err := routing.Parse(status.Config)
		if err != nil {
			out = append(out, failed(u, err.Error(), "its routes cannot be checked: try with amtool config routes test"))
			continue
		}
		out = append(out, e.routes(u, config, external)...)
	}
	return out
}

// alertmanagers returns where alerts are sent to, and the labels that Prometheus adds
// to them.
func (e *exam) alertmanagers(ctx context.Context) (urls []string, external map[string]string, out []Finding) {
	urls = e.flags.alertmanager
	if e.prom != nil {
		told, err := e.prom.Alertmanagers(ctx)
		switch {
		case err != nil:
			out = append(out, failed("addresses", because(ctx, err), fixPrometheus))
		case len(told) == 0:
			out = append(out, failed("addresses", "Prometheus sends its alerts to no Alertmanager", "set alerting.alertmanagers of Prometheus: no alert leaves it otherwise"))
		case len(urls) == 0:
			urls = told
		}
		if external, err = e.prom.ExternalLabels(ctx); err != nil && len(out) == 0 {
			out = append(out, warning("external labels", because(ctx, err), "let the token read /api/v1/status/config: routes are checked without the labels that Prometheus adds to its alerts"))
		}
	}
	if own := e.c.Silence.AlertmanagerURL; own != "" && (e.c.Silence.Enabled || len(urls) == 0) && !slices.ContainsFunc(urls, func(u string) bool { return sameURL(u, own) }) {
		urls = append(slices.Clone(urls), own)
	}
	if len(urls) == 0 && len(out) == 0 {
		out = append(out, notAsked("addresses", "no address of an Alertmanager is known: name one with --alertmanager"))
	}
	return urls, external, out
}

// sameURL reports whether two base URLs are one.
func sameURL(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }

// routes checks that the alerts of each service's rules reach a webhook of ours.
func (e *exam) routes(at string, config *routing.Config, external map[string]string) []Finding {
	ours, out := e.ours(at, config)
	if len(ours) == 0 {
		return out
	}
	var used []routing.Delivery
	for _, s := range e.services {
		wanted, err := e.wanted(s)
		if err != nil {
			continue // said of its rules
		}
		var lost []string
		for _, r := range wanted {
			labels := maps.Clone(external)
			if labels == nil {
				labels = map[string]string{}
			}
			maps.Copy(labels, map[string]string{"namespace": s.Namespace})
			maps.Copy(labels, r.Labels)
			maps.Copy(labels, e.recorded(r.Labels, wanted))
			labels["alertname"] = r.Alert
			if r.Alert == "" || len(e.playbooks.Match(playbook.Alert{Status: playbook.Firing, Labels: labels})) == 0 {
				continue
			}
			reached := slices.DeleteFunc(config.Deliveries(labels), func(d routing.Delivery) bool { return !slices.Contains(ours, d.Receiver) })
			if len(reached) == 0 && !slices.Contains(lost, r.Alert) {
				lost = append(lost, r.Alert)
			}
			used = append(used, reached...)
		}
		if len(lost) > 0 {
			out = append(out, failed(s.Name+": routes", fmt.Sprintf("%s: no route takes %s to %s", at, some(lost, 6), strings.Join(ours, " or ")),
				"add a route for it, as deploy/alertmanager/receiver.yaml has it; a route before it without continue: true takes the alert away"))
			continue
		}
		out = append(out, ok(s.Name+": routes", "its alerts reach "+strings.Join(ours, ", ")))
	}
	return append(out, deliveries(at, used)...)
}

// deliveries checks how alerts are grouped and what the webhooks send.
func deliveries(at string, used []routing.Delivery) []Finding {
	var out []Finding
	add := func(f Finding) {
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	for _, d := range used {
		check := "receiver " + d.Receiver
		if len(d.Muted) > 0 {
			add(warning(check, fmt.Sprintf("%s: it is mute at times: %s", at, strings.Join(d.Muted, ", ")), "leave the intervals out of the route: incidents keep no hours"))
		}
		for _, label := range []string{"namespace", "service"} {
			if !d.Keeps(label) {
				add(warning(check, fmt.Sprintf("%s: its groups join alerts whose %s differs (%s)", at, label, d), "add "+label+" to group_by of the route: a large group comes late, and truncated where max_alerts is set"))
			}
		}
		for _, w := range d.Webhooks {
			if !w.SendResolved {
				add(failed(check, at+": send_resolved is false", "set send_resolved: true: a resolved alert withdraws questions and changes that have not started"))
			}
			if w.MaxAlerts > 0 {
				add(failed(check, fmt.Sprintf("%s: max_alerts is %d", at, w.MaxAlerts), "set max_alerts: 0: a truncated message makes the blast radius unknown, and nothing is changed then"))
			}
		}
	}
	return out
}

// recorded returns the labels that an alert on recorded series takes from them.
func (e *exam) recorded(labels map[string]string, wanted []rules.Rule) map[string]string {
	for _, r := range wanted {
		if r.Record != "" && r.Labels["slo_id"] != "" && r.Labels["slo_id"] == labels["slo_id"] {
			return r.Labels
		}
	}
	return nil
}

// intakePath is where the service takes notifications; the root is one, too.
const intakePath = "/api/v1/alertmanager"

// ours returns the receivers that post to this service.
func (e *exam) ours(at string, config *routing.Config) (ours []string, out []Finding) {
	hidden := false
	for _, name := range config.Receivers() {
		for _, w := range config.Webhooks(name) {
			u, err := url.Parse(w.URL)
			switch {
			case w.URL == "" && name == e.receiver:
				ours, hidden = append(ours, name), true
			case w.URL == "" || err != nil:
			case e.isOurs(u):
				ours = append(ours, name)
			}
		}
	}
	ours = slices.Compact(ours)
	switch {
	case len(ours) > 0 && hidden:
		out = append(out, ok("receiver "+e.receiver, at+": taken for ours by its name, since Alertmanager shows no addresses; a test alert shows whether it arrives"))
	case len(ours) > 0:
		out = append(out, ok("receiver "+strings.Join(ours, ", "), at+": its webhook points here"))
	default:
		out = append(out, failed("receiver", fmt.Sprintf("%s: none posts here; receivers with a webhook: %s", at, cmp.Or(strings.Join(config.Receivers(), ", "), "none")),
			"add the receiver of deploy/alertmanager/receiver.yaml; if it has another name, give it with --receiver"))
	}
	return ours, out
}

// isOurs reports whether an address is that of this service: by its path, and by its
// host where that is known.
func (e *exam) isOurs(u *url.URL) bool {
	known, err := url.Parse(e.c.ExternalURL)
	if err == nil && known.Host != "" && known.Host == u.Host {
		return true
	}
	return strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), intakePath)
}
