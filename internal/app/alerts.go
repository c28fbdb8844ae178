package app

import (
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/webhook"
)

// received lists the alerts that were received and what became of them.
type received struct {
	executor  *executor.Executor
	playbooks func() *playbook.Set
	now       func() time.Time
}

// Alerts returns received alerts, the most recently mentioned ones first.
func (r received) Alerts(f webhook.AlertFilter) api.AlertList {
	seen, more := r.executor.Alerts(dispatch.SeenFilter{Firing: f.Firing, NoRun: f.NoRun, Episode: f.Episode, Skip: f.Skip}, f.Limit)
	list := api.AlertList{Alerts: make([]api.ReceivedAlert, 0, len(seen)), More: more, Now: r.now().UTC()}
	for _, s := range seen {
		list.Alerts = append(list.Alerts, r.alert(s))
	}
	return list
}

func (r received) alert(s executor.SeenAlert) api.ReceivedAlert {
	out := api.ReceivedAlert{
		Episode: s.Episode, Firing: s.Firing, Seen: s.At.UTC(), Resolved: s.Resolved.UTC(),
		Became: became(s.Seen), Runs: append([]string{}, s.Runs...), Reason: s.Reason, Waits: s.Retry,
		Repeats: s.Repeats, Repeated: s.Repeated, Entry: s.Note,
	}
	if s.Resolved.IsZero() {
		out.Resolved = s.Resolved
	}
	if s.Alert != nil {
		out.Labels, out.Starts, out.Source = s.Alert.Labels, s.Alert.StartsAt.UTC(), s.Alert.GeneratorURL
	}
	switch {
	case len(s.Runs) > 0:
		out.Reason = ""
	case s.Kind == dispatch.KindUnmatched && s.Alert != nil:
		if out.Nearest, out.Mismatches = r.playbooks().Nearest(*s.Alert); out.Nearest == "" {
			out.Reason += ", and none comes near"
		}
		out.Remedy = "if a playbook should handle it, extend the match of one, or change the labels that the alert's rule sets: 'responder playbook list' shows what each matches"
	case s.Kind == dispatch.KindUnmatched:
		out.Remedy = "'responder playbook list' shows what each playbook matches"
	case s.Kind == dispatch.KindNoService:
		out.Remedy = "let the alert's rule set the labels of one service, or add the service to the catalog: 'responder services -o wide' lists it"
	case s.Kind == dispatch.KindSuppressed && s.Retry:
		out.Remedy = "nothing: it is decided again by itself"
	case s.Paused && s.Firing:
		out.Remedy = "lift the pause when it is over, and the alert is decided again at once: 'responder pauses' lists the pauses, 'responder unpause' lifts one"
	case s.Kind == dispatch.KindSuppressed && s.Firing:
		out.Remedy = "look at that run and release it, and the alert is decided again at once: 'responder runs show', 'responder runs release'"
	case s.Kind == dispatch.KindReleased && s.Firing:
		out.Remedy = "nothing: it is decided again when Alertmanager sends it again, and may start another run then"
	case s.Kind == dispatch.KindQuarantined:
		out.Remedy = "look at its notification: 'responder audit list --stream intake'"
	}
	return out
}

// became names what became of an episode.
func became(s dispatch.Seen) string {
	switch {
	case s.Joined:
		return "joined"
	case len(s.Runs) > 0:
		return "run"
	case s.Kind == "" && !s.Firing:
		return "resolved"
	case s.Paused:
		return "paused"
	}
	_, name, _ := strings.Cut(s.Kind, ".")
	return name
}
