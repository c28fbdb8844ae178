package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step/kinds"
	"github.com/inference-responder/responder/internal/yamldoc"
	"github.com/inference-responder/responder/playbooks"
)

// library holds the playbooks in force: those of a directory, which it watches,
// and those that ship with the program. A load that fails changes nothing but
// the metric and the journal: the last good set stays, also over a restart, and
// a run finishes with the playbook it started with.
type library struct {
	source  config.Playbooks
	once    bool                      // the directory is not watched
	allows  func(*playbook.Set) error // what the configuration has no channels for is not put in force
	log     *slog.Logger
	current atomic.Pointer[playbook.Set]
	begun   chan struct{} // closed once records can be written
}

// playbookRecords is where it is recorded what became of a load. Ready returns
// nil once records can be written.
type playbookRecords interface {
	Ready() error
	RecordPlaybooks() error // those in force, unless they are recorded
	RejectPlaybooks(source string, problems error) error
}

// newLibrary loads the first set. When the directory's is bad, or allows says
// that it does not fit the configuration, the one that was last in force
// according to the journal is taken; without one it is an error.
func newLibrary(o Options, journal *audit.Journal, allows func(*playbook.Set) error) (*library, error) {
	source, log := o.Config.Playbooks, o.Log
	l := &library{source: source, once: o.ReadOnce, allows: allows, log: log, begun: make(chan struct{})}
	set, err := ConfiguredPlaybooks(source)
	if err == nil {
		err = allows(set)
	}
	if err != nil {
		last, lastErr := lastGood(journal)
		if lastErr == nil {
			last, lastErr = last.Overridden(source.Autonomy)
		}
		if lastErr != nil {
			return nil, fmt.Errorf("load playbooks (and %w):\n%w", lastErr, err)
		}
		log.Error("playbooks rejected, those last in force stay", "dir", source.Dir, "err", err)
		set = last
	}
	l.current.Store(set)
	l.tell(set)
	return l, nil
}

// lastGood compiles the set that was last in force from the documents in the
// journal.
func lastGood(journal *audit.Journal) (*playbook.Set, error) {
	var last executor.Loaded
	documents := map[string]string{}
	for rec, err := range journal.Stream(controlStream, 0) {
		if err != nil {
			return nil, err
		}
		if rec.Kind != executor.KindLoaded {
			continue
		}
		last = executor.Loaded{}
		if err := json.Unmarshal(rec.Data, &last); err != nil {
			return nil, fmt.Errorf("entry %d of the journal: %w", rec.Seq, err)
		}
		for digest, document := range last.Documents {
			documents[digest] = document
		}
	}
	if len(last.Playbooks) == 0 {
		return nil, errors.New("by the journal none were in force before")
	}
	var all []*playbook.Playbook
	for name, digest := range last.Playbooks {
		loaded, err := playbook.Parse("journal:"+name, []byte(documents[digest]), kinds.Declarations())
		if err != nil {
			return nil, fmt.Errorf("the earlier set no longer compiles: %w", err)
		}
		all = append(all, loaded...)
	}
	return playbook.NewSet(all)
}

// set returns the playbooks in force.
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

// follow puts what is in the directory in force until ctx is done.
func (l *library) follow(ctx context.Context, to playbookRecords) error {
	if !l.begin(ctx, to) {
		return nil
	}
	if info, err := os.Stat(l.source.Dir); l.once || l.source.Dir == "" || err == nil && !info.IsDir() {
		<-ctx.Done() // the shipped ones, or one file of a dry run
		return nil
	}
	watched, err := libraryOf(l.source)
	if err != nil {
		return err
	}
	return playbook.Watch(ctx, watched, kinds.Declarations(), func(set *playbook.Set, err error) { l.replace(to, set, err) })
}

// begin waits until records can be written; false when ctx ends before.
func (l *library) begin(ctx context.Context, to playbookRecords) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for to.Ready() != nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	close(l.begun)
	return true
}

// await waits until follow has begun; false when ctx ends before.
func (l *library) await(ctx context.Context) bool {
	select {
	case <-l.begun:
		return true
	case <-ctx.Done():
		return false
	}
}

// replace puts a set in force, or records why it could not be.
func (l *library) replace(to playbookRecords, set *playbook.Set, err error) {
	if err == nil {
		err = l.allows(set)
	}
	if err != nil {
		l.log.Warn("playbooks rejected, the last good set stays", "dir", l.source.Dir, "err", err)
		if err := to.RejectPlaybooks(l.source.Dir, err); err != nil {
			l.log.Error("playbooks rejected, and the journal did not take it", "err", err)
		}
		return
	}
	if set.Digest() == l.set().Digest() {
		return
	}
	l.current.Store(set)
	l.tell(set)
	if err := to.RecordPlaybooks(); err != nil { // and before a run starts it is recorded in any case
		l.log.Error("playbooks loaded, and the journal did not take it", "err", err)
	}
}

// noPlaybooks is what an empty set comes to.
const noPlaybooks = "there are no playbooks: no alert will match"

func (l *library) tell(set *playbook.Set) {
	if len(set.All()) == 0 {
		l.log.Warn(noPlaybooks, "dir", l.source.Dir)
	}
	l.log.Info("playbooks loaded", "dir", l.source.Dir, "playbooks", len(set.All()), "digest", set.Digest())
	for _, w := range set.Warnings() {
		l.log.Warn("playbook warning", "problem", w.String())
	}
}

// ConfiguredPlaybooks loads the playbooks that a configuration puts in force. A
// file in place of a directory, as dry-run has, stands for itself.
func ConfiguredPlaybooks(source config.Playbooks) (*playbook.Set, error) {
	if info, err := os.Stat(source.Dir); err == nil && !info.IsDir() {
		set, err := LoadPlaybooks(source.Dir)
		if err != nil {
			return nil, err
		}
		return set.Overridden(source.Autonomy)
	}
	l, err := libraryOf(source)
	if err != nil {
		return nil, err
	}
	return l.Load(kinds.Declarations())
}

// PlaybooksAt returns the configured playbooks with another file or directory. It
// may lack playbooks whose autonomy the configuration sets.
func PlaybooksAt(c config.Playbooks, path string) (config.Playbooks, error) {
	levels := c.Autonomy
	c.Dir, c.Autonomy = path, nil
	set, err := ConfiguredPlaybooks(c)
	if err != nil {
		return c, err
	}
	c.Autonomy = levels.Known(set)
	return c, nil
}

// libraryOf returns the library of a configuration.
func libraryOf(source config.Playbooks) (playbook.Library, error) {
	l := playbook.Library{Dir: source.Dir, Disable: source.Disable, Autonomy: source.Autonomy}
	if !source.Shipped {
		return l, nil
	}
	var err error
	l.Shipped, err = shippedPlaybooks()
	return l, err
}

// LoadPlaybooks reads the playbooks of a file or directory; of none: those
// that ship with the program.
func LoadPlaybooks(path string) (*playbook.Set, error) {
	if path == "" {
		return ConfiguredPlaybooks(config.Playbooks{Shipped: true})
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read playbooks: %w", err)
	}
	if info.IsDir() {
		return playbook.LoadDir(path, kinds.Declarations())
	}
	loaded, err := ParsePlaybookFile(path)
	if err != nil {
		return nil, err
	}
	return playbook.NewSet(loaded)
}

// ParsePlaybookFile compiles the playbooks of one file.
func ParsePlaybookFile(path string) ([]*playbook.Playbook, error) {
	data, err := ReadPlaybookFile(path)
	if err != nil {
		return nil, err
	}
	return playbook.Parse(path, data, kinds.Declarations())
}

// ReadPlaybookFile returns the content of a playbook file, bounded.
func ReadPlaybookFile(path string) ([]byte, error) { return readDocument("playbook", path) }

// readDocument reads a file of what: a playbook or a policy.
func readDocument(what, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	defer f.Close()
	// One byte more than allowed, so that the parser reports the size as one of
	// the file's problems.
	data, err := io.ReadAll(io.LimitReader(f, yamldoc.MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", what, path, err)
	}
	return data, nil
}

// shippedPlaybooks returns the files of the playbooks that are part of the
// program.
func shippedPlaybooks() ([]playbook.File, error) {
	names, err := fs.Glob(playbooks.Files, "*.yaml")
	if err != nil {
		return nil, err
	}
	var out []playbook.File
	for _, name := range names {
		if strings.HasSuffix(name, ".test.yaml") {
			continue
		}
		data, err := playbooks.Files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read shipped playbook: %w", err)
		}
		out = append(out, playbook.File{Name: "playbooks/" + name, Data: data})
	}
	return out, nil
}

// PlaybookNames returns the names of the playbooks of a set.
func PlaybookNames(s *playbook.Set) []string {
	var names []string
	for _, pb := range s.All() {
		names = append(names, pb.Name)
	}
	return names
}
