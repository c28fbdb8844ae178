package executor

import (
	"errors"
	"slices"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/playbook"
)

// SeenAlert is an alert that was received. Alert is nil where its notification cannot
// be read any more.
type SeenAlert struct {
	dispatch.Seen
	Alert *playbook.Alert
}

// Alerts returns at most so many alerts that were received and what became of them, those first that
// were mentioned last, and whether there are more. It knows those of the last
// [dispatch.EpisodesKept], and of those that start no run the most recent ones.
func (e *Executor) Alerts(f dispatch.SeenFilter, most int) (out []SeenAlert, more bool) {
	seen, more := e.dispatch.Seen(most, f)
	told := map[uint64]playbook.Notification{}
	for _, s := range seen {
		_, ok := told[s.Note]
		if !ok && s.Note > 0 {
			n, err := e.dispatch.Told(s.Note)
			if err != nil && !errors.Is(err, audit.ErrArchived) {
				e.log.Warn("a notification cannot be read, its alerts are shown without labels", "entry", s.Note, "err", err)
			}
			told[s.Note] = n
		}
		n := told[s.Note]
		a := SeenAlert{Seen: s}
		if i := slices.IndexFunc(n.Alerts, func(a playbook.Alert) bool { return a.Episode() == s.Episode }); i >= 0 {
			a.Alert = &n.Alerts[i]
		}
		out = append(out, a)
	}
	return out, more
}

// Notification returns the notification at that position in the log. An archived one is an
// error that wraps [audit.ErrArchived].
func (e *Executor) Notification(seq uint64) (playbook.Notification, error) {
	return e.dispatch.Told(seq)
}

// AlertTally counts alerts that were received, by what became of them; see
// [dispatch.SeenFilter]. It knows those that [Executor.Alerts] knows.
func (e *Executor) AlertTally(f dispatch.SeenFilter) map[string]int { return e.dispatch.Tally(f) }
