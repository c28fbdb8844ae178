package executor

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/playbook"
)

// AlertFilter selects alerts; zero fields select everything.
type AlertFilter struct {
	Firing  *bool  // only those that fire, or only those that do not
	NoRun   bool   // only those without a run
	Episode string // only those whose episode begins with it, such as a fingerprint
	Limit   int    // 0: 50
}

const limitAlerts = 50

// SeenAlert is an alert that was received. Alert is nil where its notification cannot
// be read any more.
type SeenAlert struct {
	dispatch.Seen
	Alert *playbook.Alert
}

// Alerts returns alerts that were received and what became of them, those first that
// were mentioned last, and whether there are more. It knows those of the last
// [dispatch.EpisodesKept], and of those that start no run the most recent ones.
func (e *Executor) Alerts(f AlertFilter) (out []SeenAlert, more bool, err error) {
	seen, more := e.dispatch.Seen(cmp.Or(f.Limit, limitAlerts), func(s dispatch.Seen) bool {
		return (f.Firing == nil || *f.Firing == s.Firing) && (!f.NoRun || len(s.Runs) == 0) && strings.HasPrefix(s.Episode, f.Episode)
	})
	told := map[uint64]playbook.Notification{}
	for _, s := range seen {
		n, ok := told[s.Note]
		if !ok && s.Note > 0 {
			if n, err = e.dispatch.Told(s.Note); err != nil && !errors.Is(err, audit.ErrArchived) {
				return nil, false, err
			}
			told[s.Note] = n
		}
		a := SeenAlert{Seen: s}
		if i := slices.IndexFunc(n.Alerts, func(a playbook.Alert) bool { return a.Episode() == s.Episode }); i >= 0 {
			a.Alert = &n.Alerts[i]
		}
		out = append(out, a)
	}
	return out, more, nil
}
