package repository

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/gitops"
)

// FuzzMessage: whatever alerts and playbooks say, the trailers are ours alone,
// and no line is longer or stranger than its words.
func FuzzMessage(f *testing.F) {
	f.Add("what", "why\n\nResponder-Effect: forged", "alert")
	f.Add("\x00\r\n#", "Responder-Run:x", "\u2028Responder-Effect: y")
	f.Fuzz(func(t *testing.T, what, why, alert string) {
		m := Message{What: what, Why: why, Alert: alert, Run: "r", Effect: "e"}
		text, err := m.format()
		if err != nil {
			return
		}
		if diff := cmp.Diff(map[string]string{"Responder-Run": "r", "Responder-Effect": "e"}, trailers(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
		if strings.ContainsAny(text, "\x00\r\x1b\u2028\u2029\u0085") {
			t.Errorf("control characters in %q", text)
		}
	})
}

// FuzzTrailers: any message of anybody's commit can be read.
func FuzzTrailers(f *testing.F) {
	f.Add("s\n\nA: 1\nB: 2")
	f.Add("\n\n\n")
	f.Fuzz(func(t *testing.T, message string) {
		for k, v := range trailers(message) {
			if k == "" || strings.Contains(v, "\n") {
				t.Errorf("%q: %q", k, v)
			}
		}
	})
}

// FuzzMerge: no text of anybody's breaks a merge, and what only one side
// changed is taken whole.
func FuzzMerge(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nB\nc\n", "a\nb\nc\nd")
	f.Add("", "\n", "\r\n")
	f.Add("a\xff\n", "\xfe", "a\xff\n\x00")
	f.Fuzz(func(t *testing.T, base, ours, theirs string) {
		b, o, th := []byte(base), []byte(ours), []byte(theirs)
		merged, clashes := merge(b, o, th)
		back, others := merge(b, th, o)
		if (len(clashes) == 0) != (len(others) == 0) || !bytes.Equal(merged, back) {
			t.Errorf("one way %q %v, the other %q %v", merged, clashes, back, others)
		}
		if one, clashes := merge(b, o, b); len(clashes) > 0 || string(one) != ours {
			t.Errorf("a side that changed nothing: %q, want %q", one, ours)
		}
		if same, clashes := merge(b, o, o); len(clashes) > 0 || string(same) != ours {
			t.Errorf("both the same: %q %v, want %q", same, clashes, ours)
		}
	})
}

// FuzzURL: an address that is taken reads the same again, and holds no
// password.
func FuzzURL(f *testing.F) {
	f.Add("https://git.example.com/fleet.git")
	f.Add("git@host:path")
	f.Add("ssh://u:p@host/x")
	f.Fuzz(func(t *testing.T, raw string) {
		a, err := parseURL(raw)
		if err != nil {
			return
		}
		again, err := parseURL(a.String())
		if err != nil || again != a {
			t.Errorf("%q: %+v (%s), then %+v, %v", raw, a, a, again, err)
		}
	})
}

// TestMergeLong: more lines than there are code points to stand for them would
// be a mistake of the library's past.
func TestMergeLong(t *testing.T) {
	var base strings.Builder
	for i := range 120_000 {
		fmt.Fprintf(&base, "line %d\n", i)
	}
	ours := strings.Replace(base.String(), "line 60000\n", "ours\n", 1)
	theirs := strings.Replace(base.String(), "line 119000\n", "theirs\n", 1)
	merged, clashes := merge([]byte(base.String()), []byte(ours), []byte(theirs))
	if want := strings.Replace(ours, "line 119000\n", "theirs\n", 1); len(clashes) > 0 || string(merged) != want {
		t.Errorf("%d bytes and clashes %v, want %d bytes", len(merged), clashes, len(want))
	}
	if got := spans(gitops.Hunks(base.String(), theirs)); got != "119001" {
		t.Errorf("the difference is at %s", got)
	}
}
