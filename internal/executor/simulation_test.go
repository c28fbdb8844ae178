package executor

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/guard"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "simulate this seed only")
	simSeeds = flag.Uint64("sim.seeds", 300, "simulate so many seeds")
	simFrom  = flag.Uint64("sim.from", 1, "the first of them")
)

var simServices = []string{"a", "b", "c", "d"}

// TestSimulation runs whole executors through random incidents: several services
// that share a lock, several playbooks, alerts that join, resolve and refire,
// people, reloads, a clock that is set, a faulty world, a full journal and crashes,
// all in virtual time. A
// failure names its seed: go test -run TestSimulation -sim.seed=N.
func TestSimulation(t *testing.T) {
	from, n := *simFrom, *simSeeds
	if *simSeed != 0 {
		from, n = *simSeed, 1
	}
	counts := &simCounts{seen: map[string]int{}}
	for seed := from; seed < from+n; seed++ {
		synctest.Test(t, func(t *testing.T) { simulate(t, seed, counts) })
		if t.Failed() {
			t.Fatalf("seed %d failed; replay it with -run TestSimulation -sim.seed=%d", seed, seed)
		}
	}
	t.Logf("%d seeds; seen: %v", n, counts.seen)
	for _, what := range []string{"attempts", string(machine.GuardsWaiting), "observed " + string(machine.ActionApply), string(machine.Undone), string(machine.Kept), "joined another playbook", "looked again", "stepped", "people have it"} {
		if counts.seen[what] == 0 && n >= 100 {
			t.Errorf("no %s in %d seeds: the simulation proves nothing about it", what, n)
		}
	}
}

// simCounts counts over all seeds.
type simCounts struct {
	mu   sync.Mutex     // guards the rest
	seen map[string]int // what happened
}

// simulation is one seed.
type simulation struct {
	*rig

	seed   uint64
	rnd    *rand.Rand
	began  time.Time
	w      *simWorld
	rules  *simRules
	counts *simCounts
	sets   []*playbook.Set

	full    atomic.Bool
	live    atomic.Pointer[playbook.Set] // the set in force
	crashIn atomic.Int64                 // failpoints until a crash; 0: none is due

	crashAtChange atomic.Int64 // crashIn once a change is under way

	alerts  []playbook.Alert   // all that ever fired, in their last form
	waiting [][]playbook.Alert // notifications that the journal did not take
	posted  int
	ended   map[string]bool // episodes that resolved, whatever came then

	mu     sync.Mutex // guards the rest
	calls  int        // of people, that have not returned
	pauses map[Scope]time.Time
	log    []string
	out    map[string]bool // attempts at changes that went out
}

func simulate(t *testing.T, seed uint64, counts *simCounts) {
	s := &simulation{seed: seed, rnd: rand.New(rand.NewPCG(seed, 14)), began: time.Now(), counts: counts, pauses: map[Scope]time.Time{}, out: map[string]bool{}, ended: map[string]bool{}, rules: &simRules{lowered: map[string]time.Time{}}}
	s.rig = newRig(t)
	j, err := audit.Open(filepath.Join(t.TempDir(), "journal.db"), audit.Options{NoSync: true, Failpoint: func(name string) error {
		if s.full.Load() && name == "before-commit" {
			return syscall.ENOSPC
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := s.journal.Close(); err != nil {
		t.Fatal(err)
	}
	s.journal = j
	s.sets = simSets(t)
	s.live.Store(s.sets[0])
	s.w = newSimWorld(s, seed, s.rnd)
	s.made = func(e *Executor) { // the same ids in each replay
		var key [32]byte
		binary.LittleEndian.PutUint64(key[:], seed)
		binary.LittleEndian.PutUint64(key[8:], uint64(s.elapsed()))
		e.ids.entropy = ulid.Monotonic(rand.NewChaCha8(key), 0)
		e.saveEvery = 1 + int(seed%40)
	}
	s.options = func(o *Options) {
		o.Playbooks = s.live.Load
		o.Now, o.Policy = s.rules.now, s.rules
		o.Steps, o.Failpoint, o.Services, o.Catalog = s.w, s.failpoint, s.rules, s.rules.known
		o.Window = 10 * time.Minute
		o.Guards = guard.Config{EvidenceAge: 10 * time.Minute, Cooldown: time.Minute, Concurrency: guard.Concurrency{Levers: 3, LeversPerService: 1}}
	}
	s.start()
	for range 45 {
		s.step()
		s.keepUp()
		s.oneRun()
	}
	s.finish()
	s.check()
	if t.Failed() && testing.Verbose() {
		t.Logf("what happened:\n%s", strings.Join(s.log, "\n"))
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

// simSets are versions of the playbooks: people edit them while runs are open.
func simSets(t *testing.T) []*playbook.Set {
	var out []*playbook.Set
	for _, autonomy := range []string{"auto", "suggest"} {
		out = append(out, loadSet(t, func(text string) string {
			first, _, _ := strings.Cut(text, "\n---\n")
			hot := strings.Replace(strings.Replace(first, "name: ladder,", "name: hot,", 1), `alertname="Slow"`, `alertname="Hot"`, 1)
			hot = strings.Replace(hot, "      with: {to: '${look.value + 1}'}\n", "      with: {to: '${look.value + 1}'}\n      step: {by: 1, times: 3}\n", 1)
			return text + "\n---\n" + strings.Replace(hot, "autonomy: auto", "autonomy: "+autonomy, 1)
		}))
	}
	return out
}

func simCatalog() services {
	out := services{}
	for _, name := range simServices {
		out[name] = playbook.Service{Name: name, Autonomy: playbook.Auto, Owners: []string{"user:ada", "group:sre"}, Selector: `service="x"`}
	}
	return out
}

func (s *simulation) elapsed() time.Duration { return time.Since(s.began) }

func (s *simulation) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf("%10s ", s.elapsed().Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// violated reports that an oracle does not hold.
func (s *simulation) violated(oracle, format string, args ...any) {
	s.t.Errorf("seed %d after %s: %s: %s", s.seed, s.elapsed(), oracle, fmt.Sprintf(format, args...))
}

func (s *simulation) failpoint(string) error {
	if s.crashIn.Load() > 0 && s.crashIn.Add(-1) == 0 {
		return errCrash
	}
	return nil
}

// step is one thing that happens.
func (s *simulation) step() {
	switch n := s.rnd.IntN(100); {
	case n < 18:
		s.fires()
	case n < 26:
		s.resolves()
	case n < 30:
		s.repeats()
	case n < 42:
		s.decides()
	case n < 45:
		s.cancels()
	case n < 49:
		s.setsPause()
	case n < 52:
		s.unpauses()
	case n < 54:
		s.startsByHand()
	case n < 58:
		s.settlesHeld()
	case n < 60:
		s.w.foreign(simServices[s.rnd.IntN(len(simServices))])
		s.note("somebody else changes a service")
	case n < 62:
		s.live.Store(s.sets[s.rnd.IntN(len(s.sets))])
		s.note("playbooks are loaded")
	case n < 64:
		s.full.Store(true)
		s.note("the journal is full")
	case n < 67:
		s.crashIn.Store(int64(1 + s.rnd.IntN(12)))
		s.note("a crash is due")
	case n < 70:
		s.crashAtChange.Store(int64(1 + s.rnd.IntN(3)))
		s.note("a crash is due at the next change")
	case n < 72:
		s.restarts()
	case n < 76:
		s.reconfigures()
	}
	wait := []time.Duration{0, 100 * time.Millisecond, time.Second, 5 * time.Second, 20 * time.Second, time.Minute, 3 * time.Minute, 6 * time.Minute}
	s.pass(wait[s.rnd.IntN(len(wait))])
	if s.full.Load() && s.rnd.IntN(3) == 0 {
		s.full.Store(false)
		s.note("the journal has space")
	}
}

// keepUp starts a crashed executor again, and delivers what was refused.
func (s *simulation) keepUp() {
	for s.e.err() != nil {
		s.crashIn.Store(0)
		s.full.Store(false)
		s.crashed()
		s.note("it crashed and starts again")
		s.pass(3 * time.Second) // the journal retries after a full disk
		if s.rnd.IntN(4) == 0 {
			s.crashIn.Store(int64(1 + s.rnd.IntN(6)))
		}
		s.start()
	}
	if s.full.Load() {
		return
	}
	for len(s.waiting) > 0 && s.admit(s.waiting[0]) {
		s.waiting = s.waiting[1:]
	}
}

// admit appends a notification, as the receiver does.
func (s *simulation) admit(alerts []playbook.Alert) bool {
	n := playbook.Notification{Receiver: "responder", Version: "4", Status: playbook.Firing, GroupKey: "{}", Alerts: alerts, ReceivedAt: s.rules.now().UTC()}
	_, err := s.journal.Append(context.Background(), audit.Append{
		Stream: dispatch.StreamIntake, After: audit.Any, Records: []audit.Record{{Kind: "notification", Data: n.AppendJSON(nil)}},
	})
	if err == nil {
		s.posted++
	}
	synctest.Wait()
	return err == nil
}

func (s *simulation) notify(alerts ...playbook.Alert) {
	for _, a := range alerts {
		s.note("alert %s of %s is %s", a.Fingerprint, a.Labels["service"], a.Status)
	}
	s.waiting = append(s.waiting, alerts)
	for len(s.waiting) > 0 && s.admit(s.waiting[0]) {
		s.waiting = s.waiting[1:]
	}
}

func (s *simulation) fires() {
	var group []playbook.Alert
	for range 1 + s.rnd.IntN(3) {
		name := []string{"Slow", "Slow", "Hot", "Ask", "Unknown"}[s.rnd.IntN(5)]
		a := alertOf(name, simServices[s.rnd.IntN(len(simServices))])
		a.Fingerprint += fmt.Sprint("-", s.rnd.IntN(2))
		if slices.ContainsFunc(s.alerts, func(x playbook.Alert) bool { return x.Fingerprint == a.Fingerprint && x.Status == playbook.Firing }) {
			continue
		}
		s.alerts = append(s.alerts, a)
		group = append(group, a)
	}
	if len(group) > 0 {
		s.notify(group...)
	}
}

// resolves ends an alert, or begins it again under the same episode.
func (s *simulation) resolves() {
	if len(s.alerts) == 0 {
		return
	}
	a := &s.alerts[s.rnd.IntN(len(s.alerts))]
	if a.Status == playbook.Firing {
		*a = resolvedOf(*a)
		s.ended[a.Episode()] = true
	} else {
		a.Status, a.EndsAt = playbook.Firing, time.Time{}
	}
	s.notify(*a)
}

func (s *simulation) repeats() {
	if len(s.alerts) > 0 {
		s.notify(s.alerts[s.rnd.IntN(len(s.alerts))])
	}
}

// call is what a person does. It may take as long as the journal is full.
func (s *simulation) call(what string, do func(ctx context.Context) error) {
	s.note("%s", what)
	s.mu.Lock()
	s.calls++
	s.mu.Unlock()
	go func() {
		err := do(context.Background())
		s.note("%s: %v", what, err)
		s.mu.Lock()
		s.calls--
		s.mu.Unlock()
	}()
	synctest.Wait()
}

// open returns a random open run that passes.
func (s *simulation) openRun(passes func(machine.State) bool) (machine.State, bool) {
	if s.full.Load() {
		return machine.State{}, false // views may wait for the journal
	}
	runs := slices.DeleteFunc(s.e.Runs(Filter{Open: new(true)}), func(r machine.State) bool { return !passes(r) })
	if len(runs) == 0 {
		return machine.State{}, false
	}
	return runs[s.rnd.IntN(len(runs))], true
}

func (s *simulation) command(r machine.State, what string, c machine.Command) {
	e := s.e
	s.call(fmt.Sprintf("ada: %s %s on %s", what, r.Start.Run, r.Start.Service.Name), func(ctx context.Context) error {
		return e.Command(ctx, r.Start.Run, c)
	})
}

func (s *simulation) decides() {
	r, ok := s.openRun(func(r machine.State) bool { return r.Gate != nil })
	if !ok {
		return
	}
	d := &machine.Decision{Gate: r.Gate.ID, Digest: r.Gate.Digest, Approve: s.rnd.IntN(4) > 0, By: "user:ada", Person: true, Reason: "so"}
	kind := machine.CmdDecide
	if s.rnd.IntN(10) == 0 {
		kind = machine.CmdReplan
	}
	s.command(r, fmt.Sprintf("%s %v", kind, d.Approve), machine.Command{Kind: kind, Decision: d})
}

func (s *simulation) cancels() {
	if r, ok := s.openRun(func(machine.State) bool { return true }); ok {
		s.command(r, "cancel", machine.Command{Kind: machine.CmdCancel, Decision: &machine.Decision{By: "user:ada", Person: true, Reason: "stop"}})
	}
}

// settlesHeld lets a person say what is true of runs that are held, and release
// those that were quarantined.
func (s *simulation) settlesHeld() {
	r, ok := s.openRun(func(r machine.State) bool { return r.Held != nil || r.Quarantine != nil })
	if !ok {
		return
	}
	d := &machine.Decision{By: "user:ada", Person: true, Reason: "looked"}
	if r.Quarantine != nil {
		s.command(r, "release", machine.Command{Kind: machine.CmdRelease, Decision: d})
		return
	}
	d.Approve = s.w.landedIn(r.Held.Effect)
	s.command(r, "resolve", machine.Command{Kind: machine.CmdResolve, Decision: d})
}

func (s *simulation) setsPause() {
	e, scope := s.e, []Scope{{}, {Service: "a"}, {Service: "c"}, {Playbook: "ladder"}}[s.rnd.IntN(4)]
	s.call("ada pauses "+scope.String(), func(ctx context.Context) error {
		err := e.Pause(ctx, scope, "user:ada", "storm")
		if err == nil {
			s.mu.Lock()
			s.pauses[scope] = time.Now()
			s.mu.Unlock()
		}
		return err
	})
}

func (s *simulation) unpauses() {
	if s.full.Load() {
		return
	}
	for _, p := range s.e.Pauses() {
		s.mu.Lock()
		delete(s.pauses, p.Scope)
		s.mu.Unlock()
		e := s.e
		s.call("ada unpauses "+p.Scope.String(), func(ctx context.Context) error { return e.Unpause(ctx, p.Scope, "user:ada", "over") })
	}
}

func (s *simulation) startsByHand() {
	e, service := s.e, simServices[s.rnd.IntN(len(simServices))]
	s.call("ada starts a run on "+service, func(ctx context.Context) error {
		_, _, err := e.StartRun(ctx, StartRequest{Playbook: "ladder", Service: service, By: "user:ada", Person: true, Reason: "drill"})
		return err
	})
}

// restarts stops the executor in order.
func (s *simulation) restarts() {
	if s.full.Load() || s.e.err() != nil {
		return
	}
	s.note("it is restarted")
	if err := s.stop(); err != nil && !errors.Is(err, errCrash) {
		s.t.Errorf("seed %d: stopped with %v", s.seed, err)
	}
	s.start()
}

// finish lets everything calm down, people answer what is held, and all alerts
// end.
func (s *simulation) finish() {
	s.note("it calms down")
	s.crashIn.Store(0)
	s.crashAtChange.Store(0)
	s.full.Store(false)
	s.w.setCalm()
	s.rules.lift()
	s.pass(10 * time.Second)
	s.keepUp()
	s.pass(10 * time.Second)
	s.keepUp()
	for range 40 {
		s.unpauses()
		s.settlesHeld()
		s.pass(5 * time.Minute)
	}
	s.oneRun()
	s.noneLeft()
	for i := range s.alerts {
		if s.alerts[i].Status == playbook.Firing {
			s.alerts[i] = resolvedOf(s.alerts[i])
			s.notify(s.alerts[i])
		}
	}
	for range 80 { // a loan waits for up to six hours
		s.settlesHeld()
		s.pass(5 * time.Minute)
	}
}
