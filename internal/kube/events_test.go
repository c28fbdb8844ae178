package kube_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/internal/kube/kubetest"
)

// Events are those of the workload, its history and its pods, gone ones included, and
// of their nodes, each message once, without credentials.
func TestEvents(t *testing.T) {
	s := twoRevisions(t)
	put := func(namespace, kind, name, reason, message string, normal bool, ago time.Duration) {
		e := corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s-%s", name, strings.ToLower(reason), ago)}, Type: corev1.EventTypeWarning, Reason: reason, Message: message, Count: 1,
			InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name}, LastTimestamp: metav1.NewTime(time.Now().Add(-ago)),
		}
		if normal {
			e.Type = corev1.EventTypeNormal
		}
		s.Put("/api/v1/namespaces/"+namespace+"/events/"+e.Name, e)
	}
	put("serving", "Pod", "chat-0", "Killing", "Stopping container engine", true, time.Minute)
	put("serving", "Pod", "chat-0", "BackOff", "token=hf_0123456789abcdef0123", false, 2*time.Minute)
	put("serving", "Pod", "chat-0", "BackOff", "token=hf_0123456789abcdef0123", false, 3*time.Minute)
	put("serving", "Pod", "chat-0", "Failed", "long ago", false, 2*time.Hour)
	put("serving", "Pod", "other-0", "BackOff", "of another workload", false, time.Minute)
	put("default", "Node", "node-0", "NodeNotReady", "Node node-0 status is now: NodeNotReady", true, 4*time.Minute)
	put("default", "Node", "node-9", "Rebooted", "of a node without its pods", false, time.Minute)
	all, missing, err := s.Client(t).Events(t.Context(), chat, time.Now().Add(-time.Hour))
	if err != nil || len(missing) > 0 {
		t.Fatal(missing, err)
	}
	var got []string
	for _, e := range all {
		got = append(got, fmt.Sprintf("%dx %s %s %s %t", e.Count, e.Reason, e.Object, e.Message, e.Normal))
	}
	want := []string{
		"1x Killing Pod/chat-0 Stopping container engine true",
		"2x BackOff Pod/chat-0 token=(redacted) false",
		"1x NodeNotReady Node/node-0 Node node-0 status is now: NodeNotReady true",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Of a namespace with very many events a page at a time is read, and what is left out
// beyond a bound is told.
func TestManyEvents(t *testing.T) {
	s := twoRevisions(t)
	put := func(name, pod string) {
		s.Put("/api/v1/namespaces/serving/events/"+name, corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.EventTypeWarning, Reason: "BackOff", Count: 1,
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: pod}, LastTimestamp: metav1.NewTime(time.Now().Add(-time.Minute)),
		})
	}
	put("a", "chat-0")
	for i := range 700 {
		put(fmt.Sprintf("b-%05d", i), "other-0")
	}
	put("c", "chat-1")
	pages := 0
	s.Fail(func(r *http.Request) kubetest.Fault {
		if strings.HasSuffix(r.URL.Path, "/serving/events") {
			pages++
		}
		return kubetest.Fault{}
	})
	if all, missing, err := s.Client(t).Events(t.Context(), chat, time.Now().Add(-time.Hour)); err != nil || len(all) != 2 || len(missing) > 0 || pages != 2 {
		t.Errorf("%d events of %d pages, without %q: %v", len(all), pages, missing, err)
	}
	for i := range 19_999 {
		put(fmt.Sprintf("b-%05d", i), "other-0")
	}
	all, missing, err := s.Client(t).Events(t.Context(), chat, time.Now().Add(-time.Hour))
	if err != nil || len(all) != 1 || strings.Join(missing, "") != "what namespace serving has beyond 20000 events" || pages != 2+40 {
		t.Errorf("%d events of %d pages, without %q: %v", len(all), pages, missing, err)
	}
}
