package audit

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"
)

// decodeRecord decodes a stored record.
func decodeRecord(b []byte) (Record, error) {
	raw, err := parseRecord(b)
	if err != nil {
		return Record{}, err
	}
	return raw.record(string(raw.stream))
}

// The bytes on disk and the leaf over them. If this test must change, so must
// the version of the encoding.
func TestRecordGolden(t *testing.T) {
	r := Record{
		Seq: 0x0102030405060708, Index: 42, Stream: "run/r-01J", Kind: "run.started",
		Time: time.Date(2026, 10, 4, 12, 0, 0, 123456789, time.UTC),
		Data: json.RawMessage(`{"playbook":"p"}`),
	}
	const want = "01" + "0102030405060708" + "000000000000002a" + "18db51c8e7294d15" + "09" + "0b" + "00000010" +
		"72756e2f722d30314a" + "72756e2e73746172746564" + "7b22706c6179626f6f6b223a2270227d"
	b := appendRecord(nil, &r, nil)
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("encoded:\n%s, want\n%s", got, want)
	}
	if got, want := tlog.RecordHash(b).String(), "l+R+hxklLAe8Q6M28NKiU//PnU8+g1sIW66PpjykpbI="; got != want {
		t.Errorf("leaf %s, want %s", got, want)
	}
	got, err := decodeRecord(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseRecordRefuses(t *testing.T) {
	good := plain(&Record{Stream: "s", Kind: "k", Data: json.RawMessage("1")})
	edit := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] = v
		return b
	}
	for name, b := range map[string][]byte{
		"empty":       nil,
		"form":        edit(0, 3),
		"header only": good[:headerSize],
		"half header": good[:headerSize-1],
		"cut":         good[:len(good)-1],
		"longer":      append(bytes.Clone(good), 0),
		"no stream":   edit(25, 0),
		"no kind":     edit(26, 0),
		"long kind":   edit(26, maxKind+1),
		"huge data":   edit(27, 0xff),
		"less data":   edit(30, 0),
	} {
		if _, err := parseRecord(b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// plain is the stored form of a record whose data is not packed.
func plain(r *Record) []byte { return appendRecord(nil, r, nil) }

// The bytes of a packed record. If this test must change, old logs are lost:
// it may then only become a new form.
func TestPackedRecordGolden(t *testing.T) {
	r := Record{Seq: 1, Index: 2, Stream: "s", Kind: "k", Time: time.Unix(0, 3).UTC(), Data: json.RawMessage(`"` + strings.Repeat("abcd", 200) + `"`)}
	b := appendRecord(nil, &r, pack(new([]byte), r.Data))
	const header = "02" + "0000000000000001" + "0000000000000002" + "0000000000000003" + "01" + "01"
	if got := hex.EncodeToString(b); !strings.HasPrefix(got, header) {
		t.Errorf("encoded:\n%s, want it to begin with\n%s", got, header)
	}
	// A Snappy block by the format's description, not by our encoder: the
	// length 802 as a varint, 5 literal bytes, copies of 64 from 4 back.
	block := "a206" + "10" + "2261626364" + strings.Repeat("fe0400", 12) + "6e0400" + "00" + "22"
	raw, err := hex.DecodeString(header + "00000031" + "736b" + block)
	if err != nil {
		t.Fatal(err)
	}
	for _, stored := range [][]byte{b, raw} {
		got, err := decodeRecord(stored)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, got); diff != "" {
			t.Error(diff)
		}
	}
}

// Packed data that is no Snappy block, or claims to be larger than data can be,
// is refused and not made room for.
func TestUnpackRefuses(t *testing.T) {
	for name, block := range map[string]string{
		"nothing":      "",
		"no block":     "xyz",
		"cut":          string(pack(new([]byte), bytes.Repeat([]byte("abcd"), 400))[:20]),
		"four GiB":     "\xff\xff\xff\xff\x0f\x00",
		"over a limit": string(binary.AppendUvarint(nil, maxData+1)) + "\x00",
	} {
		b := appendRecord(nil, &Record{Stream: "s", Kind: "k"}, []byte(block))
		if _, err := decodeRecord(b); !errors.Is(err, errPacked) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// anyRecord draws a record within the limits.
func anyRecord() *rapid.Generator[Record] {
	return rapid.Custom(func(t *rapid.T) Record {
		r := Record{
			Seq:    rapid.Uint64().Draw(t, "seq"),
			Index:  rapid.Uint64().Draw(t, "index"),
			Time:   time.Unix(0, rapid.Int64Range(math.MinInt64+1, math.MaxInt64-1).Draw(t, "time")).UTC(),
			Stream: rapid.StringN(1, 60, maxStream).Draw(t, "stream"),
			Kind:   rapid.StringN(1, 30, maxKind).Draw(t, "kind"),
		}
		if d := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data"); len(d) > 0 {
			r.Data = bytes.Repeat(d, rapid.IntRange(1, 20).Draw(t, "times"))
		}
		return r
	})
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord().Draw(t, "record")
		got, err := decodeRecord(appendRecord(nil, &r, pack(new([]byte), r.Data)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestIndexKeyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, i := rapid.StringN(1, 20, maxStream).Draw(t, "stream"), rapid.Uint64Max(math.MaxUint64-1).Draw(t, "index")
		if checkName("stream", s, maxStream) != nil {
			t.Skip("a name that is not accepted")
		}
		k, next := appendIndexKey(nil, s, i), appendIndexKey(nil, s, i+1)
		if bytes.Compare(k, next) >= 0 {
			t.Fatal("keys of one stream are out of order")
		}
		stream, index, ok := splitIndexKey(k)
		if !ok || string(stream) != s || index != i {
			t.Fatalf("split into %q, %d, %v", stream, index, ok)
		}
	})
}

// FuzzRecord: no bytes panic the parser, and what it accepts it would write.
func FuzzRecord(f *testing.F) {
	f.Add(plain(&Record{Stream: "s", Kind: "k", Data: json.RawMessage("{}")}))
	f.Add(appendRecord(nil, &Record{Stream: "s", Kind: "k"}, pack(new([]byte), bytes.Repeat([]byte("abcd"), 400))))
	f.Add(plain(&Record{Seq: math.MaxUint64, Stream: strings.Repeat("s", maxStream), Kind: "k"}))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRecord(b)
		if err != nil {
			return
		}
		if b[0] == formPacked {
			return // there are many ways to pack, and the leaf hash is over the one that was taken
		}
		if !bytes.Equal(plain(&r), b) {
			t.Errorf("%x decodes and encodes differently", b)
		}
	})
}

// FuzzTree: the stored tree state parses only in the form it is written.
func FuzzTree(f *testing.F) {
	tr := tree{}
	f.Add(tr.encode())
	for range 5 {
		tr.add(tlog.Hash{1})
	}
	f.Add(tr.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		tr, err := parseTree(b)
		if err == nil && !bytes.Equal(tr.encode(), b) {
			t.Errorf("%x parses and encodes differently", b)
		}
	})
}

// At every size the tree's root is what tlog computes from all leaves.
func TestTreeRoot(t *testing.T) {
	var tr tree
	var hashes []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, x := range indexes {
			out[i] = hashes[x]
		}
		return out, nil
	})
	for n := range int64(700) {
		want, err := tlog.TreeHash(n, reader)
		if err != nil {
			t.Fatal(err)
		}
		if got := tr.root(); got != want {
			t.Fatalf("size %d: root %v, want %v", n, got, want)
		}
		back, err := parseTree(tr.encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, back.root()); diff != "" || back.size != tr.size {
			t.Fatalf("size %d: encoding changes the tree: %s", n, diff)
		}
		leaf := tlog.RecordHash([]byte{byte(n), byte(n >> 8)})
		more, err := tlog.StoredHashesForRecordHash(n, leaf, reader)
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, more...)
		tr.add(leaf)
	}
}
