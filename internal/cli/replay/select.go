package replay

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// episode is one firing of one alert, as all notifications tell of it.
type episode struct {
	alert    playbook.Alert // as it was first told
	last     time.Time      // when it was last mentioned
	resolved time.Time      // when it ended; zero: nobody said
}

// lasted returns how long the alert fired; false: its end is not known.
func (e *episode) lasted() (time.Duration, bool) {
	return e.resolved.Sub(e.alert.StartsAt), !e.resolved.IsZero()
}

// part is what was notified about one service; about none where its name is empty.
type part struct {
	service string
	notes   []playbook.Notification
}

// selection is what a replay is about.
type selection struct {
	parts    []part // by name of the service
	episodes map[string]*episode
	services *resolver
	outside  int // episodes that began before or after the span
}

// choose selects the episodes that began in the span, and all that was notified of
// them, also later.
func choose(all []playbook.Notification, from, to time.Time, resolve Resolve) selection {
	s := selection{episodes: map[string]*episode{}, services: &resolver{resolve: resolve, found: map[string]resolution{}}}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b playbook.Notification) int { return a.ReceivedAt.Compare(b.ReceivedAt) })
	outside := map[string]bool{}
	byService := map[string]*part{}
	for _, n := range all {
		alerts := map[string][]playbook.Alert{}
		for _, a := range n.Alerts {
			if a.StartsAt.Before(from) || !a.StartsAt.Before(to) {
				outside[a.Episode()] = true
				continue
			}
			s.mention(a, n.ReceivedAt)
			name := s.services.name(a)
			alerts[name] = append(alerts[name], a)
		}
		for name, of := range alerts {
			if byService[name] == nil {
				byService[name] = &part{service: name}
			}
			n.Alerts = of
			byService[name].notes = append(byService[name].notes, n)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byService)) {
		s.parts = append(s.parts, *byService[name])
	}
	s.outside = len(outside)
	return s
}

func (s *selection) mention(a playbook.Alert, at time.Time) {
	e := s.episodes[a.Episode()]
	if e == nil {
		e = &episode{alert: a}
		s.episodes[a.Episode()] = e
	}
	e.last = at
	if a.Status == playbook.Resolved && e.resolved.IsZero() {
		e.resolved = at
		if !a.EndsAt.IsZero() {
			e.resolved = a.EndsAt
		}
	}
}

// Resolve finds the services that an alert is about, and says why when there is none
// or more than one.
type Resolve func(playbook.Alert) (services []playbook.Service, why string, err error)

// resolver asks once about the alerts of one fingerprint.
type resolver struct {
	resolve Resolve
	mu      sync.Mutex // guards found
	found   map[string]resolution
}

type resolution struct {
	services []playbook.Service
	why      string
	err      error
}

// Resolve implements dispatch.Services.
func (r *resolver) Resolve(a playbook.Alert) ([]playbook.Service, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, ok := r.found[a.Fingerprint]
	if !ok {
		f.services, f.why, f.err = r.resolve(a)
		r.found[a.Fingerprint] = f
	}
	return f.services, f.why, f.err
}

// name returns the name of the one service of an alert; empty: there is none.
func (r *resolver) name(a playbook.Alert) string {
	services, _, err := r.Resolve(a)
	if err != nil || len(services) != 1 {
		return ""
	}
	return services[0].Name
}

// first orders episodes by their beginning.
func first(a, b *episode) int {
	return cmp.Or(a.alert.StartsAt.Compare(b.alert.StartsAt), cmp.Compare(a.alert.Fingerprint, b.alert.Fingerprint))
}
