package kube_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
)

const (
	hpaAt    = "/apis/autoscaling/v2/namespaces/serving/horizontalpodautoscalers/"
	scaledAt = "/apis/keda.sh/v1alpha1/namespaces/serving/scaledobjects/"
)

// putScaler stores an autoscaler of chat, and returns its path.
func putScaler(s *kubetest.Server, kind string, bounds map[string]any) string {
	path, spec := hpaAt+"auto", map[string]any{"scaleTargetRef": map[string]any{"kind": "Deployment", "name": "chat"}}
	if kind == kube.ScaledObject {
		s.Serve("keda.sh/v1alpha1", "scaledobjects")
		path = scaledAt + "auto"
	}
	for k, v := range bounds {
		spec[k] = v
	}
	s.Put(path, map[string]any{"metadata": map[string]any{"name": "auto", "namespace": "serving", "uid": "uid-auto"}, "spec": spec})
	return path
}

func find(t *testing.T, c *kube.Client) kube.Autoscaler {
	t.Helper()
	a, err := c.AutoscalerOf(t.Context(), chat)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestSetBounds: only the bounds that differ are written, with the marks, and a bound
// that was not written before is removed again.
func TestSetBounds(t *testing.T) {
	n := func(v int) *int { return &v }
	for name, tt := range map[string]struct {
		kind   string
		spec   map[string]any
		to     kube.Bounds
		stored string // beside scaleTargetRef
	}{
		"both":               {kube.HPA, map[string]any{"minReplicas": 2, "maxReplicas": 4}, kube.Bounds{Min: n(6), Max: n(6)}, `"maxReplicas":6,"minReplicas":6`},
		"the lower":          {kube.HPA, map[string]any{"minReplicas": 2, "maxReplicas": 8}, kube.Bounds{Min: n(6), Max: n(8)}, `"maxReplicas":8,"minReplicas":6`},
		"not written before": {kube.ScaledObject, nil, kube.Bounds{Min: n(3)}, `"minReplicaCount":3`},
		"from nothing":       {kube.ScaledObject, map[string]any{"minReplicaCount": 0, "maxReplicaCount": 2}, kube.Bounds{Min: n(3), Max: n(3)}, `"maxReplicaCount":3,"minReplicaCount":3`},
		"not written any more": {
			kube.ScaledObject,
			map[string]any{"minReplicaCount": 3, "maxReplicaCount": 4, "pollingInterval": 5},
			kube.Bounds{},
			`"pollingInterval":5`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := twoRevisions(t)
			path := putScaler(s, tt.kind, tt.spec)
			c := s.Client(t)
			a := find(t, c)
			ch := kube.BoundsChange{Ref: a.Ref, UID: a.UID, Stamp: a.Stamp(), To: tt.to, DryRun: true, Run: "r-1", Key: "r-1/x#1/apply#1"}
			before := s.Spec(path)
			if dry, err := c.SetBounds(t.Context(), ch); err != nil || dry.Bounds.String() != tt.to.String() || s.Spec(path) != before {
				t.Fatalf("dry-run: %+v, %v, stored %s", dry, err, s.Spec(path))
			}
			ch.DryRun = false
			s.BeforePatch(func() { // the autoscaler writes its status
				s.Put(path, map[string]any{"metadata": map[string]any{"name": "auto", "namespace": "serving", "uid": "uid-auto"}, "spec": specOf(t, s, path), "status": map[string]any{"x": 1}})
			})
			after, err := c.SetBounds(t.Context(), ch)
			if err != nil || after.Annotations[kube.AnnotationRun] != "r-1" || after.Annotations[kube.AnnotationEffect] != ch.Key {
				t.Fatalf("%+v, %v", after, err)
			}
			if got := s.Spec(path); !strings.Contains(strings.Trim(got, "{}"), tt.stored) || strings.Count(got, ":") != strings.Count(tt.stored, ":")+3 {
				t.Errorf("stored %s, want %s", got, tt.stored)
			}
			if now := find(t, c); now.Stamp() == a.Stamp() || now.Stamp() != after.Stamp() {
				t.Errorf("stamps: %q, then %q, read %q", a.Stamp(), after.Stamp(), now.Stamp())
			}
		})
	}
}

func specOf(t *testing.T, s *kubetest.Server, path string) (spec map[string]any) {
	t.Helper()
	s.Change(path, func(o map[string]any) { spec = o["spec"].(map[string]any) })
	return spec
}

// TestSetBoundsRefuses: what moved since it was read is a conflict, and nothing is
// written.
func TestSetBoundsRefuses(t *testing.T) {
	n := func(v int) *int { return &v }
	for name, tt := range map[string]struct {
		change func(*kube.BoundsChange)
		before func(*kubetest.Server) // the patch arrives
		reason fault.Reason
	}{
		"no precondition":   {func(c *kube.BoundsChange) { c.Stamp = "" }, nil, fault.Invalid},
		"upside down":       {func(c *kube.BoundsChange) { c.To = kube.Bounds{Min: n(5), Max: n(4)} }, nil, fault.Invalid},
		"another kind":      {func(c *kube.BoundsChange) { c.Ref.Kind = "PodAutoscaler" }, nil, fault.Invalid},
		"recreated":         {func(c *kube.BoundsChange) { c.UID = "uid-before" }, nil, fault.Conflict},
		"other bounds":      {func(c *kube.BoundsChange) { c.Stamp = "1..4" }, nil, fault.Conflict},
		"another run's":     {func(c *kube.BoundsChange) { c.Stamp = "2..4 r-0/x#1/apply#1" }, nil, fault.Conflict},
		"as it is":          {func(c *kube.BoundsChange) { c.To = kube.Bounds{Min: n(2), Max: n(4)} }, nil, fault.NothingToDo},
		"somebody is first": {func(*kube.BoundsChange) {}, func(s *kubetest.Server) { s.Edit(hpaAt+"auto", func(spec map[string]any) { spec["minReplicas"] = 3 }) }, fault.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			s := twoRevisions(t)
			putScaler(s, kube.HPA, map[string]any{"minReplicas": 2, "maxReplicas": 4})
			c := s.Client(t)
			a := find(t, c)
			ch := kube.BoundsChange{Ref: a.Ref, UID: a.UID, Stamp: a.Stamp(), To: kube.Bounds{Min: n(4), Max: n(4)}, Run: "r-1", Key: "r-1/x#1/apply#1"}
			tt.change(&ch)
			if tt.before != nil {
				s.BeforePatch(func() { tt.before(s) })
			}
			_, err := c.SetBounds(t.Context(), ch)
			var e *fault.Error
			if !errors.As(err, &e) || e.Reason != tt.reason || e.Unknown {
				t.Errorf("%v, want %s", err, tt.reason)
			}
			if w := s.Writes(); len(w) > 0 {
				t.Errorf("wrote %v", w)
			}
		})
	}
}

// TestAutoscalerOf: the object that is changed is the one from which KEDA makes its HPA,
// and what that HPA reports is read.
func TestAutoscalerOf(t *testing.T) {
	s := twoRevisions(t)
	c := s.Client(t)
	var e *fault.Error
	if _, err := c.AutoscalerOf(t.Context(), chat); !errors.As(err, &e) || e.Reason != fault.NotFound {
		t.Errorf("without one: %v", err)
	}
	s.Put(hpaAt+"keda-hpa", map[string]any{
		"metadata": map[string]any{
			"name": "keda-hpa", "namespace": "serving",
			"ownerReferences": []any{map[string]any{"kind": "ScaledObject", "name": "auto", "uid": "uid-auto", "controller": true}},
		},
		"spec": map[string]any{"scaleTargetRef": map[string]any{"kind": "Deployment", "name": "chat"}, "minReplicas": 1, "maxReplicas": 100},
		"status": map[string]any{"currentReplicas": 3, "desiredReplicas": 4, "conditions": []any{
			map[string]any{"type": "ScalingActive", "status": "False", "reason": "FailedGetExternalMetric", "message": "no metric"},
			map[string]any{"type": "ScalingLimited", "status": "True", "reason": "TooManyReplicas", "message": "more than the maximum"},
		}},
	})
	if a := find(t, c); a.Ref.Kind != kube.HPA || len(a.Owners) != 1 || a.Owners[0].Kind != "ScaledObject" {
		t.Errorf("an HPA whose ScaledObject is not served: %+v", a)
	}
	path := putScaler(s, kube.ScaledObject, map[string]any{"idleReplicaCount": 0})
	s.Change(path, func(o map[string]any) { o["status"] = map[string]any{"hpaName": "keda-hpa"} })
	a := find(t, c)
	got := fmt.Sprint(a.Ref.Kind, a.Bounds, a.Min(), a.Max(), a.Current, a.Desired, *a.Idle, len(a.Owners), a.Limited, a.Broken)
	if want := "ScaledObject.. 0 100 3 4 0 0more than the maximumFailedGetExternalMetric: no metric"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	s.Fail(func(r *http.Request) kubetest.Fault {
		if strings.HasSuffix(r.URL.Path, "/keda-hpa") {
			return kubetest.Fault{Status: 403}
		}
		return kubetest.Fault{}
	})
	if _, err := c.AutoscalerOf(t.Context(), chat); !errors.As(err, &e) || e.Reason != fault.Forbidden {
		t.Errorf("with an HPA that cannot be read: %v", err)
	}
}

// TestPausedAutoscaler: KEDA takes an annotation that it cannot read as true.
func TestPausedAutoscaler(t *testing.T) {
	for _, tt := range []struct {
		key, value string
		paused     bool
	}{
		{"autoscaling.keda.sh/paused", "true", true},
		{"autoscaling.keda.sh/paused", "false", false},
		{"autoscaling.keda.sh/paused", "", true},
		{"autoscaling.keda.sh/paused-scale-out", "true", true},
		{"autoscaling.keda.sh/paused-scale-in", "true", false},
		{"autoscaling.keda.sh/paused-replicas", "0", true},
		{"team", "chat", false},
	} {
		s := twoRevisions(t)
		s.Change(putScaler(s, kube.ScaledObject, nil), func(o map[string]any) {
			o["metadata"].(map[string]any)["annotations"] = map[string]any{tt.key: tt.value}
		})
		if a := find(t, s.Client(t)); (a.Paused != "") != tt.paused {
			t.Errorf("%s: %s is paused by %q", tt.key, tt.value, a.Paused)
		}
	}
}

// TestParseBounds: what is written is read again, and nothing else.
func TestParseBounds(t *testing.T) {
	for _, s := range []string{"2..8", "..8", "2..", "..", "0..1", "2..8 paused", ".. paused"} {
		if b, err := kube.ParseBounds(s); err != nil || b.String() != s {
			t.Errorf("%s is read as %s, %v", s, b, err)
		}
	}
	for _, s := range []string{"", "2", "2-8", "2...8", "-1..8", "a..8", "2..8..9", "2..8 pause", "2..8paused", " paused", "2..8 paused paused"} {
		if b, err := kube.ParseBounds(s); err == nil {
			t.Errorf("%q is read as %s", s, b)
		}
	}
}
