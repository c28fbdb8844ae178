package audit

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// fixedReader makes keys that are the same in every run.
type fixedReader byte

func (r fixedReader) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(r)
	}
	return len(b), nil
}

// newKeys returns a signer and a verifier of one key.
func newKeys(t testing.TB, name string, seed byte) (note.Signer, note.Verifier) {
	t.Helper()
	private, public, err := note.GenerateKey(fixedReader(seed), name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	return s, v
}

func TestCheckpointRoundTrip(t *testing.T) {
	signer, verifier := newKeys(t, "responder/00000000", 1)
	tr := tree{}
	tr.add(tlog.RecordHash([]byte("a")))
	b, err := signCheckpoint(&tr, signer)
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(b), "\n\n")
	if want := "responder/00000000\n1\n" + tr.root().String(); text != want {
		t.Errorf("text %q, want %q", text, want)
	}
	c, err := openCheckpoint(b, verifier)
	if err != nil {
		t.Fatal(err)
	}
	if c.size != 1 || c.root != tr.root() || c.origin != "responder/00000000" {
		t.Errorf("got %+v", c)
	}
	if _, other := newKeys(t, "responder/00000000", 2); true {
		if _, err := openCheckpoint(b, other); err == nil {
			t.Error("another key of the same name accepts it")
		}
	}
	for i := range b {
		edited := bytes.Clone(b)
		edited[i] ^= 1
		if _, err := openCheckpoint(edited, verifier); err == nil {
			t.Errorf("accepted with byte %d flipped", i)
		}
	}
}

func TestParseCheckpointRefuses(t *testing.T) {
	h := tlog.RecordHash(nil).String()
	for _, text := range []string{
		"", "o\n", "o\n1\n", "o\n1\n" + h, "\n1\n" + h + "\n", "o\n01\n" + h + "\n", "o\n+1\n" + h + "\n",
		"o\n-1\n" + h + "\n", "o\n9223372036854775808\n" + h + "\n", "o\n1\n" + h[1:] + "\n", "o\n1\n" + h + "\nmore\n",
	} {
		if _, err := parseCheckpoint(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// FuzzCheckpoint: nothing but a signed note of the one form is accepted.
func FuzzCheckpoint(f *testing.F) {
	signer, verifier := newKeys(f, "responder/00000000", 1)
	good, err := signCheckpoint(&tree{}, signer)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("responder/00000000\n1\nAAAA\n\n— responder/00000000 AAAA\n"))
	noise := make([]byte, 64)
	if _, err := rand.Read(noise); err != nil {
		f.Fatal(err)
	}
	f.Add(noise)
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := openCheckpoint(b, verifier); err == nil && !bytes.HasPrefix(b, good[:bytes.Index(good, []byte("\n\n"))]) {
			t.Errorf("accepted %q as %+v", b, c)
		}
		if c, err := parseCheckpoint(string(b)); err == nil && c.origin == "" {
			t.Error("a checkpoint without origin")
		}
	})
}
