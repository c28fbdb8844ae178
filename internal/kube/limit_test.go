package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
)

// limited returns a client with the limits of the options, and a server that
// counts what it is asked.
func limited(t testing.TB, o kube.Options) (*kube.Client, *atomic.Int64) {
	t.Helper()
	s := kubetest.New(t)
	s.Put("/apis/apps/v1/namespaces/serving/deployments/chat", &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "chat", Namespace: "serving", Generation: 1},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "chat"}}},
	})
	var asked atomic.Int64
	s.Fail(func(*http.Request) kubetest.Fault {
		asked.Add(1)
		return kubetest.Fault{}
	})
	c, err := kube.NewForConfig(&rest.Config{Host: s.URL}, o)
	if err != nil {
		t.Fatal(err)
	}
	return c, &asked
}

// TestLimit: bursts go through at once, and what is more waits its turn.
func TestLimit(t *testing.T) {
	c, asked := limited(t, kube.Options{QPS: 1, Burst: 3})
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	begun := time.Now()
	for range 3 {
		if err := c.Ping(ctx); kube.IsForbidden(err) {
			t.Fatal(err)
		}
	}
	if took := time.Since(begun); took > 400*time.Millisecond {
		t.Errorf("a burst took %s", took)
	}
	if err := c.Ping(ctx); err == nil || asked.Load() != 3 {
		t.Errorf("the fourth of three was sent: %v, %d requests", err, asked.Load())
	}
}

// BenchmarkRunsAtOnce is what many runs at once ask of the API server: each
// reads its workload, 64 at a time, as the executor lets them.
func BenchmarkRunsAtOnce(b *testing.B) {
	for _, qps := range []float32{50, 200} {
		b.Run(fmt.Sprintf("qps=%g", qps), func(b *testing.B) {
			c, asked := limited(b, kube.Options{QPS: qps})
			begun := time.Now()
			n := int64(0)
			for b.Loop() {
				var readers sync.WaitGroup
				next := make(chan struct{})
				for range 64 {
					readers.Go(func() {
						for range next {
							if _, err := c.Workload(b.Context(), kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "chat"}); err != nil {
								b.Error(err)
							}
						}
					})
				}
				for range 200 {
					next <- struct{}{}
					n++
				}
				close(next)
				readers.Wait()
			}
			b.ReportMetric(float64(asked.Load())/float64(n), "requests/read")
			b.ReportMetric(float64(n)/time.Since(begun).Seconds(), "reads/s")
		})
	}
}
