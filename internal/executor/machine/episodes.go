package machine

import (
	"encoding/json"
	"iter"
	"maps"
	"reflect"
	"slices"
)

// Episodes are the alerts of a run, by [playbook.Alert.Episode]. A value never
// changes, so that views may keep it. Ten thousand alerts may join one run, so
// [Episodes.With] does not copy all of them each time.
type Episodes struct {
	old, young map[string]*Episode // young hides what old has of the same key
	n          int
}

// EpisodesOf returns episodes. The caller no longer changes the map.
func EpisodesOf(m map[string]*Episode) Episodes { return Episodes{old: m, n: len(m)} }

// With returns the episodes with one more, or with another in its place. The
// young ones are copied, and become old when their square exceeds the number of
// the old.
func (e Episodes) With(id string, ep *Episode) Episodes {
	if e.Get(id) == nil {
		e.n++
	}
	young := maps.Clone(e.young)
	if young == nil {
		young = map[string]*Episode{}
	}
	young[id] = ep
	if len(young)*len(young) <= len(e.old) {
		e.young = young
		return e
	}
	old := make(map[string]*Episode, e.n)
	maps.Copy(old, e.old)
	maps.Copy(old, young)
	e.old, e.young = old, nil
	return e
}

// Without returns the episodes without one.
func (e Episodes) Without(id string) Episodes {
	m := maps.Collect(e.All())
	delete(m, id)
	return EpisodesOf(m)
}

// Len returns the number of episodes.
func (e Episodes) Len() int { return e.n }

// Get returns an episode; nil: there is none.
func (e Episodes) Get(id string) *Episode {
	if ep, ok := e.young[id]; ok {
		return ep
	}
	return e.old[id]
}

// All ranges over the episodes in no order.
func (e Episodes) All() iter.Seq2[string, *Episode] {
	return func(yield func(string, *Episode) bool) {
		for id, ep := range e.young {
			if !yield(id, ep) {
				return
			}
		}
		for id, ep := range e.old {
			if _, hidden := e.young[id]; !hidden && !yield(id, ep) {
				return
			}
		}
	}
}

// IDs returns the keys of the episodes, sorted.
func (e Episodes) IDs() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for id := range e.All() {
			if !yield(id) {
				return
			}
		}
	})
}

// MarshalJSON implements [json.Marshaler]: an object by the keys.
func (e Episodes) MarshalJSON() ([]byte, error) { return json.Marshal(maps.Collect(e.All())) }

// Equal reports whether both have the same episodes.
func (e Episodes) Equal(o Episodes) bool {
	return reflect.DeepEqual(maps.Collect(e.All()), maps.Collect(o.All()))
}
