package cli

import (
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
)

// runs show leads to the trace of a run, and only where there is one.
func TestRunsShowTrace(t *testing.T) {
	for _, trace := range []string{"", "https://tempo.example/trace/0123"} {
		var out strings.Builder
		if err := writeRun(&out, &command.Process{}, api.RunReport{Run: api.Run{Trace: trace}}, shownRun{}, runview.Overview{}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "\ntrace     https://tempo.example/trace/0123\n"); got != (trace != "") {
			t.Errorf("with trace %q:\n%s", trace, out.String())
		}
	}
}
