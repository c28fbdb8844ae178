package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/guard"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/policy"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// rulesPoll is how often the policy file is read. It is small, and a mounted
// ConfigMap changes by the swap of a link, which a look at the content sees.
const rulesPoll = 2 * time.Second

// rulesSettle is the time between the two readings that a change takes: half of
// a file that is being written may be a good policy with fewer rules.
const rulesSettle = 250 * time.Millisecond

// allowsRules refuses rules that name what is not configured.
type allowsRules func(file string, set *policy.Set) error

// rules holds the policy in force and follows its file. Where none is
// configured nothing is held and nothing asked. A file that is bad at the start
// keeps the service from starting; later the last good rules stay.
type rules struct {
	file    string
	allows  allowsRules
	log     *slog.Logger
	current atomic.Pointer[policy.Set]

	// Of the goroutine that follows the file.
	seen     []byte                 // content last taken up
	read     string                 // content of the look before, or why it could not be read
	said     string                 // the last rejection, so that each is recorded once
	recorded string                 // digest that the journal knows as the one in force
	removed  executor.PolicyRemoved // none is configured, and this one was in force
	bad      atomic.Bool            // the file could not be loaded when it was last looked at
}

// policyRecords is where it is recorded what became of the file. Ready returns
// nil once records can be written.
type policyRecords interface {
	Ready() error
	RecordPolicy(executor.PolicyLoaded) error
	RejectPolicy(source string, problems error) error
	RemovePolicy(executor.PolicyRemoved) error
}

func newRules(file string, journal *audit.Journal, allows allowsRules, log *slog.Logger) (*rules, error) {
	r := &rules{file: file, allows: allows, log: log}
	last, err := lastPolicy(journal)
	if err != nil {
		return nil, err
	}
	if file == "" {
		r.removed = executor.PolicyRemoved{Digest: last.Digest, Source: last.Source}
		return r, nil
	}
	set, data, err := readRules(file, allows)
	if err != nil {
		return nil, fmt.Errorf("load policy: %w", err)
	}
	r.recorded, r.seen = last.Digest, data
	r.current.Store(set)
	return r, nil
}

// readRules reads and compiles a policy and checks what it names.
func readRules(file string, allows allowsRules) (*policy.Set, []byte, error) {
	data, err := readPolicyFile(file)
	if err != nil {
		return nil, nil, err
	}
	set, err := compileRules(file, data, allows)
	return set, data, err
}

func compileRules(file string, data []byte, allows allowsRules) (*policy.Set, error) {
	set, err := policy.Compile(file, data, kinds.Declarations())
	if err == nil {
		err = allows(file, set)
	}
	return set, err
}

// lastPolicy is the policy that came into force last; the zero value when there
// was none, or it was removed since.
func lastPolicy(journal *audit.Journal) (executor.PolicyLoaded, error) {
	var last executor.PolicyLoaded
	for rec, err := range journal.Stream(controlStream, 0) {
		if err != nil {
			return last, err
		}
		switch rec.Kind {
		case executor.KindPolicyRemoved:
			last = executor.PolicyLoaded{}
		case executor.KindPolicyLoaded:
			last = executor.PolicyLoaded{}
			if err := json.Unmarshal(rec.Data, &last); err != nil {
				return last, fmt.Errorf("entry %d of the journal: %w", rec.Seq, err)
			}
		}
	}
	return last, nil
}

// policy is what the executor asks; nil where no policy is configured.
func (r *rules) policy() guard.Policy {
	if r.file == "" {
		return nil
	}
	return r
}

// follow puts what is in the file in force until ctx is done.
func (r *rules) follow(ctx context.Context, to policyRecords) error {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-ctx.Done():
			return nil
		}
		wait := rulesPoll
		switch {
		case to.Ready() != nil: // the record should stand before what the rules are used for
			wait = rulesSettle
		case r.file == "":
			if r.gone(to) {
				<-ctx.Done()
				return nil
			}
		case !r.look(to):
			wait = rulesSettle
		}
		next.Reset(wait)
	}
}

// gone records that the policy which was in force is configured no more. It
// reports whether nothing is left to record.
func (r *rules) gone(to policyRecords) bool {
	if r.removed.Digest == "" {
		return true
	}
	r.log.Error("the policy is gone: none is configured, and what it forbade or asked for does not hold any more; was that meant?",
		"file", r.removed.Source, "digest", r.removed.Digest)
	if !r.keep(to.RemovePolicy(r.removed)) {
		return false
	}
	r.removed = executor.PolicyRemoved{}
	return true
}

// figures are the gauges of the policy: whether one is in force, and whether
// what its file says now could not be loaded.
func (r *rules) figures() (inForce, bad bool) { return r.file != "", r.bad.Load() }

// look takes up what has changed in the file, once two looks have read the same;
// false: another look is needed soon.
func (r *rules) look(to policyRecords) (settled bool) {
	data, err := readPolicyFile(r.file)
	if err == nil && bytes.Equal(data, r.seen) && r.recorded == r.current.Load().Digest() {
		r.said, r.read = "", string(data)
		r.bad.Store(false)
		return true
	}
	read := string(data)
	if err != nil {
		read = err.Error()
	}
	again := read == r.read
	r.read = read
	// What is in force since the start has been read before.
	if !again && !bytes.Equal(data, r.seen) {
		return false
	}
	var set *policy.Set
	if err == nil {
		set, err = compileRules(r.file, data, r.allows)
	}
	r.bad.Store(err != nil)
	switch {
	case err != nil && err.Error() == r.said:
	case err != nil:
		r.log.Warn("policy rejected, the last good rules stay", "file", r.file, "err", err)
		if r.keep(to.RejectPolicy(r.file, err)) {
			r.said = err.Error()
		}
	default:
		r.said, r.seen = "", data
		r.current.Store(set)
		r.log.Info("policy loaded", "file", r.file, "rules", len(set.Rules()), "digest", set.Digest())
		if r.keep(to.RecordPolicy(executor.PolicyLoaded{Digest: set.Digest(), Source: r.file, Document: string(data)})) {
			r.recorded = set.Digest()
		}
	}
	return true
}

// keep reports whether the journal took a record; else it is tried again.
func (r *rules) keep(err error) bool {
	if err != nil {
		r.log.Error("the journal did not take what became of the policy", "file", r.file, "err", err)
	}
	return err == nil
}

// Terms asks the rules in force about a lever or a gate state.
func (r *rules) Terms(in guard.PolicyInput) (machine.Terms, machine.GuardVerdict) {
	result := r.current.Load().Evaluate(policyInput(in))
	return result.Terms, result.Verdict
}

// policyInput is a lever or a gate state as the rules see it.
func policyInput(in guard.PolicyInput) policy.Input {
	s := in.Run
	out := policy.Input{
		Now: in.Now, Service: s.Start.Service, Playbook: s.Playbook, State: in.State, Autonomy: s.Autonomy(in.State),
		Run:   policy.Run{ID: s.Start.Run, By: s.Start.By, Began: s.Began, Levers: s.Levers, Kept: s.Kept, Asked: s.Asked, Alerts: alertsOf(s)},
		Count: func(c policy.Count) (int, bool) { return countActs(in, c) },
		Taken: in.Taken,
	}
	for _, o := range in.Others {
		out.Others = append(out.Others, policy.Other{Name: o.String(), Service: o.Entry, Autonomy: min(out.Autonomy, o.Autonomy), Capacity: costs(s.Lever, o.Touched)})
	}
	if l := s.Lever; l != nil {
		out.With, out.Plan = l.With, l.Plan
	}
	if d := s.Consent().Approved; d != nil {
		out.Actor = policy.Actor{Name: d.By, Channel: d.Channel}
		for _, g := range d.Groups {
			out.Actor.Groups = append(out.Actor.Groups, strings.TrimPrefix(g, "group:"))
		}
	}
	return out
}

// costs returns what the lever costs a service, or the workloads of no service in a
// namespace; none: nothing.
func costs(l *machine.Lever, t machine.Touched) []machine.Capacity {
	var out []machine.Capacity
	for _, a := range slices.Concat(l.Plan.Others, l.Plan.Rest) {
		if t.Service != "" && a.Service == t.Service || t.Service == "" && a.Namespace == t.Namespace {
			out = append(out, a.Capacity)
		}
	}
	return out
}

func countActs(in guard.PolicyInput, c policy.Count) (int, bool) {
	acts := guard.Acts{Service: c.Service, Playbook: c.Playbook, Since: c.Since}
	switch c.What {
	case "levers":
	case "runs":
		acts.Runs = true
	default:
		return 0, false
	}
	return in.Count(acts)
}

// alertsOf returns the alerts of a run in a fixed order.
func alertsOf(s machine.State) []playbook.Alert {
	out := make([]playbook.Alert, 0, s.Episodes.Len())
	for _, id := range s.Episodes.IDs() {
		out = append(out, s.Episodes.Get(id).Alert)
	}
	return out
}

// LoadPolicy reads and compiles a policy file.
func LoadPolicy(file string) (*policy.Set, error) {
	data, err := readPolicyFile(file)
	if err != nil {
		return nil, err
	}
	return policy.Compile(file, data, kinds.Declarations())
}

// LoadPolicyTable reads a file of tests.
func LoadPolicyTable(file string) (*policy.Table, error) {
	data, err := readPolicyFile(file)
	if err != nil {
		return nil, err
	}
	return policy.CompileTable(file, data, kinds.Declarations())
}

func readPolicyFile(file string) ([]byte, error) {
	data, err := readDocument("policy", file)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; name a file that is there (policy.file counts from the configuration's directory)", err)
	}
	return data, err
}
