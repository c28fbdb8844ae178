package command

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestYAMLSaysWhatJSONSays(t *testing.T) {
	data := map[string]any{"digest": "sha256:00", "number as text": "123", "yes": "no", "text": "two\nlines", "list": []int{1, 2}}
	var b bytes.Buffer
	if err := WriteYAML(&b, data); err != nil {
		t.Fatal(err)
	}
	want := "digest: sha256:00\nlist:\n  - 1\n  - 2\nnumber as text: \"123\"\ntext: |-\n  two\n  lines\n\"yes\": \"no\"\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
