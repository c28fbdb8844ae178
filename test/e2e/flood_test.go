//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/inference-responder/responder/test/e2e/rig"
)

// Whoever has the intake token of Alertmanager posts 1.2 million alerts that he made up,
// about a service of the catalog, again and again while he is told to try later. The
// service lives with the memory that deploy/ gives it, then and at its next start, and
// serves the kubelet and another Alertmanager meanwhile.
func TestFloodOfAlerts(t *testing.T) {
	const posts, each, lasts = 24, 50_000, 30 * time.Second
	limit := shippedMemory(t)
	probes := "http://" + rig.FreeAddr(t)
	s := rig.NewService(t, rig.ServiceOptions{
		Services: "services: [{namespace: serving, workload: {name: chat}, owners: ['group:oncall']}]",
		Files:    map[string]string{"other": otherToken},
		Settings: fmt.Sprintf("listen_probes: %s\nauth: {tokens: [{name: alertmanager, file: alertmanager, scopes: [intake]}, {name: other, file: other, scopes: [intake]}, {name: oncall, file: oncall, scopes: [read, metrics]}]}",
			strings.TrimPrefix(probes, "http://")),
	})
	procs := rig.LimitMemory(t, limit)
	spec := s.Spec().Within(procs)
	if procs == "" {
		spec.Env = append(spec.Env, fmt.Sprintf("GOMEMLIMIT=%d", limit/5*4))
	}
	s.Process = rig.Start(t, spec)

	bodies := make([][]byte, posts)
	for i := range bodies {
		bodies[i] = madeUp(i*each, each)
	}
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var watched, flood sync.WaitGroup
	watched.Go(func() { keepsAnswering(ctx, t, probes, s) })
	var mu sync.Mutex // guards answers
	answers := map[int]int{}
	for i := range posts {
		flood.Go(func() {
			for status := 0; status != http.StatusOK && ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
				var err error
				if status, err = postAs(ctx, s, rig.IntakeToken, bodies[i]); err != nil {
					status = 0 // refused before it was read, and the connection closed
				}
				mu.Lock()
				answers[status]++
				mu.Unlock()
			}
		})
	}
	flood.Wait()
	watched.Wait()
	survived(t, s, limit, "the flood")
	t.Logf("answers by status (0: cut off): %v", answers)
	for status := range answers {
		if status != 0 && status != http.StatusOK && status != http.StatusServiceUnavailable {
			t.Errorf("answered %d: Alertmanager would not try again", status)
		}
	}
	if refused, err := s.TryMetric(t.Context(), `responder_notifications_total{result="quota"}`); err != nil || refused == 0 || !strings.Contains(s.Log(), "delivers more than its quota") {
		t.Errorf("nobody is told of the flood: %v, %v", refused, err)
	}

	s.Kill9()
	began := time.Now()
	s.Restart(t)
	t.Logf("ready %v after the restart", time.Since(began).Round(time.Millisecond))
	rig.Await(t, time.Minute, "a notification taken in after the restart", func(ctx context.Context) (bool, string) {
		status, err := postAs(ctx, s, otherToken, madeUp(-1, 1))
		return status == http.StatusOK, fmt.Sprint(status, err)
	})
	survived(t, s, limit, "the restart")
}

const otherToken = "rig-other-token-of-no-worth"

// survived wants the process to run, within its limit.
func survived(t *testing.T, s *rig.Service, limit int64, what string) {
	t.Helper()
	if !s.Running() {
		t.Fatalf("the service did not survive %s:\n%s", what, s.Tail(20))
	}
	memory := s.Memory(t)
	t.Logf("after %s: %d MiB resident, at most %d of %d MiB", what, memory.Resident/mib, memory.Peak/mib, limit/mib)
	if own := memory.Peak - memory.Files; own > limit {
		t.Errorf("%s took %d MiB, of %d", what, own/mib, limit/mib)
	}
}

// keepsAnswering wants the kubelet to be answered until ctx is done, and the
// notifications of another Alertmanager to be taken in, at once or on being sent again.
func keepsAnswering(ctx context.Context, t *testing.T, probes string, s *rig.Service) {
	client := &http.Client{Timeout: time.Second} // the kubelet's
	missed, taken := 0, 0
	for i := 0; ctx.Err() == nil; i++ {
		resp, err := client.Get(probes + "/healthz")
		if err == nil {
			err = resp.Body.Close()
		}
		if missed++; err == nil {
			missed = 0
		}
		if missed == 3 { // the kubelet restarts the pod
			t.Errorf("three probes in a row failed: %v", err)
		}
		if status, err := postAs(ctx, s, otherToken, madeUp(-2-i, 1)); err == nil && status == http.StatusOK {
			taken++
		}
		time.Sleep(250 * time.Millisecond)
	}
	if t.Logf("%d notifications of another sender were taken in meanwhile", taken); taken == 0 {
		t.Error("another sender was kept out")
	}
}

// madeUp is a notification of alerts that differ by one label.
func madeUp(first, n int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"version":"4","status":"firing","receiver":"responder","groupKey":"g","truncatedAlerts":0,"alerts":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"status":"firing","startsAt":"2026-11-21T02:28:04Z","labels":{"alertname":"InferenceTTFTFastBurn","namespace":"serving","service":"chat","x":"%d"}}`, first+i)
	}
	b.WriteString("]}")
	return b.Bytes()
}

// postAs delivers a notification with a token and returns the status.
func postAs(ctx context.Context, s *rig.Service, token string, body []byte) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Webhook, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// shippedMemory is the memory limit of deploy/kubernetes, in bytes.
func shippedMemory(t *testing.T) int64 {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(rig.Repository(), "deploy", "kubernetes", "deployment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Spec struct {
			Template struct {
				Spec struct {
					Containers []struct {
						Resources struct{ Limits struct{ Memory string } }
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	q, err := resource.ParseQuantity(d.Spec.Template.Spec.Containers[0].Resources.Limits.Memory)
	if err != nil || q.Value() == 0 {
		t.Fatalf("the deployment limits no memory: %v", err)
	}
	return q.Value()
}
