package sandbox

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/promql"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// World is a simulated cluster with the Prometheus and the Alertmanager that
// watch it. It is safe for concurrent use.
type World struct {
	clock    *Clock
	scenario scenario
	start    time.Time
	promql   *promql.Engine
	store    *store
	watch    watch
	file     string    // the world is kept there; empty: nowhere
	earlier  []earlier // worlds that others followed, the newest last

	mu       sync.Mutex // guards what follows; taken before the store's
	at       time.Time  // simulated up to here
	fleets   []*fleet
	nodes    []*node
	exporter *exporter
	loads    loads
	git      branch   // of the services in Git; empty: none is
	kept     kept     // what stands in file
	followed bool     // by another world, which is what stands in file
	replay   []change // made before the world was resumed, still to come
}

const (
	// tick is the length of a simulated step; scrape is a multiple of it.
	tick = 5 * time.Second
	// history is how much of the past a world opens with: the longest window of
	// the burn-rate rules, and a little.
	history = 6*time.Hour + 30*time.Minute
	// retention is how much of it a world keeps while it runs.
	retention = history + time.Hour
)

// New opens the world of a scenario at the clock's present moment: the incident
// has been going on long enough for its alert to fire. An unknown name is an
// error that lists the known ones.
func New(name string, clock *Clock) (*World, error) {
	sc, err := find(name)
	if err != nil {
		return nil, err
	}
	return build(sc, clock, clock.Now(), nil), nil
}

// build creates the world that opened at start, replays its changes, and advances
// it to the clock's present.
func build(sc scenario, clock *Clock, start time.Time, changes []change) *World {
	start = start.UTC().Round(0)
	w := &World{replay: changes, clock: clock, scenario: sc, start: start, store: newStore(), promql: newPromQL()}
	w.exporter, w.nodes = newExporter(w.store), newNodes(sc, start)
	w.at = start.Add(-history).Truncate(scrape)
	for i := range sc.services {
		spec := &sc.services[i]
		rng := hash(sc.seed ^ nameHash(spec.service.Name))
		f := newFleet(spec, i, start, rng)
		w.fleets = append(w.fleets, f)
		if spec.warm != nil {
			w.fleets = append(w.fleets, f.keepWarm(start, hash(sc.seed^nameHash(warmName(f.ref.Name)))))
		}
	}
	w.firstCommits()
	for _, f := range w.fleets {
		for range f.replicas {
			f.create(w.at.Add(-time.Hour), w.place)
		}
		f.events = nil
	}
	w.watch.init(w)
	w.advance()
	return w
}

// Scenario is the incident.
func (w *World) Scenario() Scenario { return w.scenario.Scenario }

// Clock is the world's time.
func (w *World) Clock() *Clock { return w.clock }

// Started is the moment the world was opened.
func (w *World) Started() time.Time { return w.start }

// Incident is the moment the incident began.
func (w *World) Incident() time.Time { return w.start.Add(-w.scenario.age) }

// Services are the catalog's entries, the one with the incident first.
func (w *World) Services() []playbook.Service {
	var out []playbook.Service
	for _, f := range w.fleets {
		if f.of != nil {
			continue
		}
		s := f.spec.service
		s.SLOs, s.Owners = slices.Clone(s.SLOs), slices.Clone(s.Owners)
		out = append(out, s)
	}
	return out
}

// advance simulates up to now.
func (w *World) advance() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
}

func (w *World) advanceLocked() {
	now := w.clock.Now()
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	for next := w.at.Add(tick); !next.After(now); next = next.Add(tick) {
		for len(w.replay) > 0 && w.replay[0].At.Before(next) {
			w.apply(w.replay[0])
			w.replay = w.replay[1:]
		}
		w.simulate(next)
		w.at = next
	}
}

// simulate advances the world to the moment at: releases, controllers, requests
// since the previous step, and the scrape when one is due.
func (w *World) simulate(at time.Time) {
	for _, f := range w.fleets {
		for _, r := range f.spec.revisions {
			if due := w.start.Add(-r.age); due.After(at.Add(-tick)) && !due.After(at) {
				w.released(f, r, due)
			}
		}
		for _, c := range f.spec.scaled {
			if due := w.start.Add(c.at); due.After(at.Add(-tick)) && !due.After(at) {
				w.scaled(f, c.replicas, due)
			}
		}
		w.deploy(f, at)
		f.autoscale(at)
		f.control(at, w.place)
		w.drag(f, at)
		f.serve(at, w.start, tick)
	}
	w.loads.note(at, w.fleets)
	if at.Equal(at.Truncate(scrape)) {
		w.exporter.scrape(at, w.fleets)
		w.exporter.diagnoses(at, w.scenario.nodes, w.start)
	}
	if at.Equal(at.Truncate(time.Hour)) {
		w.store.trim(at.Add(-retention))
	}
}

// place returns a node for a pod: the emptiest, in the scenario's order; empty
// when all are full or cordoned.
func (w *World) place() string {
	used := map[string]int{}
	for _, f := range w.fleets {
		for _, p := range slices.Concat(f.pods, f.apart) {
			used[p.node]++
		}
	}
	best, free := "", 0
	for _, n := range w.nodes {
		if left := n.spec.slots - used[n.spec.name]; left > free && n.takesPods() {
			best, free = n.spec.name, left
		}
	}
	return best
}

// fleet returns a workload. The caller holds mu.
func (w *World) fleet(ref kube.Ref) *fleet {
	for _, f := range w.fleets {
		if f.ref == ref {
			return f
		}
	}
	return nil
}
