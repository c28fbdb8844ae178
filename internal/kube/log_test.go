package kube

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// The log of the container that ended is asked for, and no more than its end.
func TestLog(t *testing.T) {
	asked := ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked = r.URL.String(); strings.Contains(asked, "denied") {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`))
			return
		}
		_, _ = w.Write([]byte(strings.Repeat("x", 2*LogBytes)))
	}))
	defer srv.Close()
	c, err := NewForConfig(&rest.Config{Host: srv.URL}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.Log(t.Context(), LogQuery{Namespace: "serving", Pod: "chat-1", Container: "engine", Previous: true, Lines: 200})
	if err != nil || len(text) != LogBytes {
		t.Fatal(len(text), err)
	}
	if want := "/api/v1/namespaces/serving/pods/chat-1/log?container=engine&limitBytes=262144&previous=true&tailLines=200&timeout=15s"; asked != want {
		t.Errorf("asked %s, want %s", asked, want)
	}
	_, err = c.Log(t.Context(), LogQuery{Namespace: "serving", Pod: "denied", Container: "engine", Lines: 1e6})
	if !strings.Contains(asked, "tailLines=500&") {
		t.Errorf("asked %s: more than 500 lines", asked)
	}
	if err == nil || !strings.Contains(err.Error(), `resources: ["pods/log"], verbs: ["get"]`) {
		t.Errorf("without the right: %v", err)
	}
}
