package agent

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// accounts knows tokens, by the accounts they are of.
type accounts map[string]string

func (a accounts) ReviewToken(_ context.Context, token string) (string, error) { return a[token], nil }

// TestMetricsAreForReaders: what names pods is shown to those who may read it,
// who get nothing else, and to everybody only where that is said.
func TestMetricsAreForReaders(t *testing.T) {
	guarded := func(change func(*Options)) Options {
		o := options()
		o.Accounts, o.Reviewer = []string{"responder/responder"}, accounts{"ours": "system:serviceaccount:responder:responder"}
		change(&o)
		return o
	}
	prometheus := accounts{"scrape": "system:serviceaccount:monitoring:prometheus-k8s", "other": "system:serviceaccount:serving:chat"}
	readers := func(o *Options) {
		o.MetricsAccounts, o.MetricsReviewer = []string{"monitoring/prometheus-k8s"}, prometheus
	}
	for name, c := range map[string]struct {
		o    Options
		want map[string]int // by token
	}{
		"nobody was named":   {guarded(func(*Options) {}), map[string]int{"": 401, "ours": 401, "scrape": 401}},
		"readers were named": {guarded(readers), map[string]int{"": 401, "ours": 401, "other": 403, "scrape": 200}},
		"everybody may":      {guarded(func(o *Options) { o.MetricsOpen = true }), map[string]int{"": 200, "other": 200}},
		"loopback alone":     {options(), map[string]int{"": 200}},
		"loopback, and readers were named": {
			func() Options { o := options(); readers(&o); return o }(), map[string]int{"": 401, "scrape": 200},
		},
	} {
		s := serverOf(t, c.o)
		for token, code := range c.want {
			w := get(s, "/metrics", token)
			if w.Code != code || (code == http.StatusOK) != strings.Contains(w.Body.String(), "chat-1") {
				t.Errorf("%s: token %q gets %d %.200s, want %d", name, token, w.Code, w.Body, code)
			}
			if (token == "" || code == http.StatusForbidden) && code != http.StatusOK && !strings.Contains(w.Body.String(), "--allow-metrics") {
				t.Errorf("%s: token %q is not told who may: %s", name, token, w.Body)
			}
		}
		if w := get(s, "/healthz", ""); w.Code != http.StatusOK {
			t.Errorf("%s: the kubelet gets %d", name, w.Code)
		}
	}
	if w := get(serverOf(t, guarded(readers)), "/v1/health", "scrape"); w.Code != http.StatusUnauthorized {
		t.Errorf("who may read metrics gets %d for a snapshot", w.Code)
	}
	if _, err := New(guarded(func(o *Options) { o.MetricsAccounts, o.MetricsReviewer = []string{"monitoring"}, prometheus })); err == nil || !strings.Contains(err.Error(), "--allow-metrics") {
		t.Errorf("an account without a namespace: %v", err)
	}
}

// TestReviewOfTheAPIServersOwn: a usual token is good where it is asked for, and
// the API server is asked about no audience then.
func TestReviewOfTheAPIServersOwn(t *testing.T) {
	o := apiServer(t, func(q tokenReview) (int, tokenReview) {
		a := q
		a.Status.Authenticated = len(q.Spec.Audiences) == 0 && q.Spec.Token == "usual"
		a.Status.Audiences = []string{"https://kubernetes.default.svc"}
		a.Status.User.Username = "system:serviceaccount:a:b"
		return http.StatusCreated, a
	})
	o.Audience, o.Own = "", true
	r, err := NewReviewer(o, nil, options().Log)
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]string{"usual": "system:serviceaccount:a:b", "bad": ""} {
		if user, err := r.ReviewToken(t.Context(), token); err != nil || user != want {
			t.Errorf("%s: %q, %v", token, user, err)
		}
	}
	o.Audience = "x"
	if _, err := NewReviewer(o, nil, options().Log); err == nil {
		t.Error("both its own audience and another")
	}
}
