package dispatch

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/playbook"
)

// Services finds the services an alert is about, and says why when there is
// none or more than one. It must answer within seconds, since alerts are decided
// one after the other.
type Services interface {
	Resolve(a playbook.Alert) (services []playbook.Service, why string, err error)
}

// Dispatcher reads notifications and decides what becomes of their alerts. One
// goroutine reads with it; Decision and what it does belong to the executor's
// loop, which that goroutine waits for.
type Dispatcher struct {
	o Options
	*episodes
	cursor  cursor
	unsaved int    // records and their episodes that follow the last snapshot
	size    uint64 // of the log at the snapshot that Load began with

	logged map[string]bool // kinds and names of alerts: see logOnce
}

// cursor is where the dispatcher stands.
type cursor struct {
	index  uint64 // of the next notification in the stream intake
	offset int    // of its next alert
	head   uint64 // of the stream dispatch

	large Note // the notification at index, when it is decided in parts
}

// Options of New. All but Intake and Window are required; Journal only by what reads
// it, and not to decide about notifications that the caller has (NewNote).
type Options struct {
	Journal  *audit.Journal
	Intake   *Intake // hands over what it admits; nil: all is read from the journal
	Services Services
	Window   time.Duration           // after a run that ended with people, in which its service gets no other run, at most 24h; 0: none
	Blames   func(place string) bool // whether the process died over a place too often: see Place
	Log      *slog.Logger
}

// New returns a dispatcher that has read nothing.
func New(o Options) *Dispatcher {
	return &Dispatcher{o: o, episodes: newEpisodes(), logged: map[string]bool{}}
}

// Head is the head of the stream dispatch.
func (d *Dispatcher) Head() uint64 { return d.cursor.head }

// Halfway reports whether the next notification is decided in part.
func (d *Dispatcher) Halfway() bool { return d.cursor.offset != 0 }

// Decided reports whether every alert of the notification with that index in the stream
// intake is decided.
func (d *Dispatcher) Decided(index uint64) bool { return index < d.cursor.index }

// Check makes sure that nobody else dispatches.
func (d *Dispatcher) Check() error {
	head, err := d.o.Journal.Head(Stream)
	if err == nil && head != d.cursor.head {
		err = fmt.Errorf("stream dispatch has %d records, %d were expected: does a second executor run on this journal?", head, d.cursor.head)
	}
	return err
}

// Place names a notification that is decided from an alert on.
func Place(index uint64, offset int) string { return fmt.Sprintf("intake@%d/%d", index, offset) }

// Places names notifications that are decided in one batch.
func (d *Dispatcher) Places(notes []Note) []string {
	out := []string{Place(notes[0].index, d.cursor.offset)}
	for _, n := range notes[1:] {
		out = append(out, Place(n.index, 0))
	}
	return out
}

// OnlyWaiting names the notification that waits, when no other does.
func (d *Dispatcher) OnlyWaiting() (place string, ok bool, err error) {
	head, err := d.o.Journal.Head(StreamIntake)
	if err != nil {
		return "", false, fmt.Errorf("read intake: %w", err)
	}
	return Place(d.cursor.index, d.cursor.offset), head == d.cursor.index+1, nil
}

// Load finds the cursor and rebuilds the known episodes: from the last snapshot and
// the records after it, or without one from all records young enough to matter.
func (d *Dispatcher) Load(now time.Time) error {
	head, err := d.o.Journal.Head(Stream)
	if err != nil {
		return fmt.Errorf("read dispatch: %w", err)
	}
	d.cursor.head = head
	var from uint64
	snapshot, err := d.loadSnapshot(head)
	if err != nil {
		return err
	}
	if snapshot != nil {
		d.restore(snapshot, now)
		from, d.size = snapshot.Head, snapshot.Size
	} else if from, err = d.o.Journal.Since(Stream, now.Add(-EpisodesKept)); err != nil {
		return err
	}
	for rec, err := range d.o.Journal.Stream(Stream, from) {
		if err != nil {
			return fmt.Errorf("read dispatch: %w", err)
		}
		r, err := DecodeRecord(rec)
		if err != nil {
			return err
		}
		d.fold(rec, r)
		d.unsaved += 1 + len(r.Episodes)
		d.cursor.index, d.cursor.offset = r.Index, r.Upto
		if r.Done {
			d.cursor.index, d.cursor.offset = r.Index+1, 0
		}
	}
	return nil
}

// fold folds what a record of the stream dispatch says about episodes.
func (d *Dispatcher) fold(rec audit.Record, r Record) {
	for _, id := range r.Episodes {
		k := d.get(id)
		k.leaves(func(run string) (release, bool) { x, ok := d.released[run]; return x, ok && x.seq < rec.Seq })
		if !r.Again {
			k.seen = rec.Time
		}
		switch rec.Kind {
		case KindMatched, KindCoalesced:
			k.firing = true
			k.became("", Record{Notification: r.Notification})
			k.news()
			k.runs = with(k.runs, runRef{r.Run, r.Playbook, rec.Kind == KindMatched})
		case KindResolved:
			k.firing = false
			if k.resolved.IsZero() {
				k.resolved = rec.Time
			}
		case KindRefired:
			k.firing, k.resolved = true, time.Time{}
			k.news()
		case KindRepeated:
			if !r.Again {
				k.again(rec.Time)
			}
		case KindUnmatched, KindNoService, KindSuppressed:
			if strings.HasPrefix(r.Reason, "starts ") {
				continue // clock skew: not remembered
			}
			switch same := k.same(rec.Kind, r.Reason); {
			case !same:
				k.news()
			case !r.Again:
				k.again(rec.Time)
			}
			k.firing = true
			k.became(rec.Kind, r)
		case KindQuarantined:
			k.kind, k.reason, k.paused = rec.Kind, r.Reason, false
			k.news()
		}
		d.crowded(rec.Time) // a log of more than may be remembered
		d.put(id, k)
	}
}

// Includes reports whether Load began with a snapshot that includes the log's entry
// with that position.
func (d *Dispatcher) Includes(seq uint64) bool { return seq < d.size }

// Note is a notification to be decided.
type Note struct {
	seq, index uint64
	data       playbook.Notification
	broken     error
}

// NewNote returns a notification that no journal holds, for a caller that decides
// without one. Indexes begin with 0 and have no gaps.
func NewNote(index uint64, n playbook.Notification) Note {
	return Note{seq: index, index: index, data: n}
}

// Next returns the next notifications, as many as fit one batch.
func (d *Dispatcher) Next() ([]Note, error) {
	if l := d.cursor.large; d.cursor.offset > 0 && l.index == d.cursor.index && len(l.data.Alerts) > 0 {
		return []Note{l}, nil
	}
	if d.o.Intake != nil {
		if out := d.o.Intake.recent.from(d.cursor.index); len(out) > 0 {
			return out, nil
		}
	}
	var out []Note
	alerts := 0
	for rec, err := range d.o.Journal.Stream(StreamIntake, d.cursor.index) {
		if err != nil {
			return nil, fmt.Errorf("read notifications: %w", err)
		}
		n := Note{seq: rec.Seq, index: rec.Index}
		n.data, n.broken = decodeNotification(rec.Data)
		out = append(out, n)
		alerts += len(n.data.Alerts)
		if len(out) == batchNotifications || alerts >= batchAlerts {
			break
		}
	}
	return out, nil
}

// decodeNotification decodes a notification; a panic over it is an error, too.
func decodeNotification(data []byte) (n playbook.Notification, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return playbook.DecodeNotification(data)
}
