package dynamo

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSplice: one number changes, the rest of the text stays as people wrote it, and taking
// back what was added leaves no trace.
func TestSplice(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"there":         {`{"mode": "agg", "min_endpoint": 1,"x":[1, 2]}`, `{"mode": "agg", "min_endpoint": 5,"x":[1, 2]}`},
		"over lines":    {"{\n  \"min_endpoint\" : 12\n}\n", "{\n  \"min_endpoint\" : 5\n}\n"},
		"null":          {`{"min_endpoint":null}`, `{"min_endpoint":5}`},
		"not there":     {`{"mode":"agg"}`, `{"min_endpoint": 5, "mode":"agg"}`},
		"nothing":       {` {}`, ` {"min_endpoint": 5}`},
		"only deeper":   {`{"a":{"min_endpoint":1}}`, `{"min_endpoint": 5, "a":{"min_endpoint":1}}`},
		"another spell": {`{"MIN_ENDPOINT":1}`, `{"min_endpoint": 5, "MIN_ENDPOINT":1}`},
	} {
		got, err := splice(tt.text, "min_endpoint", new(5))
		if err != nil || got != tt.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, tt.want)
		}
	}
	for _, text := range []string{"", "[]", "{", `{"min_endpoint": }`, `{"min_endpoint":1,"min_endpoint":2}`, `{"a" 1}`} {
		if got, err := splice(text, "min_endpoint", new(5)); err == nil {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// FuzzSplice: what a person wrote is the same JSON but for the one number, and the same
// text once that is taken out again.
func FuzzSplice(f *testing.F) {
	for _, s := range []string{`{"mode": "agg", "min_endpoint": 1}`, `{}`, `{ "min_endpoint":null , "a":[{}]}`, "{\n}", `{"a":"\u003c,\"min_endpoint\":1"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var before, after, back map[string]any
		changed, err := splice(text, "min_endpoint", new(5))
		if json.Unmarshal([]byte(text), &before) != nil || before == nil {
			return
		}
		if err != nil {
			return // twice
		}
		if err := json.Unmarshal([]byte(changed), &after); err != nil {
			t.Fatalf("%q becomes %q: %v", text, changed, err)
		}
		want := maps.Clone(before)
		want["min_endpoint"] = 5.0
		if diff := cmp.Diff(want, after); diff != "" {
			t.Fatalf("%q becomes %q: %s", text, changed, diff)
		}
		again, err := splice(changed, "min_endpoint", nil)
		if err != nil || json.Unmarshal([]byte(again), &back) != nil {
			t.Fatalf("%q is taken out as %q: %v", changed, again, err)
		}
		if _, was := before["min_endpoint"]; !was && again != text {
			t.Fatalf("%q comes back as %q", text, again)
		}
	})
}
