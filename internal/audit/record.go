package audit

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of one record and one batch. They bound what a decoder must accept.
const (
	maxStream = 255      // bytes in a stream name
	maxKind   = 128      // bytes in a kind
	maxData   = 24 << 20 // bytes of payload: a 16 MiB webhook body and room to wrap it
	MaxBatch  = 4096     // records in one call of Append
	maxCell   = 64 << 10 // bytes in one cell
)

// A Record is one entry of the log.
type Record struct {
	Seq    uint64          `json:"seq"`    // position in the log, from 0; assigned by Append
	Time   time.Time       `json:"time"`   // when appended, UTC; assigned by Append unless set
	Stream string          `json:"stream"` // assigned by Append
	Index  uint64          `json:"index"`  // position within its stream, from 0; assigned by Append
	Kind   string          `json:"kind"`
	Data   json.RawMessage `json:"data"` // stored and hashed as it is, never parsed here
}

// Digest identifies an entry, its place and time included: a projection names with it
// the last entry that it holds.
func (r Record) Digest() [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%d %d %s %d %s %s", r.Seq, r.Time.UnixNano(), r.Stream, r.Index, r.Kind, r.Data))
}

// Any as Append.After means that the append depends on nothing before it.
const Any = ^uint64(0)

// An Append is the part of a batch that goes to one stream.
type Append struct {
	Stream  string
	After   uint64   // head of the stream the caller has seen, or Any
	Records []Record // Kind, Data and, if it is not now, Time

	// Written, unless nil, is called with the records as they are on disk, before
	// those who watch the journal are signalled. It must return at once: the
	// committer calls it.
	Written func([]Record)
}

// StreamInfo names a stream and how many records it has.
type StreamInfo struct {
	Name string `json:"name"`
	Head uint64 `json:"head"`
}

// checkName refuses names that would break the index key or a terminal.
func checkName(what, s string, limit int) error {
	switch {
	case s == "":
		return fmt.Errorf("%w: %s is empty", ErrInvalid, what)
	case len(s) > limit:
		return fmt.Errorf("%w: %s has %d bytes, at most %d", ErrInvalid, what, len(s), limit)
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: %s is not UTF-8", ErrInvalid, what)
	case strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return fmt.Errorf("%w: %s %q has a control character", ErrInvalid, what, s)
	}
	return nil
}

// checkBatch validates a batch and returns its size: the number of records and the
// bytes they will take.
func checkBatch(batch []Append) (records, bytes int, err error) {
	for _, a := range batch {
		if err := checkName("stream name", a.Stream, maxStream); err != nil {
			return 0, 0, err
		}
		for i := range a.Records {
			r := &a.Records[i]
			if err := checkName("kind", r.Kind, maxKind); err != nil {
				return 0, 0, err
			}
			if len(r.Data) > maxData {
				return 0, 0, fmt.Errorf("%w: record %s of stream %s has %d bytes, at most %d",
					ErrInvalid, r.Kind, a.Stream, len(r.Data), maxData)
			}
			if !r.Time.IsZero() && !timeFits(r.Time) {
				return 0, 0, fmt.Errorf("%w: time %s is out of range", ErrInvalid, r.Time)
			}
			records++
			bytes += headerSize + len(a.Stream) + len(r.Kind) + len(r.Data)
		}
	}
	if records == 0 {
		return 0, 0, fmt.Errorf("%w: no records", ErrInvalid)
	}
	if records > MaxBatch {
		return 0, 0, fmt.Errorf("%w: %d records, at most %d", ErrInvalid, records, MaxBatch)
	}
	return records, bytes, nil
}

// timeFits reports whether t can be stored as nanoseconds since 1970.
func timeFits(t time.Time) bool {
	return t.After(time.Unix(0, math.MinInt64)) && t.Before(time.Unix(0, math.MaxInt64))
}
