package audit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/s2"
)

// The stored form of a record. All integers are big-endian.
//
//	offset  size  field
//	0       1     form: 1 data as it is, 2 data as a Snappy block, 3 what was left of it
//	              when it was redacted, as it is
//	1       8     seq
//	9       8     index
//	17      8     time, nanoseconds since 1970 UTC, two's complement
//	25      1     length of stream
//	26      1     length of kind
//	27      4     length of data as stored
//	31      ...   stream, kind, data, nothing after; in form 3 the signed statement of
//	              the redaction
//
// Fields have fixed widths and the total length must match. The Merkle leaf is
// the hash of these bytes, so a verifier need not unpack them; in form 3 it is the hash of
// the bytes before the redaction, which the statement has.
const (
	formPlain    = 1
	formPacked   = 2
	formRedacted = 3
	headerSize   = 31

	// packFrom is the size from which data is packed. Alerts of one group say
	// most things many times, and what a commit costs is pages.
	packFrom = 512
)

// pack returns data as a Snappy block, using scratch, or nil if that saves less
// than an eighth. The result is a copy of its own.
func pack(scratch *[]byte, data []byte) []byte {
	if len(data) < packFrom {
		return nil
	}
	if n := s2.MaxEncodedLen(len(data)); cap(*scratch) < n {
		*scratch = make([]byte, n)
	}
	b := s2.EncodeSnappy((*scratch)[:cap(*scratch)], data)
	if len(b) > len(data)-len(data)/8 {
		return nil
	}
	return bytes.Clone(b)
}

// appendRecord appends the stored form of r, whose fields are within limits.
// packed is what pack made of its data.
func appendRecord(b []byte, r *Record, packed []byte) []byte {
	form, data := byte(formPlain), []byte(r.Data)
	if packed != nil {
		form, data = formPacked, packed
	}
	b = append(b, form)
	b = binary.BigEndian.AppendUint64(b, r.Seq)
	b = binary.BigEndian.AppendUint64(b, r.Index)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Time.UnixNano()))
	b = append(b, byte(len(r.Stream)), byte(len(r.Kind)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	b = append(b, r.Stream...)
	b = append(b, r.Kind...)
	return append(b, data...)
}

// A rawRecord is a record's stored form taken apart; its slices alias the
// bytes it was parsed from.
type rawRecord struct {
	seq, index         uint64
	nanos              int64
	stream, kind, data []byte
	packed             bool   // data is a Snappy block
	note               []byte // the statement of a redaction; nil: there was none
}

var (
	errShortRecord = errors.New("record is shorter than its header")
	errPacked      = errors.New("record has packed data that cannot be unpacked")
)

// parseRecord takes the stored form apart without copying.
func parseRecord(b []byte) (rawRecord, error) {
	if len(b) == 0 {
		return rawRecord{}, errShortRecord
	}
	if b[0] < formPlain || b[0] > formRedacted {
		return rawRecord{}, fmt.Errorf("record has the form %d, want %d to %d", b[0], formPlain, formRedacted)
	}
	if len(b) < headerSize {
		return rawRecord{}, errShortRecord
	}
	r := rawRecord{
		seq:   binary.BigEndian.Uint64(b[1:]),
		index: binary.BigEndian.Uint64(b[9:]),
		nanos: int64(binary.BigEndian.Uint64(b[17:])),

		packed: b[0] == formPacked,
	}
	stream, kind, data := int(b[25]), int(b[26]), uint64(binary.BigEndian.Uint32(b[27:]))
	if data > maxData || stream == 0 || kind == 0 || kind > maxKind {
		return rawRecord{}, fmt.Errorf("record has lengths out of range: stream %d, kind %d, data %d", stream, kind, data)
	}
	rest := b[headerSize:]
	if n := stream + kind + int(data); b[0] == formRedacted && len(rest) > n {
		if len(rest)-n > maxNote {
			return rawRecord{}, fmt.Errorf("redacted record has a statement of %d bytes, at most %d", len(rest)-n, maxNote)
		}
		r.note, rest = rest[n:], rest[:n]
	} else if b[0] == formRedacted {
		return rawRecord{}, errors.New("redacted record has no statement")
	}
	if len(rest) != stream+kind+int(data) {
		return rawRecord{}, fmt.Errorf("record has %d bytes, its header says %d",
			len(b), headerSize+stream+kind+int(data))
	}
	r.stream, r.kind, r.data = rest[:stream], rest[stream:stream+kind], rest[stream+kind:]
	return r, nil
}

// record copies r out of the bytes it aliases; stream is r's, as a string.
func (r rawRecord) record(stream string) (Record, error) {
	out := Record{
		Seq:    r.seq,
		Index:  r.index,
		Time:   time.Unix(0, r.nanos).UTC(),
		Stream: stream,
		Kind:   string(r.kind),
	}
	switch {
	case r.packed:
		// The length is read before anything is made for it.
		if n, err := s2.DecodedLen(r.data); err != nil || n > maxData {
			return Record{}, errPacked
		}
		data, err := s2.Decode(nil, r.data)
		if err != nil {
			return Record{}, errPacked
		}
		out.Data = data
	case len(r.data) > 0:
		out.Data = bytes.Clone(r.data)
	}
	return out, nil
}

// u64 is the 8-byte big-endian form used for keys and counters.
func u64(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// parseU64 is the inverse of u64.
func parseU64(b []byte) (uint64, bool) {
	if len(b) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(b), true
}

// appendIndexKey appends the index bucket's key for a stream's record.
func appendIndexKey(dst []byte, stream string, index uint64) []byte {
	dst = append(dst, stream...)
	dst = append(dst, 0)
	return binary.BigEndian.AppendUint64(dst, index)
}

// splitIndexKey is the inverse of appendIndexKey.
func splitIndexKey(key []byte) (stream []byte, index uint64, ok bool) {
	n := len(key) - 9
	if n < 1 || key[n] != 0 {
		return nil, 0, false
	}
	return key[:n], binary.BigEndian.Uint64(key[n+1:]), true
}
