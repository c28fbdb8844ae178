package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// The stream of what was redacted, and the kind of its records.
const (
	StreamRedaction = "redaction"
	KindRedacted    = "entry.redacted" // Redaction
)

// redactedText stands in an entry for what was taken out of it.
const redactedText = "(redacted)"

// minRedact is the shortest text that can be taken out: a shorter one is part of words.
const minRedact = 6

// A Redaction records that a text was taken out of an entry, afterwards, by whom and why.
// The entry keeps its place, its time and its leaf hash, so that every checkpoint covers
// it as before. Its body is what is left, with a statement signed with the journal's key:
//
//	<origin>
//	redacted <seq>
//	<leaf hash of the entry as it was, base64>
//	<hash of what is left, base64>
//	<this record, JSON>
//
//	— <origin> <signature>
//
// Nobody can tell from it what stood there. Only who holds the key can make one.
type Redaction struct {
	Seq    uint64    `json:"entry"`
	Stream string    `json:"stream"`
	Kind   string    `json:"kind"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// RedactOptions of Redact.
type RedactOptions struct {
	Text       string   // that is taken out
	Entries    []uint64 // those to look at; none: all
	By, Reason string
	DryRun     bool // only look which entries have the text
	Open       Options
}

func (o *RedactOptions) check() error {
	switch {
	case len(o.Text) < minRedact:
		return fmt.Errorf("the text to redact has %d bytes, at least %d are needed: a shorter one is part of other words", len(o.Text), minRedact)
	case strings.Contains(redactedText, o.Text):
		return fmt.Errorf("the text to redact is part of %q, which takes its place", redactedText)
	case strings.TrimSpace(o.By) == "" || strings.TrimSpace(o.Reason) == "":
		return errors.New("a redaction needs who makes it and why")
	}
	return nil
}

// Redacted is the result of Redact.
type Redacted struct {
	Entries  []Redaction
	Segments []string // of the archive, which have such entries as they were
	Archived uint64   // entries that were not looked at: only the archive has their bodies
}

// Redact takes a text out of the entries of a journal that no service has open. Each is
// replaced in the transaction that records it and signs the log. Compact then removes
// what the file's free pages still have of it. A crash leaves some entries redacted, and
// doing it again finishes.
func Redact(ctx context.Context, path string, o RedactOptions) (r Redacted, err error) {
	if err := o.check(); err != nil {
		return r, err
	}
	j, err := Open(path, o.Open)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	var due []*replacement
	flush := func() error {
		if len(due) == 0 || o.DryRun {
			return nil
		}
		err := j.replace(ctx, due)
		due = nil
		return err
	}
	for rec, err := range j.Log(0) {
		if errors.Is(err, ErrArchived) {
			r.Archived++
			continue
		}
		if err != nil {
			return r, err
		}
		if len(o.Entries) > 0 && !slices.Contains(o.Entries, rec.Seq) || rec.Stream == StreamRedaction || rec.Stream == StreamArchive {
			continue
		}
		left, found, err := without(rec.Data, o.Text)
		if err != nil {
			return r, fmt.Errorf("redact entry %d: %w", rec.Seq, err)
		}
		if !found {
			continue
		}
		what := Redaction{Seq: rec.Seq, Stream: rec.Stream, Kind: rec.Kind, By: o.By, Reason: o.Reason, At: time.Now().UTC().Round(0)}
		rec.Data = left
		r.Entries = append(r.Entries, what)
		if i, ok := j.archive.Load().has(rec.Seq); ok && !slices.Contains(r.Segments, j.archive.Load().sealed[i].Segment) {
			r.Segments = append(r.Segments, j.archive.Load().sealed[i].Segment)
		}
		if due = append(due, &replacement{what, rec}); len(due) == dropBatch {
			if err := flush(); err != nil {
				return r, err
			}
		}
	}
	return r, flush()
}

// without replaces a text in the strings of a JSON value, save in names of fields. All
// else stays byte by byte.
func without(data []byte, text string) (out []byte, found bool, err error) {
	for i := 0; i < len(data); {
		if data[i] != '"' {
			out = append(out, data[i])
			i++
			continue
		}
		end := i + 1
		for end < len(data) && data[end] != '"' {
			if data[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(data) {
			return nil, false, errors.New("its data is not JSON")
		}
		literal := data[i : end+1]
		i = end + 1
		var s string
		if err := json.Unmarshal(literal, &s); err != nil {
			return nil, false, fmt.Errorf("its data is not JSON: %w", err)
		}
		if strings.Contains(s, text) && !bytes.HasPrefix(bytes.TrimLeft(data[i:], " \t\r\n"), []byte(":")) {
			if literal, err = json.Marshal(strings.ReplaceAll(s, text, redactedText)); err != nil {
				return nil, false, err
			}
			found = true
		}
		out = append(out, literal...)
	}
	return out, found, nil
}

// A replacement is an entry with what is left of it.
type replacement struct {
	Redaction
	left Record
}

// replace writes replacements, their records and a checkpoint in one transaction.
func (j *Journal) replace(ctx context.Context, due []*replacement) error {
	a := Append{Stream: StreamRedaction, After: Any}
	for _, r := range due {
		data, err := json.Marshal(r.Redaction)
		if err != nil {
			return fmt.Errorf("record redaction: %w", err)
		}
		a.Records = append(a.Records, Record{Kind: KindRedacted, Data: data})
	}
	q := &request{batch: []Append{a}, redact: due, records: len(due), done: make(chan struct{})}
	j.pack(q)
	if err := j.submit(ctx, q); err != nil {
		return fmt.Errorf("redact: %w", err)
	}
	return nil
}

// redact replaces entries by what is left of them.
func (w *writer) redact(due []*replacement) error {
	for _, r := range due {
		key := u64(r.Seq)
		leaf, _, ok := splitEntry(w.log.Get(key))
		if !ok {
			return corrupt(w.j.path, "entry %d is missing", r.Seq)
		}
		left := appendRecord(nil, &r.left, nil)
		left[0] = formRedacted
		about, err := json.Marshal(r.Redaction)
		if err != nil {
			return fmt.Errorf("redact entry %d: %w", r.Seq, err)
		}
		text := fmt.Sprintf("%s\nredacted %d\n%s\n%s\n%s\n", w.j.Origin(), r.Seq, leaf, tlog.RecordHash(left), about)
		signed, err := note.Sign(&note.Note{Text: text}, w.j.keys.signer)
		if err != nil {
			return fmt.Errorf("redact entry %d: %w", r.Seq, err)
		}
		if len(signed) > maxNote {
			return fmt.Errorf("redact entry %d: who and why take more than %d bytes", r.Seq, maxNote)
		}
		if err := replaceEntry(w.log, key, slices.Concat(leaf[:], left, signed)); err != nil {
			return err
		}
	}
	return w.sign()
}

// leafHash returns the hash of a stored record in the tree. Of one that was redacted it
// is what the statement says, when that is about this record; that the statement is
// signed counts only with a key: see redaction.
func leafHash(raw rawRecord, record []byte) (tlog.Hash, error) {
	if raw.note == nil {
		return tlog.RecordHash(record), nil
	}
	lines := strings.Split(string(raw.note), "\n")
	if len(lines) < 6 || lines[1] != fmt.Sprintf("redacted %d", raw.seq) ||
		lines[3] != tlog.RecordHash(record[:len(record)-len(raw.note)]).String() {
		return tlog.Hash{}, errors.New("it is redacted, and its statement is about another record")
	}
	return tlog.ParseHash(lines[2])
}

// redaction returns what the statement of a redacted record says, when it is signed.
func redaction(raw rawRecord, key note.Verifier) (r Redaction, err error) {
	n, err := note.Open(raw.note, note.VerifierList(key))
	if err != nil {
		return r, fmt.Errorf("it is redacted, and the statement of it is not signed by the key %s+%08x", key.Name(), key.KeyHash())
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) != 6 || lines[0] != key.Name() || json.Unmarshal([]byte(lines[4]), &r) != nil || r.Seq != raw.seq {
		return r, errors.New("it is redacted, and the statement of it does not parse")
	}
	return r, nil
}

// redactions compares redacted entries with the records of the stream redaction.
func (v *verifier) redactions(context.Context) (bad *Finding, err error) {
	if len(v.report.Redacted) == 0 {
		return nil, nil
	}
	recorded := map[uint64]bool{}
	err = v.view(func(tx *bolt.Tx) error {
		log, cur := tx.Bucket(bucketLog), tx.Bucket(bucketIndex).Cursor()
		for k, at := cur.Seek(appendIndexKey(nil, StreamRedaction, 0)); k != nil; k, at = cur.Next() {
			if stream, _, ok := splitIndexKey(k); !ok || string(stream) != StreamRedaction {
				break
			}
			seq, _ := parseU64(at)
			rec, err := decodeEntry(seq, log.Get(at), nil)
			var r Redaction
			if err == nil && rec.Kind == KindRedacted && json.Unmarshal(rec.Data, &r) == nil {
				recorded[r.Seq] = true
			}
		}
		return nil
	})
	for _, r := range v.report.Redacted {
		if !recorded[r.Seq] {
			return at(r.Seq, "redacted by %s, and the log has no record of it", r.By), err
		}
	}
	return nil, err
}
