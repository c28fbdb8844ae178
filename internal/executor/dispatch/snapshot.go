package dispatch

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"slices"
	"time"
)

// ProjectionName names the stored snapshot in the journal; see audit.SaveProjection.
const ProjectionName = "dispatch"

// snapshotVersion changes whenever the meaning of a Snapshot does: one of another
// version is not used.
const snapshotVersion = 2

// A Snapshot is the dispatcher's memory at one moment: the cursor and the known
// episodes. A start folds only the records after it. It is never the truth: when it
// is missing, does not decode or does not belong to the stream, the stream is folded
// whole.
type Snapshot struct {
	Version int
	Head    uint64   // of the stream dispatch
	Last    [32]byte // digest of its last record, to recognize the stream
	Size    uint64   // of the log: run events before it are part of the snapshot

	Index  uint64 // the cursor
	Offset int

	Texts    []string // kinds, reasons, runs and playbooks, each once
	Episodes []storedEpisode
}

// storedEpisode is a known episode. Times are in nanoseconds since 1970, 0 for the
// zero time; texts are positions in Snapshot.Texts.
type storedEpisode struct {
	ID             string
	Generation     int // which map of episodes it was in: 0 m, 1 idle, 2 older
	Firing, Retry  bool
	Paused         bool
	Resolved, Seen int64
	Kind, Reason   int
	Runs           [][2]int // run and playbook
	Started        []bool   // of Runs: the run began with the episode
	Note           uint64
	Repeats        int
	Repeated       int64
}

// Unsaved is how much follows the last snapshot, in records and their episodes.
func (d *Dispatcher) Unsaved() int { return d.unsaved }

// Snapshot returns the memory as it is, and counts Unsaved anew. Only the executor's
// loop may call it, or nobody else may be running: then memory holds what the log does.
func (d *Dispatcher) Snapshot() *Snapshot {
	s := &Snapshot{
		Version: snapshotVersion, Head: d.cursor.head, Size: d.o.Journal.Size(),
		Index: d.cursor.index, Offset: d.cursor.offset,
	}
	d.unsaved = 0
	texts := map[string]int{}
	text := func(t string) int {
		if _, ok := texts[t]; !ok {
			texts[t] = len(s.Texts)
			s.Texts = append(s.Texts, t)
		}
		return texts[t]
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s.Episodes = make([]storedEpisode, 0, len(d.m)+len(d.idle)+len(d.older))
	for generation, m := range []map[string]known{d.m, d.idle, d.older} {
		for id, k := range m {
			e := storedEpisode{
				ID: id, Generation: generation, Firing: k.firing, Retry: k.retry, Paused: k.paused,
				Resolved: nanos(k.resolved), Seen: nanos(k.seen),
				Kind: text(k.kind), Reason: text(k.reason), Note: k.note,
				Repeats: k.repeats, Repeated: nanos(k.repeated),
			}
			for _, r := range k.runs {
				e.Runs, e.Started = append(e.Runs, [2]int{text(r.id), text(r.playbook)}), append(e.Started, r.started)
			}
			s.Episodes = append(s.Episodes, e)
		}
	}
	return s
}

// Save stores a snapshot for the next start.
func (d *Dispatcher) Save(s *Snapshot) error {
	if s.Head == 0 {
		return nil
	}
	digest, err := d.digest(s.Head - 1)
	if err != nil {
		return fmt.Errorf("save what is known of alerts: %w", err)
	}
	s.Last = digest
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(s); err != nil {
		panic("dispatch: cannot encode: " + err.Error()) // unreachable unless the struct holds what gob does not know
	}
	if err := d.o.Journal.SaveProjection(ProjectionName, b.Bytes()); err != nil {
		return fmt.Errorf("save what is known of alerts: %w", err)
	}
	return nil
}

// loadSnapshot returns the stored snapshot, nil when there is none of this stream.
func (d *Dispatcher) loadSnapshot(head uint64) (*Snapshot, error) {
	b, err := d.o.Journal.Projection(ProjectionName)
	if err != nil || b == nil {
		return nil, err
	}
	s := new(Snapshot)
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(s); err != nil || !s.usable() {
		return nil, nil //nolint:nilerr // of another version: the stream is folded whole
	}
	if s.Head > head || s.Size > d.o.Journal.Size() {
		return nil, nil // the journal is an older copy
	}
	digest, err := d.digest(s.Head - 1)
	if err != nil || digest != s.Last {
		return nil, err
	}
	return s, nil
}

// usable reports whether a decoded snapshot can be taken over.
func (s *Snapshot) usable() bool {
	text := func(i int) bool { return i >= 0 && i < len(s.Texts) }
	return s.Version == snapshotVersion && s.Head > 0 && s.Offset >= 0 &&
		!slices.ContainsFunc(s.Episodes, func(e storedEpisode) bool {
			return e.Generation < 0 || e.Generation > 2 || !text(e.Kind) || !text(e.Reason) || len(e.Started) != len(e.Runs) ||
				slices.ContainsFunc(e.Runs, func(r [2]int) bool { return !text(r[0]) || !text(r[1]) })
		})
}

// digest identifies a record of the stream dispatch.
func (d *Dispatcher) digest(index uint64) (sum [32]byte, err error) {
	for rec, err := range d.o.Journal.Stream(Stream, index) {
		if err != nil {
			return sum, fmt.Errorf("read dispatch: %w", err)
		}
		return rec.Digest(), nil
	}
	return sum, fmt.Errorf("read dispatch: record %d is missing", index)
}

// restore takes a snapshot over, save what nobody has mentioned for EpisodesKept.
// Open runs were noted before (Has).
func (d *Dispatcher) restore(s *Snapshot, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cursor.index, d.cursor.offset = s.Index, s.Offset
	old := now.Add(-EpisodesKept)
	for i := range s.Episodes {
		e := &s.Episodes[i]
		k := known{
			firing: e.Firing, retry: e.Retry, resolved: fromNanos(e.Resolved), seen: fromNanos(e.Seen),
			kind: s.Texts[e.Kind], reason: s.Texts[e.Reason], note: e.Note, paused: e.Paused,
			repeats: e.Repeats, repeated: fromNanos(e.Repeated),
		}
		if k.seen.Before(old) {
			continue
		}
		for i, r := range e.Runs {
			k.runs = append(k.runs, runRef{s.Texts[r[0]], s.Texts[r[1]], e.Started[i]})
		}
		for _, ref := range d.m[e.ID].runs {
			k.runs = with(k.runs, ref)
		}
		d.place(e, k)
	}
}

// place puts a restored episode where it was, or where it belongs by now.
func (x *episodes) place(e *storedEpisode, k known) {
	switch {
	case len(x.m[e.ID].runs) > 0 || k.waits() || e.Generation == 0:
		x.keep(e.ID, k)
	case e.Generation == 1:
		x.idle[e.ID] = k
	default:
		x.older[e.ID] = k
	}
}

// nanos is a time as it is stored.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// fromNanos is the inverse of nanos.
func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}
