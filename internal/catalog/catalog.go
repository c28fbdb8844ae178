package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/alertmanager/pkg/labels"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

type matchers = labels.Matchers

// Lister finds the workloads that declare themselves services.
type Lister interface {
	// Marked returns the workloads of a namespace whose label [labelService] is true;
	// empty: of all namespaces.
	Marked(ctx context.Context, namespace, label string) ([]kube.Marked, error)
}

// Options of a catalog.
type Options struct {
	Entries    []Entry           // configured; they take precedence over discovered entries of the same name or workload
	Ceiling    playbook.Autonomy // highest level that an annotation may set
	Defaults   Defaults          // of discovered services; configured entries hold them already
	Lister     Lister            // nil: no discovery
	Namespaces []string          // where services are discovered; empty: everywhere
	Tenants    Tenants           // nil: an alert that names only a node belongs to no service
	Interval   time.Duration     // between refreshes; default one minute
	MaxAge     time.Duration     // maximum age of the cluster's last answer; default ten minutes
	Log        *slog.Logger      // nil: silent
}

// Catalog is the current set of services.
type Catalog struct {
	o       Options
	tenants tenants

	mu       sync.RWMutex       // guards the discovered entries
	all      []Entry            // configured and discovered
	services []playbook.Service // of all, sorted by name; replaced, never changed
	at       time.Time          // of the last successful refresh
	err      error              // of the last refresh
	notes    []string           // marked workloads that were not accepted, and why
}

// New returns a catalog of the configured entries. With a Lister, the services
// are unknown until the first [Catalog.Refresh].
func New(o Options) *Catalog {
	if o.Interval <= 0 {
		o.Interval = time.Minute
	}
	if o.MaxAge <= 0 {
		o.MaxAge = 10 * time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	all := slices.Clone(o.Entries)
	return &Catalog{o: o, tenants: tenants{source: o.Tenants}, all: all, services: servicesOf(all)}
}

// servicesOf returns the services of entries, sorted by name.
func servicesOf(all []Entry) []playbook.Service {
	out := make([]playbook.Service, 0, len(all))
	for _, e := range all {
		out = append(out, e.Service)
	}
	slices.SortFunc(out, func(a, b playbook.Service) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Run refreshes the discovered services until ctx ends.
func (c *Catalog) Run(ctx context.Context) error {
	if c.o.Lister == nil {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(c.o.Interval)
	defer tick.Stop()
	for {
		if err := c.Refresh(ctx); err != nil && ctx.Err() == nil {
			c.o.Log.Warn("discovery failed, keeping the last good catalog", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Refresh asks the cluster once. After a failure the last answer is kept until
// it is older than Options.MaxAge.
func (c *Catalog) Refresh(ctx context.Context) error {
	if c.o.Lister == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	marked, err := c.marked(ctx)
	if err != nil {
		err = fmt.Errorf("discover services: %w", err)
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
		return err
	}
	all, notes := c.merge(marked)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range notes {
		if !slices.Contains(c.notes, n) {
			c.o.Log.Warn("marked workload not accepted into the catalog", "why", n)
		}
	}
	c.all, c.services, c.at, c.err, c.notes = all, servicesOf(all), time.Now(), nil, notes
	return nil
}

// marked asks for the workloads of each namespace. Where one cannot be listed the answer
// is an error and not what the others have: a service that may be there is not missing.
func (c *Catalog) marked(ctx context.Context) ([]kube.Marked, error) {
	if len(c.o.Namespaces) == 0 {
		return c.o.Lister.Marked(ctx, "", labelService)
	}
	var out []kube.Marked
	for _, namespace := range c.o.Namespaces {
		found, err := c.o.Lister.Marked(ctx, namespace, labelService)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// merge appends discovered services to the configured ones, and omits those
// that a configured one already describes.
func (c *Catalog) merge(marked []kube.Marked) (all []Entry, notes []string) {
	all = slices.Clone(c.o.Entries)
	shared := map[string][]playbook.SLO{}
	for _, m := range marked {
		e, err := discovered(m, c.o.Ceiling)
		if err != nil {
			notes = append(notes, err.Error())
			continue
		}
		c.o.Defaults.into(&e.Service, shared)
		same := func(o Entry) bool {
			return o.Service.Name == e.Service.Name ||
				o.Service.Namespace == e.Service.Namespace && o.Service.Workload == e.Service.Workload
		}
		if i := slices.IndexFunc(all, same); i >= len(c.o.Entries) {
			notes = append(notes, fmt.Sprintf("%s has the name %q of %s; set %s on one of them", e.Source, e.Service.Name, all[i].Source, annotationName))
		} else if i < 0 {
			all = append(all, e)
		}
	}
	return all, notes
}

// Entries returns the services with their sources, or an error if the cluster's
// answer is too old to act on. A missing answer must not look like a missing service.
// Callers must not change the list.
func (c *Catalog) Entries() ([]Entry, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.o.Lister == nil || !c.at.IsZero() && time.Since(c.at) <= c.o.MaxAge {
		return c.all, nil
	}
	switch {
	case c.err != nil:
		return nil, c.err
	case c.at.IsZero():
		return nil, errors.New("discover services: not done yet")
	default:
		return nil, fmt.Errorf("discover services: the last answer of the cluster is too old: %s", c.at.UTC().Format(time.RFC3339))
	}
}

// Services returns the known services, sorted by name. Callers share the list and
// must not change it: the executor asks for it before every change.
func (c *Catalog) Services() []playbook.Service {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.services
}

// Known is Services, and an error if services may be missing from it: the cluster has
// not been asked yet, or its last answer is too old.
func (c *Catalog) Known() ([]playbook.Service, error) {
	_, err := c.Entries() // first: a list that is complete now is complete a moment later
	return c.Services(), err
}

// Missing returns what the catalog lacks for readiness, one line each.
func (c *Catalog) Missing() []string {
	if _, err := c.Entries(); err != nil {
		return []string{err.Error()}
	}
	return nil
}
