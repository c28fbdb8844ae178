// Package routing answers which receivers an alert reaches by a configuration of
// Alertmanager, and how. It reads what Alertmanager's API shows of its
// configuration: the tree of routes and the webhooks of receivers. Time intervals
// and inhibitions are left out: they depend on the time and on other alerts.
//
// Alertmanager's own package does the same, and brings the clients of all its
// receivers along. An end-to-end test compares the two by amtool.
package routing

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/alertmanager/pkg/labels"
	"go.yaml.in/yaml/v3"
)

// Config is what decides where alerts go.
type Config struct {
	root     *node
	webhooks map[string][]Webhook // of each receiver
}

// Webhook is one of a receiver.
type Webhook struct {
	URL          string // empty: Alertmanager hides it, or reads it from a file
	SendResolved bool
	MaxAlerts    int // 0: no limit
}

// Delivery is one way of an alert to a receiver.
type Delivery struct {
	Receiver string
	Webhooks []Webhook
	GroupBy  []string // labels of its groups; nil with ByAll
	ByAll    bool     // every alert is a group of its own
	Muted    []string // names of the intervals in which it is mute, or outside of which it is
}

// Keeps reports whether alerts that differ in a label are never in one group.
func (d Delivery) Keeps(label string) bool { return d.ByAll || slices.Contains(d.GroupBy, label) }

// node is a route, with what it inherits.
type node struct {
	receiver string
	matchers labels.Matchers
	groupBy  []string
	muted    []string
	goesOn   bool
	routes   []*node
}

// document is a configuration as it is written.
type document struct {
	Route     *route `yaml:"route"`
	Receivers []struct {
		Name     string `yaml:"name"`
		Webhooks []struct {
			URL          string `yaml:"url"`
			SendResolved *bool  `yaml:"send_resolved"`
			MaxAlerts    int    `yaml:"max_alerts"`
		} `yaml:"webhook_configs"`
	} `yaml:"receivers"`
}

type route struct {
	Receiver string            `yaml:"receiver"`
	GroupBy  []string          `yaml:"group_by"`
	Match    map[string]string `yaml:"match"`
	MatchRE  map[string]string `yaml:"match_re"`
	Matchers []string          `yaml:"matchers"`
	Continue bool              `yaml:"continue"`
	Mute     []string          `yaml:"mute_time_intervals"`
	Active   []string          `yaml:"active_time_intervals"`
	Routes   []*route          `yaml:"routes"`
}

// hidden is how Alertmanager's API shows what is secret.
const hidden = "<secret>"

// Parse reads a configuration.
func Parse(text string) (*Config, error) {
	var d document
	if err := yaml.Unmarshal([]byte(text), &d); err != nil {
		return nil, fmt.Errorf("read the configuration of Alertmanager: %w", err)
	}
	if d.Route == nil {
		return nil, errors.New("read the configuration of Alertmanager: it has no route")
	}
	c := &Config{webhooks: map[string][]Webhook{}}
	for _, r := range d.Receivers {
		list := []Webhook{}
		for _, w := range r.Webhooks {
			x := Webhook{URL: w.URL, SendResolved: w.SendResolved == nil || *w.SendResolved, MaxAlerts: w.MaxAlerts}
			if x.URL == hidden {
				x.URL = ""
			}
			list = append(list, x)
		}
		c.webhooks[r.Name] = list
	}
	var err error
	c.root, err = d.Route.node(&node{})
	return c, err
}

// node returns the route below its parent.
func (r *route) node(parent *node) (*node, error) {
	n := &node{receiver: r.Receiver, groupBy: r.GroupBy, goesOn: r.Continue, muted: append(slices.Clone(r.Mute), r.Active...)}
	if n.receiver == "" {
		n.receiver = parent.receiver
	}
	if n.groupBy == nil {
		n.groupBy = parent.groupBy
	}
	var err error
	if n.matchers, err = r.matchers(); err != nil {
		return nil, err
	}
	for _, child := range r.Routes {
		c, err := child.node(n)
		if err != nil {
			return nil, err
		}
		n.routes = append(n.routes, c)
	}
	return n, nil
}

func (r *route) matchers() (out labels.Matchers, err error) {
	for _, text := range r.Matchers {
		ms, err := labels.ParseMatchers(text)
		if err != nil {
			return nil, fmt.Errorf("read the matcher %q of a route: %w", text, err)
		}
		out = append(out, ms...)
	}
	add := func(kind labels.MatchType, of map[string]string) error {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			m, err := labels.NewMatcher(kind, name, of[name])
			if err != nil {
				return fmt.Errorf("read the match of a route on %s: %w", name, err)
			}
			out = append(out, m)
		}
		return nil
	}
	return out, errors.Join(add(labels.MatchEqual, r.Match), add(labels.MatchRegexp, r.MatchRE))
}

// Deliveries returns where an alert goes, in the order of the routes.
func (c *Config) Deliveries(alert map[string]string) []Delivery {
	var out []Delivery
	for _, n := range c.root.match(alert) {
		d := Delivery{Receiver: n.receiver, Webhooks: c.webhooks[n.receiver], Muted: n.muted}
		if d.ByAll = slices.Contains(n.groupBy, "..."); !d.ByAll {
			d.GroupBy = n.groupBy
		}
		out = append(out, d)
	}
	return out
}

// match returns the routes that take an alert: the deepest ones, and of siblings
// the first unless it goes on.
func (n *node) match(alert map[string]string) []*node {
	for _, m := range n.matchers {
		if !m.Matches(alert[m.Name]) {
			return nil
		}
	}
	var out []*node
	for _, r := range n.routes {
		found := r.match(alert)
		out = append(out, found...)
		if len(found) > 0 && !r.goesOn {
			break
		}
	}
	if len(out) == 0 {
		return []*node{n}
	}
	return out
}

// Receivers returns the names of the receivers that have webhooks, sorted.
func (c *Config) Receivers() []string {
	var out []string
	for name, list := range c.webhooks {
		if len(list) > 0 {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Webhooks returns the webhooks of a receiver.
func (c *Config) Webhooks(receiver string) []Webhook { return c.webhooks[receiver] }

// String returns a delivery for people.
func (d Delivery) String() string {
	by := strings.Join(d.GroupBy, ", ")
	if d.ByAll {
		by = "all labels"
	}
	return fmt.Sprintf("receiver %s, grouped by %s", d.Receiver, by)
}
