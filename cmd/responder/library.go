package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// library holds the playbooks in force: those of a directory, which it watches,
// or those that ship with the program. A load that fails changes nothing but
// the metric and the journal: the last good set stays, and a run finishes with
// the playbook it started with.
type library struct {
	dir     string
	reject  func(source string, problems error) error // records in the journal that a load failed
	log     *slog.Logger
	current atomic.Pointer[playbook.Set]
}

// newLibrary loads the first set. When the service starts there is no last
// good one, so that a bad file is an error.
func newLibrary(dir string, log *slog.Logger) (*library, error) {
	set, err := loadPlaybooks(dir)
	if err != nil {
		return nil, fmt.Errorf("load playbooks:\n%w", err)
	}
	l := &library{dir: dir, log: log}
	l.current.Store(set)
	l.tell(set)
	return l, nil
}

// set gives the playbooks in force.
func (l *library) set() *playbook.Set { return l.current.Load() }

// step is the lever or check of a state; empty when there is no such state now.
func (l *library) step(name, state string) string {
	pb := l.set().ByName(name)
	if pb == nil {
		return ""
	}
	if s := pb.State(state); s != nil {
		return s.Step
	}
	return ""
}

// run follows the directory until ctx is done.
func (l *library) run(ctx context.Context) error {
	if info, err := os.Stat(l.dir); l.dir == "" || err == nil && !info.IsDir() {
		<-ctx.Done() // the shipped ones, or one file of a dry run
		return nil
	}
	return playbook.Watch(ctx, l.dir, step.Kinds(), func(set *playbook.Set, err error) { l.replace(set, err) })
}

// replace puts a set in force, or records why it could not be.
func (l *library) replace(set *playbook.Set, err error) {
	if err != nil {
		l.log.Warn("playbooks rejected, the last good set stays", "dir", l.dir, "error", err)
		if err := l.reject(l.dir, err); err != nil {
			l.log.Error("playbooks rejected, and the journal did not take it", "error", err)
		}
		return
	}
	if set.Digest() == l.set().Digest() {
		return
	}
	l.current.Store(set)
	l.tell(set)
}

func (l *library) tell(set *playbook.Set) {
	l.log.Info("playbooks loaded", "dir", l.dir, "playbooks", len(set.All()), "digest", set.Digest())
	for _, w := range set.Warnings() {
		l.log.Warn("playbook warning", "problem", w.String())
	}
}
