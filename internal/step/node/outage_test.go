package node

import (
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/kube"
)

func TestOutageOf(t *testing.T) {
	at := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	cordoned := kube.NodeState{Name: "gpu-1", Unschedulable: true, CordonedBy: kube.FieldManager, BootID: "one", Annotations: map[string]string{
		kube.MarkDrain:   kube.Mark("r-old/drain#1/apply#1", at.Add(-24*time.Hour)),
		kube.MarkCordon:  kube.Mark("r-new/cordon#1/apply#1", at),
		kube.GPUsWhenOut: at.Format(time.RFC3339) + " boot=one reset=GPU-7",
	}}
	if o := OutageOf(cordoned); !o.Ours || o.Run != "r-new" || !o.Since.Equal(at) || !o.HadGPUs || !strings.Contains(o.Unmended, "GPU-7 needed a reset") || o.Reset != "" {
		t.Errorf("%+v", o)
	}
	rebooted := cordoned
	rebooted.BootID = "two"
	if o := OutageOf(rebooted); o.Unmended != "" {
		t.Errorf("after a reboot: %+v", o)
	}
	theirs := cordoned
	theirs.CordonedBy = "kubectl"
	if o := OutageOf(theirs); o.Ours || o.Run != "" || !o.Since.IsZero() {
		t.Errorf("a cordon by somebody else: %+v", o)
	}
	asked := kube.NodeState{Labels: map[string]string{resetLabel: resetRequested}, Annotations: map[string]string{
		kube.MarkReset: kube.Mark("r-2/request-repair#1/apply#1", at), resetWhy: "all GPUs: ECC errors",
	}}
	if o := OutageOf(asked); o.Ours || !strings.Contains(o.Reset, "responder.dev/gpu-reset=requested (run r-2 at 2026-05-04 12:00 UTC") {
		t.Errorf("a request: %+v", o)
	}
	cordoned.Annotations[kube.GPUsWhenOut] = "yesterday"
	if o := OutageOf(cordoned); !strings.Contains(o.Unmended, "cannot be read") {
		t.Errorf("an annotation that cannot be read: %+v", o)
	}
}
