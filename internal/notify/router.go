package notify

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/inference-responder/responder/internal/fault"
)

// Options configure a [Router].
type Options struct {
	Channels []Member

	// AnyName makes the default channels stand for every name that is not
	// configured, without an error: nothing is configured in the sandbox.
	AnyName bool

	Log *slog.Logger
}

// Member is a channel with its configured name.
type Member struct {
	Name    string
	Default bool // gets every notice that names no channel
	Channel Channel
}

// Router passes notices to channels. It is safe for concurrent use.
type Router struct {
	members  []Member
	defaults []string
	anyName  bool
	log      *slog.Logger

	mu   sync.Mutex // guards told and keys
	told map[string][]string
	keys []string // of told, oldest first
}

// maxTold is how many notices are remembered, so that a notice that some
// channels took is tried again only where it is missing.
const maxTold = 1000

// New returns a router. Nothing connects.
func New(o Options) *Router {
	r := &Router{members: o.Channels, anyName: o.AnyName, log: o.Log, told: map[string][]string{}}
	for _, m := range o.Channels {
		if m.Default {
			r.defaults = append(r.defaults, m.Name)
		}
	}
	return r
}

// Notify tells every channel that the notice is for, all at once, and the log.
func (r *Router) Notify(ctx context.Context, n Notice) error {
	r.log.Info("notification", "run", n.Run, "playbook", n.Playbook, "step", n.State, "text", n.Text)
	names := r.recipients(n)
	failures := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		if r.has(n.Key, name) {
			continue
		}
		all.Go(func() {
			if failures[i] = r.channel(name).Tell(ctx, n); failures[i] == nil {
				r.remember(n.Key, name)
			}
		})
	}
	all.Wait()
	return notTold(names, failures)
}

// Knows reports whether a channel of that name is configured. A nil router has
// none.
func (r *Router) Knows(name string) bool { return r != nil && r.channel(name) != nil }

// RefuseUnknown refuses what names channels that are not configured, one problem
// each. A router for any name warns instead that a service will refuse it.
func (r *Router) RefuseUnknown(problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	if r == nil || !r.anyName {
		return errors.New(strings.Join(problems, "\n"))
	}
	for _, problem := range problems {
		r.log.Warn("the log stands for a channel that is not configured; a service refuses this", "err", problem)
	}
	return nil
}

func (r *Router) channel(name string) Channel {
	for _, m := range r.members {
		if m.Name == name {
			return m.Channel
		}
	}
	return nil
}

// recipients returns the names of the channels that a notice is for.
func (r *Router) recipients(n Notice) []string {
	var names []string
	for _, name := range n.To {
		if r.Knows(name) {
			names = append(names, name)
			continue
		}
		if !r.anyName {
			r.log.Error("channel is not configured, the default ones are told", "run", n.Run, "step", n.State, "err", "no channel "+name)
		}
		names = append(names, r.defaults...)
	}
	if len(n.To) == 0 {
		names = slices.Clone(r.defaults)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// notTold joins the failures. Its reason is one that allows another attempt if
// any failure does.
func notTold(names []string, failures []error) error {
	var reason fault.Reason
	var lines []string
	for i, err := range failures {
		if err == nil {
			continue
		}
		lines = append(lines, names[i]+": "+err.Error())
		var e *fault.Error
		why := fault.ServerError
		if errors.As(err, &e) {
			why = e.Reason
		}
		if reason == fault.None || why.Retryable() {
			reason = why
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return &fault.Error{Reason: reason, Message: "not told: " + strings.Join(lines, "; ")}
}

func (r *Router) has(key, name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return key != "" && slices.Contains(r.told[key], name)
}

func (r *Router) remember(key, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told[key] == nil {
		r.keys = append(r.keys, key)
	}
	r.told[key] = append(r.told[key], name)
	if len(r.keys) > maxTold {
		delete(r.told, r.keys[0])
		r.keys = r.keys[1:]
	}
}
