package forge

import (
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/gittest"
)

// TestTextEdited: what people and their tools add to the text of a pull request
// takes it from nobody, and one whose lines they took away is not "none": that
// would be requested again.
func TestTextEdited(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		q := w.request()
		q.Digest = "sha256:abc"
		lines := strings.TrimSuffix(body(q), "\n")
		for _, test := range []struct {
			text   string
			commit string
			found  bool
		}{
			{lines, w.head, true},
			{strings.ReplaceAll(lines, "\n", "\r\n"), w.head, true},
			{lines + "  \r\n\r\n## Summary by a bot\r\n- one flag\r\n", w.head, true},
			{"Please look at this\n\n" + lines, w.head, true},
			{"Responder-Effect: 01RUN/cap/apply", "", true},
			{"I tidied this up", "", false},
			{"see Responder-Effect: 01RUN/cap/apply", "", false},
		} {
			w.Add(gittest.Pull{Branch: branch, Base: "main", Head: w.head, Text: test.text})
			p, found, err := w.c.Find(t.Context(), "main", branch, q.Effect)
			w.Drop()
			if !test.found {
				wantError(t, err, fault.Conflict, false, "no longer has the line Responder-Effect", "put \"Responder-Effect: 01RUN/cap/apply\" at its end")
				continue
			}
			if err != nil || !found || p.Commit != test.commit || (p.Digest == "sha256:abc") != (test.commit != "") {
				t.Errorf("%q: %v %+v, %v", test.text, found, p, err)
			}
		}
	})
}
