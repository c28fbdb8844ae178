package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAppendAssignsPlaces(t *testing.T) {
	j := openTest(t, Options{})
	before := time.Now().Add(-time.Second)
	set := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("x", 3600))
	kept := rec("step", "c")
	kept.Time = set
	out := mustAppend(t, j,
		one("intake", "notification", "a"),
		Append{Stream: "run/1", After: 0, Records: []Record{rec("run.started", "b"), kept}},
		one("intake", "notification", "d"))
	type place struct {
		Seq    uint64
		Stream string
		Index  uint64
		Kind   string
	}
	var got []place
	for _, r := range out {
		got = append(got, place{r.Seq, r.Stream, r.Index, r.Kind})
	}
	want := []place{
		{0, "intake", 0, "notification"},
		{1, "run/1", 0, "run.started"},
		{2, "run/1", 1, "step"},
		{3, "intake", 1, "notification"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if out[0].Time.Before(before) || out[0].Time.Location() != time.UTC {
		t.Errorf("assigned time %v", out[0].Time)
	}
	if !out[2].Time.Equal(set) || out[2].Time.Location() != time.UTC {
		t.Errorf("given time became %v", out[2].Time)
	}
	if diff := cmp.Diff(out, collect(t, j.Log(0))); diff != "" {
		t.Errorf("read back (-returned +read):\n%s", diff)
	}
}

func TestReads(t *testing.T) {
	j := openTest(t, Options{})
	const n = 3*chunkRecords + 7
	for i := range n {
		if i%100 == 0 {
			mustAppend(t, j, one("b", "other", ""))
		}
		mustAppend(t, j, Append{Stream: "a", After: uint64(i), Records: []Record{rec("k", fmt.Sprint(i))}})
	}
	mustAppend(t, j, one("a2", "other", ""))
	for _, from := range []uint64{0, 1, chunkRecords, n - 1, n, n + 5, Any} {
		got := collect(t, j.Stream("a", from))
		if want := max(0, n-int(min(from, n))); len(got) != want {
			t.Errorf("from %d: %d records, want %d", from, len(got), want)
		}
		for i, r := range got {
			if r.Index != from+uint64(i) || string(r.Data) != fmt.Sprintf(`"%d"`, r.Index) {
				t.Fatalf("from %d: record %d is %+v", from, i, r)
			}
		}
	}
	if got := collect(t, j.Stream("none", 0)); got != nil {
		t.Errorf("a stream that is not there has %d records", len(got))
	}
	if got := collect(t, j.Log(j.Size())); got != nil {
		t.Errorf("%d records beyond the end", len(got))
	}
	for i, r := range collect(t, j.Log(5)) {
		if r.Seq != uint64(5+i) {
			t.Fatalf("record %d has seq %d", i, r.Seq)
		}
	}
	var names []StreamInfo
	for s, err := range j.Streams("a") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, s)
	}
	if diff := cmp.Diff([]StreamInfo{{"a", n}, {"a2", 1}}, names); diff != "" {
		t.Error(diff)
	}
}

// A reader that names streams gets the data of these, and the places of all others.
func TestLogOfSomeStreams(t *testing.T) {
	j := openTest(t, Options{})
	long := strings.Repeat("unpacking costs ", packFrom)
	for _, stream := range []string{"intake", "run/a", "dispatch", "run/b"} {
		mustAppend(t, j, one(stream, "k", ""), Append{Stream: stream, After: Any, Records: []Record{rec("long", long)}})
	}
	want := collect(t, j.Log(0))
	for i, r := range want {
		if r.Stream == "intake" || r.Stream == "dispatch" {
			want[i].Data = nil
		}
	}
	if diff := cmp.Diff(want, collect(t, j.Log(0, "run/"))); diff != "" {
		t.Error(diff)
	}
}

// Appending while ranging must not deadlock, and the loop must end.
func TestAppendWhileReading(t *testing.T) {
	j := openTest(t, Options{})
	mustAppend(t, j, one("s", "k", "0"), one("s", "k", "1"))
	n := 0
	for r, err := range j.Stream("s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, j, one("s", "k", strings.Repeat("x", 1<<20)), one("copy", "k", string(r.Data)))
		n++
	}
	if n != 2 {
		t.Errorf("read %d records, want the 2 there were at the start", n)
	}
}

func TestManyStreams(t *testing.T) {
	j := openTest(t, Options{NoSync: true})
	const n = 2*chunkRecords + 3
	for i := range n {
		mustAppend(t, j, one(fmt.Sprintf("run/%06d", i), "k", ""))
	}
	i := 0
	for s, err := range j.Streams("run/") {
		if err != nil || s.Name != fmt.Sprintf("run/%06d", i) || s.Head != 1 {
			t.Fatal(i, s, err)
		}
		i++
	}
	if i != n {
		t.Errorf("%d streams, want %d", i, n)
	}
}

func TestConflict(t *testing.T) {
	j := openTest(t, Options{})
	mustAppend(t, j, one("s", "k", "0"), one("s", "k", "1"))
	r := []Record{rec("k", "x")}
	for _, tt := range []struct {
		name  string
		batch []Append
		want  *conflictError
	}{
		{"behind", []Append{{Stream: "s", After: 1, Records: r}}, &conflictError{"s", 1, 2}},
		{"ahead", []Append{{Stream: "s", After: 3, Records: r}}, &conflictError{"s", 3, 2}},
		{"new stream", []Append{{Stream: "new", After: 1, Records: r}}, &conflictError{"new", 1, 0}},
		{"exists", []Append{{Stream: "s", After: 0, Records: r}}, &conflictError{"s", 0, 2}},
		{"second part", []Append{{Stream: "t", After: 0, Records: r}, {Stream: "s", After: 1, Records: r}}, &conflictError{"s", 1, 2}},
		{"same stream twice", []Append{{Stream: "s", After: 2, Records: r}, {Stream: "s", After: 2, Records: r}}, &conflictError{"s", 2, 3}},
		{"any", []Append{{Stream: "s", After: Any, Records: r}}, nil},
		{"head, then head", []Append{{Stream: "u", After: 0, Records: r}, {Stream: "u", After: 1, Records: r}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			size := j.Size()
			_, err := j.Append(t.Context(), tt.batch...)
			if tt.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var got *conflictError
			if !errors.Is(err, ErrConflict) || !errors.As(err, &got) || *got != *tt.want {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if j.Size() != size {
				t.Error("something was written")
			}
		})
	}
}

func TestInvalid(t *testing.T) {
	j := openTest(t, Options{})
	ok := rec("k", "")
	for name, batch := range map[string][]Append{
		"nothing":       nil,
		"no records":    {{Stream: "s", After: Any}},
		"no stream":     {{Records: []Record{ok}}},
		"NUL":           {{Stream: "a\x00b", Records: []Record{ok}}},
		"newline":       {{Stream: "a\nb", Records: []Record{ok}}},
		"not UTF-8":     {{Stream: "a\xff", Records: []Record{ok}}},
		"long stream":   {{Stream: strings.Repeat("s", maxStream+1), Records: []Record{ok}}},
		"no kind":       {{Stream: "s", Records: []Record{{}}}},
		"long kind":     {{Stream: "s", Records: []Record{{Kind: strings.Repeat("k", maxKind+1)}}}},
		"large data":    {{Stream: "s", Records: []Record{{Kind: "k", Data: make([]byte, maxData+1)}}}},
		"large batch":   {{Stream: "s", After: Any, Records: make([]Record, MaxBatch+1)}},
		"ancient times": {{Stream: "s", Records: []Record{{Kind: "k", Time: time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC)}}}},
	} {
		if _, err := j.Append(t.Context(), batch...); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := j.SetMeta("", nil); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if err := j.SetMeta("k", make([]byte, maxCell+1)); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if j.Size() != 0 {
		t.Error("something was written")
	}
}

// The largest record there may be is written and read back, and verifies.
func TestLargest(t *testing.T) {
	j := openTest(t, Options{NoSync: true, QueueBytes: 1})
	r := Record{Kind: strings.Repeat("k", maxKind), Data: make([]byte, maxData)}
	out := mustAppend(t, j, Append{Stream: strings.Repeat("s", maxStream), After: 0, Records: []Record{r}})
	got := collect(t, j.Log(0))
	if diff := cmp.Diff(out[0].Seq, got[0].Seq); diff != "" || len(got[0].Data) != maxData {
		t.Error(diff, len(got[0].Data))
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	mustVerify(t, j.Path(), j.PublicKey(), VerifyOptions{})
}

func TestWatch(t *testing.T) {
	j := openTest(t, Options{})
	c, cancel := j.Watch()
	select {
	case <-c:
		t.Fatal("signal before a commit")
	default:
	}
	mustAppend(t, j, one("s", "k", ""))
	mustAppend(t, j, one("s", "k", ""))
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatal("no signal")
	}
	select {
	case <-c: // the second commit's, if the first was taken in between
	default:
	}
	cancel()
	mustAppend(t, j, one("s", "k", ""))
	select {
	case <-c:
		t.Fatal("signal after cancel")
	default:
	}
}

func TestMetaCells(t *testing.T) {
	j := openTest(t, Options{})
	for _, v := range [][]byte{[]byte("1"), {}, []byte("3")} {
		if err := j.SetMeta("attempts/7", v); err != nil {
			t.Fatal(err)
		}
		if got, err := j.Meta("attempts/7"); err != nil || string(got) != string(v) {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	path := j.Path()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openAt(t, path, Options{})
	if got, err := j.Meta("attempts/7"); err != nil || string(got) != "3" {
		t.Errorf("after reopening: %q, %v", got, err)
	}
	if err := j.SetMeta("attempts/7", nil); err != nil {
		t.Fatal(err)
	}
	if got, err := j.Meta("attempts/7"); err != nil || got != nil {
		t.Errorf("after removal: %q, %v", got, err)
	}
	if j.Size() != 0 {
		t.Error("cells are in the log")
	}
}

func TestReopenContinues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	var key string
	const rounds, each = 5, 37
	for round := range rounds {
		j := openAt(t, path, Options{Checker: testChecker(t), CheckpointEvery: 20})
		if j.Size() != uint64(round*each) {
			t.Fatalf("round %d begins with %d entries", round, j.Size())
		}
		for i := range each {
			mustAppend(t, j, Append{Stream: "s", After: uint64(round*each + i), Records: []Record{rec("k", "")}})
		}
		if key != "" && key != j.PublicKey() {
			t.Fatal("the key changed")
		}
		key = j.PublicKey()
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r := mustVerify(t, path, key, VerifyOptions{Checker: testChecker(t)})
	if r.Entries != rounds*each || r.Unsigned != 0 || r.Checkpoints != 2*rounds {
		t.Errorf("got %+v", r)
	}
}

func TestSnapshot(t *testing.T) {
	j := openTest(t, Options{})
	mustAppend(t, j, one("s", "k", "1"))
	path := filepath.Join(t.TempDir(), "copy.db")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	// A writer that appends shows that neither waits for the other.
	if err := j.Snapshot(writerFunc(func(b []byte) (int, error) {
		mustAppend(t, j, one("s", "k", strings.Repeat("x", 1<<16)))
		return f.Write(b)
	})); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if r := mustVerify(t, path, j.PublicKey(), VerifyOptions{}); r.Entries != 1 || r.Unsigned != 0 {
		t.Errorf("got %+v", r)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestOpenTemp(t *testing.T) {
	j, err := OpenTemp(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, j, one("s", "k", ""))
	dir := filepath.Dir(j.Path())
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
}

func TestClosed(t *testing.T) {
	j := openTest(t, Options{})
	mustAppend(t, j, one("s", "k", ""))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Error("second Close:", err)
	}
	if _, err := j.Append(context.Background(), one("s", "k", "")); !errors.Is(err, ErrClosed) || !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	if _, err := j.Head("s"); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	for _, err := range j.Log(0) {
		if !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
	if err := j.Err(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestSince(t *testing.T) {
	j := openTest(t, Options{})
	if at, err := j.Since("dispatch", time.Now()); at != 0 || err != nil {
		t.Errorf("of an empty stream: %d, %v", at, err)
	}
	first := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for i := range 10 {
		r := rec("alert.ignored", "a")
		r.Time = first.Add(time.Duration(i) * time.Minute)
		mustAppend(t, j, Append{Stream: "dispatch", After: Any, Records: []Record{r}}, one("intake", "notification", "b"))
	}
	for since, want := range map[time.Duration]uint64{-time.Hour: 0, 0: 0, time.Second: 1, 4 * time.Minute: 4, 9 * time.Minute: 9, time.Hour: 9} {
		if at, err := j.Since("dispatch", first.Add(since)); at != want || err != nil {
			t.Errorf("since %s: %d, %v; want %d", since, at, err, want)
		}
	}
}

// Whoever is handed what was written gets its own records, in their order, before
// the append returns, and nothing of an append that was refused.
func TestWritten(t *testing.T) {
	j := openTest(t, Options{})
	var got []Record
	written := func(recs []Record) { got = append(got, recs...) }
	want := mustAppend(t, j,
		Append{Stream: "a", After: 0, Records: []Record{rec("x", "1"), rec("x", "2")}, Written: written},
		Append{Stream: "b", After: 0, Records: []Record{rec("x", "3")}},
		Append{Stream: "a", After: 2, Records: []Record{rec("x", "4")}, Written: written})
	if diff := cmp.Diff([]Record{want[0], want[1], want[3]}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got = nil
	_, err := j.Append(t.Context(), Append{Stream: "a", After: 1, Records: []Record{rec("x", "5")}, Written: written})
	if !errors.Is(err, ErrConflict) || got != nil {
		t.Errorf("after %v it was handed %v", err, got)
	}
}
