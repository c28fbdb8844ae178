package executor

import (
	"context"
	"fmt"
	"sync"

	"github.com/inference-responder/responder/internal/playbook"
)

// library keeps playbook documents by digest in the log, so that a run
// finishes with the playbook it started with, whatever was loaded since.
type library struct {
	e *Executor

	last    *playbook.Set // the set that was looked at last; the loop's
	inForce string        // digest of the set that is in force by the log; empty: by it none ever was; the loop's

	mu       sync.Mutex                    // guards everything below; a leaf lock
	at       map[string]uint64             // digest to the record of the stream control that holds the document
	compiled map[string]*playbook.Playbook // of digests that are no longer in the set
}

// Loaded is the record of a set of playbooks that came into force. Documents
// holds those that the log did not have yet.
type Loaded struct {
	Set       string            `json:"set"` // digest of the set
	Playbooks map[string]string `json:"playbooks"`
	Documents map[string]string `json:"documents,omitempty"` // by digest
}

// Rejected is the record of playbooks that were not loaded; the last good set
// stays in force.
type Rejected struct {
	Source   string `json:"source"`
	Problems string `json:"problems"`
}

// RejectPlaybooks records that playbooks could not be loaded.
func (e *Executor) RejectPlaybooks(source string, problems error) error {
	return e.recordControl(KindRejected, Rejected{Source: source, Problems: problems.Error()})
}

// recordControl records a fact about the service itself, which depends on nothing
// before it.
func (e *Executor) recordControl(kind string, v any) error {
	if !e.alive() {
		return ErrNotReady
	}
	return e.do(context.Background(), &task{shared: true, decide: func(b *batch) error {
		b.record(kind, v)
		return nil
	}})
}

// RecordPlaybooks records the set in force, unless the log has it as the last
// one. It is for sets that come into force while no run starts: what the log
// has last is what is in force.
func (e *Executor) RecordPlaybooks() error {
	if !e.alive() {
		return ErrNotReady
	}
	return e.recordSet(context.Background())
}

func (e *Executor) recordSet(ctx context.Context) error {
	return e.do(ctx, &task{shared: true, decide: func(b *batch) error {
		b.recordPlaybooks()
		return nil
	}})
}

// recordPlaybooks adds the batch's set to it, unless the log has that set as the
// last one. It is called before any run starts with it.
func (b *batch) recordPlaybooks() {
	l := b.e.library
	if b.set == l.last || b.loaded != nil {
		return
	}
	rec := Loaded{Set: b.set.Digest(), Playbooks: map[string]string{}, Documents: map[string]string{}}
	for _, p := range b.set.All() {
		rec.Playbooks[p.Name] = p.Digest
		if !l.has(p.Digest) {
			rec.Documents[p.Digest] = string(p.Doc)
		}
	}
	// A set without documents is recorded, too: playbooks that were taken away
	// must not come back, as the last good ones, from what the log had before.
	if rec.Set == l.inForce || (l.inForce == "" && len(rec.Playbooks) == 0) {
		l.last = b.set
		return
	}
	b.record(KindLoaded, rec)
	b.loaded = &rec
}

// recorded folds the set that the batch has recorded.
func (l *library) recorded(b *batch) {
	if b.loaded == nil {
		return
	}
	l.last, l.inForce = b.set, b.loaded.Set
	l.note(*b.loaded, unknownRecord)
}

// has reports whether the log has the document of that digest.
func (l *library) has(digest string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.at[digest]
	return ok
}

// fold records where in the log documents are, and which set is in force by it.
func (l *library) fold(rec Loaded, at uint64) {
	l.inForce = rec.Set
	l.note(rec, at)
}

func (l *library) note(rec Loaded, at uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for digest := range rec.Documents {
		l.at[digest] = at
	}
}

// unknownRecord marks documents recorded since the start: they are looked for.
const unknownRecord = ^uint64(0)

// find returns a run its playbook: from the set in force, or compiled from the
// document in the log.
func (l *library) find(name, digest string) (*playbook.Playbook, error) {
	if set := l.e.o.Playbooks(); set != nil {
		if p := set.ByName(name); p != nil && p.Digest == digest {
			return p, nil
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.compiled[digest]; p != nil {
		return p, nil
	}
	doc, err := l.document(digest)
	if err != nil {
		return nil, err
	}
	all, err := playbook.ParseRecorded("journal:"+name, []byte(doc), l.e.o.Kinds)
	if err != nil {
		return nil, fmt.Errorf("playbook %s of digest %s no longer compiles, so its run cannot go on: %w", name, digest, err)
	}
	for _, p := range all {
		if p.Digest == digest {
			l.compiled[digest] = p
			return p, nil
		}
	}
	return nil, fmt.Errorf("the document recorded for playbook %s does not have digest %s", name, digest)
}

// document reads a playbook's document from the log.
func (l *library) document(digest string) (string, error) {
	at, ok := l.at[digest]
	if !ok {
		return "", fmt.Errorf("no document of digest %s is recorded", digest)
	}
	from := at
	if at == unknownRecord {
		from = 0
	}
	for rec, err := range l.e.o.Journal.Stream(streamControl, from) {
		if err != nil {
			return "", err
		}
		if rec.Kind != KindLoaded {
			continue
		}
		loaded, err := decode[Loaded](rec)
		if err != nil {
			return "", err
		}
		if doc, ok := loaded.Documents[digest]; ok {
			l.at[digest] = rec.Index
			return doc, nil
		}
	}
	return "", fmt.Errorf("no document of digest %s is in the log", digest)
}
