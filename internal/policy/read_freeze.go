package policy

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/yamldoc"
)

func (r *reader) freeze(m *yamldoc.Mapping) effect {
	f := freeze{}
	zone := m.Text("zone")
	if n := m.Get("zone"); n != nil && zone != "" {
		var err error
		if f.zone, err = loadZone(zone); err != nil {
			m.Doc.Report(n, m.At("zone"), err.Error(), "")
		}
	}
	if !m.Has("weekly") && !m.Has("dates") {
		m.Doc.Report(m.Node, m.Path, "no times", "set weekly or dates")
	}
	if n := m.Get("weekly"); n != nil {
		m.Need("zone", "the time zone of weekly, e.g. Europe/Berlin")
		each(m, "weekly", func(wm *yamldoc.Mapping) { f.weekly = append(f.weekly, r.weekly(wm, zone)...) }, "days", "from", "to")
	}
	each(m, "dates", func(dm *yamldoc.Mapping) {
		from, to := moment(dm, "from"), moment(dm, "to")
		if !from.IsZero() && !to.IsZero() && !from.Before(to) {
			dm.Doc.Report(dm.Get("to"), dm.At("to"), "is not after from", "")
		}
		f.dates = append(f.dates, dates{from: from, to: to})
	}, "from", "to")
	return f
}

// each reads a list of mappings.
func each(m *yamldoc.Mapping, key string, read func(*yamldoc.Mapping), allowed ...string) {
	n := m.Get(key)
	if n == nil {
		return
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		m.Doc.Report(n, m.At(key), "want a list with at least one entry, got "+yamldoc.Describe(n), "")
		return
	}
	for i, item := range n.Content {
		if im := m.Doc.Mapping(item, fmt.Sprintf("%s[%d]", m.At(key), i), allowed...); im != nil {
			read(im)
		}
	}
}

func (r *reader) weekly(m *yamldoc.Mapping, zone string) []weekly {
	var days []int
	if n := m.Get("days"); n != nil {
		words, nodes := m.Doc.Texts(n, m.At("days"))
		if len(n.Content) == 0 && n.Kind == yaml.SequenceNode {
			m.Doc.Report(n, m.At("days"), "empty", "remove the field for every day")
		}
		for i, w := range words {
			day, err := dayOf(w)
			if err != nil {
				m.Doc.Report(nodes[i], m.At("days"), err.Error(), yamldoc.DidYouMean(w, weekdays()))
				continue
			}
			days = append(days, day)
		}
	}
	before := m.Need("from", timeForm) != nil
	if m.Need("to", timeForm) == nil || !before {
		return nil
	}
	from, to := m.Text("from"), m.Text("to")
	if from == "" || to == "" {
		return nil
	}
	out, err := windows(days, from, to, zone)
	if err != nil {
		m.Doc.Report(m.Node, m.Path, err.Error(), timeForm)
	}
	return out
}

// moment reads a required point in time; zero after a problem.
func moment(m *yamldoc.Mapping, key string) time.Time {
	n := m.Need(key, "like 2026-12-24T00:00:00+01:00")
	if n == nil {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		m.Doc.Report(n, m.At(key), "want a moment with its zone, got "+yamldoc.Describe(n), "like 2026-12-24T00:00:00+01:00")
		return time.Time{}
	}
	return t
}
