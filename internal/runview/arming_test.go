package runview

import (
	"testing"

	"github.com/inference-responder/responder/internal/api"
)

// TestArmingOf: a service is armed only where everything that a change needs is known.
func TestArmingOf(t *testing.T) {
	const unknown = "whether Prometheus answers: it has not been asked since the start"
	for word, tt := range map[string]struct {
		arming api.Arming
		line   string
	}{
		"armed":     {api.Arming{Armed: true, Acts: []string{"oom"}, Asks: []string{"gpu-fault"}}, "Armed. Playbooks that act, without asking: oom; after people agree: gpu-fault."},
		"not known": {api.Arming{Asks: []string{"oom"}, Unknown: []string{unknown}}, "Not known yet: " + unknown + ". Playbooks that would act, after people agree: oom."},
		"not armed": {api.Arming{}, "Not armed: no new alert leads to a change of this service now."},
	} {
		got := ArmingOf(tt.arming)
		if got.Word != word || got.Armed != (word == "armed") || got.Line != tt.line {
			t.Errorf("%q, %v, %q, want %q with %q", got.Word, got.Armed, got.Line, word, tt.line)
		}
	}
}
