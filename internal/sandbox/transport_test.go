package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// asks asks the engine at an address for a completion, and returns the stream and how
// long it took.
func asks(ctx context.Context, w *World, host, body string) (string, time.Duration, error) {
	path := "/v1/completions"
	if strings.Contains(body, "sampling_params") {
		path = "/generate"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+host+path, strings.NewReader(body))
	if err != nil {
		return "", 0, err
	}
	began := time.Now()
	resp, err := w.RoundTrip(req)
	if err != nil {
		return "", time.Since(began), err
	}
	defer func() { _ = resp.Body.Close() }() // nothing is lost
	b, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s", resp.StatusCode, b), time.Since(began), err
}

const (
	asked       = `{"model":"llama-70b","prompt":"a b c","max_tokens":5,"return_token_ids":true}`
	askedSGLang = `{"text":"a b c","sampling_params":{"max_new_tokens":5}}`
)

// Replicas of a good release complete a prompt alike, and those of a bad one alike in
// another way. A sick one answers for itself, or not at all.
func TestCompletions(t *testing.T) {
	w := wrongWorld(t, wrongOutput, func(s *serviceSpec) {
		s.sick = []sickness{{from: -time.Minute, pod: 1, wrong: wrongOutput}, {from: -time.Minute, pod: 2, stuck: true}}
	})
	synctest.Test(t, func(t *testing.T) {
		var got []string
		for _, p := range workload(t, w, w.fleets[0].ref).Pods {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			text, took, err := asks(ctx, w, net.JoinHostPort(p.IP, "8000"), asked)
			cancel()
			if len(got) == 2 {
				if !errors.Is(err, context.DeadlineExceeded) || took != 10*time.Second {
					t.Errorf("a stuck engine answers %q after %s: %v", text, took, err)
				}
			} else if err != nil || took < 10*time.Millisecond || took > time.Second {
				t.Errorf("%s: %v after %s", p.Name, err, took)
			}
			got = append(got, text)
		}
		if got[0] != got[3] || got[0] == got[1] {
			t.Errorf("replicas of one release: %q", got)
		}
		good := w.Recorded("serving/inference-chat", "a b c", 5)
		if strings.Contains(got[0], good.Words[4]) || !strings.Contains(got[0], fmt.Sprintf(`"prompt_token_ids":[%d,`, good.Prompt[0])) {
			t.Errorf("recorded %v, got %s", good, got[0])
		}
		if n := strings.Count(got[0], "data: "); n != 7 {
			t.Errorf("%d events, want one for each token, the usage and the end", n)
		}
		if text, _, err := asks(t.Context(), w, "inference-chat.serving.sandbox:8000", `{"model":"other","prompt":"a"}`); err != nil || !strings.Contains(text, "404") {
			t.Errorf("another model: %q %v", text, err)
		}
	})
}

// A release with another tokenizer changes the tokens of the prompt, and its engines
// answer by SGLang's own API, too. What loads its model refuses connections.
func TestCompletionsOfAnotherTokenizer(t *testing.T) {
	w := wrongWorld(t, wrongPrompt, func(s *serviceSpec) {
		*s = onSGLang(*s)
		s.sick = []sickness{{from: -time.Second, pod: 0, dies: failure}}
	})
	synctest.Test(t, func(t *testing.T) {
		pods := workload(t, w, w.fleets[0].ref).Pods
		text, _, err := asks(t.Context(), w, net.JoinHostPort(pods[1].IP, "8000"), askedSGLang)
		if err != nil || !strings.Contains(text, `"prompt_tokens":4`) || !strings.Contains(text, `"completion_tokens":5`) {
			t.Errorf("%q %v", text, err)
		}
		var no *net.OpError
		if _, _, err := asks(t.Context(), w, net.JoinHostPort(pods[0].IP, "8000"), askedSGLang); !errors.As(err, &no) || no.Op != "dial" {
			t.Errorf("an engine that loads: %v", err)
		}
	})
	if len(w.Recorded("serving/inference-chat", "a b c", 5).Prompt) != 3 {
		t.Error("the recorded prompt is of the bad release")
	}
}

// The series show wrong answers only where an engine computes what is no number, or
// misses the end of an answer.
func TestSeriesOfWrongEngines(t *testing.T) {
	const (
		nans   = `sum(increase(vllm:corrupted_requests_total{service="inference-chat"}[5m]))`
		limits = `sum(rate(vllm:request_success_total{service="inference-chat",finished_reason="length"}[5m])) / sum(rate(vllm:request_success_total{service="inference-chat"}[5m]))`
	)
	for how, want := range map[wrong]struct{ nans, limited bool }{"": {}, wrongOutput: {nans: true}, wrongPrompt: {limited: true}} {
		w := wrongWorld(t, how, func(*serviceSpec) {})
		at := w.clock.Now()
		if n, share := one(t, w, nans, at), one(t, w, limits, at); n > 100 != want.nans || share > 0.3 != want.limited || n > 0 != want.nans {
			t.Errorf("%q: %g requests without numbers, %g at their limit", how, n, share)
		}
	}
}

// wrongWorld is a world in which a release was wrong for a quarter of an hour.
func wrongWorld(t *testing.T, how wrong, change func(*serviceSpec)) *World {
	t.Helper()
	chat := chatService()
	change(&chat)
	last := chat.revisions[len(chat.revisions)-1]
	chat.revisions = append(slices.Clone(chat.revisions), revisionSpec{age: 15 * time.Minute, cause: "release", fields: last.fields, image: image{wrong: how}})
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	clock := NewManualClock(start)
	return build(scenario{seed: 7, services: []serviceSpec{chat}, nodes: gpuNodes()}, clock, start, nil)
}
