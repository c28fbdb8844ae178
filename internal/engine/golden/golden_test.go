package golden

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/engine/golden/goldentest"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// asking returns probes of one service with the engine as its endpoint and replica.
func asking(t *testing.T, e *goldentest.Engine, s Settings) (*Probes, Replica) {
	t.Helper()
	u, err := url.Parse(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	s.Endpoint = e.URL
	if s.Model == "" {
		s.Model = "chat"
	}
	if s.Timeout == 0 {
		s.Timeout = time.Minute
	}
	p, err := New(map[string]Settings{"svc": s})
	if err != nil {
		t.Fatal(err)
	}
	return p, Replica{Name: "chat-0", IP: u.Hostname(), Port: port}
}

var two = []Prompt{
	{Name: "plain", Prompt: "the quick brown fox"},
	{Name: "chat", Messages: []Message{{"system", "be brief"}, {"user", "hello"}}},
}

// TestProtocols: by each way of asking, the recorded answer matches as long as the
// engine is the same, and the first token that is another one is found.
func TestProtocols(t *testing.T) {
	for _, tt := range []struct {
		name   string
		o      goldentest.Options
		engine string
		path   string // of the request for a text
		ids    bool
	}{
		{"vllm", goldentest.Options{IDs: true}, "vllm", "/v1/completions", true},
		{"old vllm", goldentest.Options{}, "vllm", "/v1/completions", false},
		{"sglang", goldentest.Options{Native: true}, "sglang", "/generate", true},
		{"sglang incremental", goldentest.Options{Native: true, Delta: true}, "sglang", "/generate", true},
		{"dynamo", goldentest.Options{IDs: true}, "dynamo", "/v1/completions", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := goldentest.Start(t, tt.o)
			p, replica := asking(t, e, Settings{Engine: tt.engine})
			a := p.AskReplica(t.Context(), "svc", replica, two, noon)
			if a.State != Answered || a.Status != 200 || len(a.Completions) != 2 {
				t.Fatalf("%+v", a)
			}
			asked := e.Asked()
			if asked[0].Path != tt.path || asked[1].Path != "/v1/chat/completions" {
				t.Errorf("asked at %s and %s", asked[0].Path, asked[1].Path)
			}
			recorded := make([]Prompt, len(two))
			for i, c := range a.Completions {
				recorded[i] = two[i]
				recorded[i].Expect = c.expected()
				if i == 0 && (len(c.tokens) == 16) != tt.ids || c.promptTokens == 0 || c.text == "" || c.length() != 16 {
					t.Errorf("%s: %d ids, %d prompt tokens, %d tokens", recorded[i].Name, len(c.tokens), c.promptTokens, c.length())
				}
			}
			e.Change(func(o *goldentest.Options) { o.Broken, o.From = true, 5 })
			bad := p.AskReplica(t.Context(), "svc", replica, recorded, noon.Add(time.Hour))
			for i, c := range a.Completions {
				if m := recorded[i].Compare(c, 16); !m.Compared || m.At != -1 || m.Prompt {
					t.Errorf("%s: the recorded answer itself: %+v", recorded[i].Name, m)
				}
				if m := recorded[i].Compare(bad.Completions[i], 16); !m.Compared || m.At != 5 || m.Prompt {
					t.Errorf("%s: another token 5: %+v", recorded[i].Name, m)
				}
				if at := c.Differ(bad.Completions[i]); at != 5 {
					t.Errorf("%s: differs from the other replica at %d", recorded[i].Name, at)
				}
			}
			e.Change(func(o *goldentest.Options) { o.Broken, o.Template = false, true })
			for i, c := range p.AskReplica(t.Context(), "svc", replica, recorded, noon.Add(2*time.Hour)).Completions {
				if m := recorded[i].Compare(c, 16); m.At != -1 || !m.Prompt {
					t.Errorf("%s: another template: %+v", recorded[i].Name, m)
				}
			}
		})
	}
}

// TestDeterministic: what is sent asks for the likeliest tokens, and for ids only where
// the engine knows them.
func TestDeterministic(t *testing.T) {
	e := goldentest.Start(t, goldentest.Options{Token: "engine-key"})
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("engine-key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, replica := asking(t, e, Settings{Engine: "vllm", TokenFile: key, EngineToken: key})
	if a := p.AskReplica(t.Context(), "svc", replica, two[:1], noon); a.State != Answered {
		t.Fatalf("%+v", a)
	}
	if a := p.AskGateway(t.Context(), "svc", two[:1], noon); a.State != Answered {
		t.Fatalf("%+v", a)
	}
	for i, r := range e.Asked() {
		if r.Body["temperature"] != 0.0 || r.Body["seed"] != 0.0 || r.Body["max_tokens"] != 16.0 || r.Body["stream"] != true || r.Authorization != "Bearer engine-key" {
			t.Errorf("%+v", r)
		}
		if ids := r.Body["return_token_ids"] == true; ids != (i == 0) {
			t.Errorf("request %d asks for ids: %v; a gateway may refuse what it does not know", i, ids)
		}
	}
}

// TestBadAnswers: whatever comes back is told apart, and nothing of it is repeated.
func TestBadAnswers(t *testing.T) {
	const canary = "canary-7f3a"
	say := func(status int, kind, text string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text))
			return true
		}
	}
	const sse = "text/event-stream"
	tokenOf := func(text string) string {
		return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"text\":%q,\"finish_reason\":null}]}\n\n", text)
	}
	for _, tt := range []struct {
		name    string
		handler func(http.ResponseWriter, *http.Request) bool
		state   State
		status  int
		why     string
	}{
		{"unauthorized", say(401, "application/json", `{"error":"`+canary+`"}`), Failed, 401, "token_file"},
		{"no model", say(404, "application/json", `{"error":{"type":"NotFoundError","message":"`+canary+`"}}`), Failed, 404, "probe.model"},
		{"no path", say(404, "application/json", `{"detail":"Not Found"}`), Failed, 404, "probe.path"},
		{"too many", say(429, "text/plain", canary), Failed, 429, "too many requests"},
		{"broken", say(500, "text/plain", canary), Failed, 500, "500"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "http://elsewhere.test/"+canary, http.StatusTemporaryRedirect)
			return true
		}, Failed, 307, "redirects are not followed"},
		{"html", say(200, "text/html", "<html>"+canary), Failed, 200, "no event stream"},
		{"json", say(200, "application/json", `{"choices":[{"text":"`+canary+`"}]}`), Failed, 200, "no event stream"},
		{"empty", say(200, sse, ""), Failed, 200, "ended before"},
		{"only done", say(200, sse, "data: [DONE]\n\n"), Failed, 200, "empty"},
		{"half", say(200, sse, tokenOf(canary)+`data: {"choices":[{"ind`), Failed, 200, "ended before"},
		{"error in the stream", say(200, sse, tokenOf("a")+`data: {"error":{"message":"`+canary+`"}}`+"\n\ndata: [DONE]\n\n"), Failed, 200, "an error within"},
		{"no JSON", say(200, sse, "data: "+canary+"\n\n"), Failed, 200, "not JSON"},
		{"other JSON", say(200, sse, "data: {\"a\":\""+canary+"\"}\n\n"), Failed, 200, "not JSON of a completion"},
		{"enormous line", say(200, sse, "data: "+strings.Repeat("x", maxLine+1)+"\n\n"), Failed, 200, "larger than"},
		{"endless comments", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", sse)
			for range maxStream/1000 + 2 {
				if _, err := fmt.Fprint(w, ":"+strings.Repeat(" ", 998)+"\n"); err != nil {
					break
				}
			}
			return true
		}, Failed, 200, "larger than"},
		{"endless tokens", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", sse)
			for {
				if _, err := fmt.Fprint(w, tokenOf(strings.Repeat("y", 100))); err != nil {
					return true
				}
			}
		}, Failed, 200, "more tokens than"},
		{"invalid UTF-8", say(200, sse, "data: {\"choices\":[{\"index\":0,\"text\":\"\xff\xfe\",\"finish_reason\":\"length\"}]}\r\n\r\n"), Answered, 200, ""},
		{"connection cut", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", sse)
			_, _ = w.Write([]byte(tokenOf(canary)))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, Failed, 200, "ended before"},
		{"no header in time", func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }, Hung, 0, "no answer in time"},
		{"no token in time", func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", sse)
			_, _ = w.Write([]byte(": keep-alive\n\n"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return true
		}, Hung, 200, "no token in time"},
		{"stalls", func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", sse)
			_, _ = w.Write([]byte(tokenOf(canary)))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return true
		}, Hung, 200, "only 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := goldentest.Start(t, goldentest.Options{Handler: tt.handler})
			timeout := time.Minute
			if tt.state == Hung {
				timeout = 300 * time.Millisecond
			}
			p, replica := asking(t, e, Settings{Engine: "vllm", Timeout: timeout})
			a := p.AskReplica(t.Context(), "svc", replica, []Prompt{{Name: "p", Prompt: canary}}, noon)
			if a.State != tt.state || a.Status != tt.status || !strings.Contains(a.Why, tt.why) || tt.why == "" && a.Why != "" {
				t.Errorf("%s %d %q", a.State, a.Status, a.Why)
			}
			b, err := json.Marshal(a)
			if text := fmt.Sprintf("%+v %#v %s", a, a, b); err != nil || strings.Contains(text, canary) {
				t.Errorf("the answer tells what was asked or answered: %v %s", err, text)
			}
		})
	}
}

// TestNobodyThere: an engine that cannot be connected to failed, it did not hang; and
// addresses that give out credentials are never asked.
func TestNobodyThere(t *testing.T) {
	e := goldentest.Start(t, goldentest.Options{})
	p, replica := asking(t, e, Settings{})
	e.Close()
	if a := p.AskReplica(t.Context(), "svc", replica, two, noon); a.State != Failed || a.Status != 0 || !strings.Contains(a.Why, "cannot be connected") {
		t.Errorf("%+v", a)
	}
	if a := p.AskReplica(t.Context(), "svc", Replica{Name: "m", IP: "169.254.169.254", Port: 80}, two, noon); a.State != Failed || !strings.Contains(a.Why, "never asked") {
		t.Errorf("%+v", a)
	}
	if a := p.AskReplica(t.Context(), "svc", Replica{Name: "n"}, two, noon); a.State != Skipped || !strings.Contains(a.Why, "no address") {
		t.Errorf("%+v", a)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a := p.AskGateway(ctx, "svc", two, noon); a.State == Hung || a.State == Answered {
		t.Errorf("given up: %+v", a)
	}
}

// TestSlowDrip: an engine that sends a token now and then is not waited for longer
// than the timeout, and what is measured is the client's time.
func TestSlowDrip(t *testing.T) {
	e := goldentest.Start(t, goldentest.Options{IDs: true, First: 40 * time.Millisecond, Each: 10 * time.Millisecond})
	p, replica := asking(t, e, Settings{Engine: "vllm", MaxTokens: 4})
	a := p.AskReplica(t.Context(), "svc", replica, two[:1], noon)
	if a.State != Answered || a.Completions[0].TTFT < 40*time.Millisecond || a.Completions[0].ITL < 9*time.Millisecond {
		t.Errorf("%+v: first %s, each %s", a, a.Completions[0].TTFT, a.Completions[0].ITL)
	}
	e.Change(func(o *goldentest.Options) { o.Each = 150 * time.Millisecond })
	p, replica = asking(t, e, Settings{Engine: "vllm", Timeout: 400 * time.Millisecond})
	if a := p.AskReplica(t.Context(), "svc", replica, two, noon); a.State != Hung || len(e.Asked()) != 2 {
		t.Errorf("%+v, asked %d times: one that hangs is not asked more", a, len(e.Asked()))
	}
}

// TestBudget: neither many runs nor many replicas get more than the hour's tokens, and
// who is refused is told until when.
func TestBudget(t *testing.T) {
	b := newBudget(100, time.Minute)
	take := func(target string, n int, at time.Duration) (func(int), string) {
		return b.take(target, n, noon.Add(at))
	}
	back, why := take("a", 40, 0)
	if why != "" {
		t.Fatal(why)
	}
	if _, why := take("a", 10, time.Hour/2); why != "another run is asking it" {
		t.Error(why)
	}
	back(0)
	if _, why := take("a", 10, 59*time.Second); why != "asked a moment ago, again at 12:01:00 UTC" {
		t.Error(why)
	}
	back, why = take("b", 50, 10*time.Minute)
	if why != "" {
		t.Fatal(why)
	}
	if _, why := take("c", 20, 20*time.Minute); why != "probe budget spent until 13:00:00 UTC" {
		t.Error(why)
	}
	if _, why := take("c", 60, 20*time.Minute); why != "probe budget spent until 13:10:00 UTC" {
		t.Error(why)
	}
	if _, why := take("c", 101, 20*time.Minute); !strings.Contains(why, "tokens_per_hour is 100") {
		t.Error(why)
	}
	back(30) // was not used
	if back, why := take("c", 40, 20*time.Minute); why != "" {
		t.Error(why)
	} else {
		back(0)
	}
	if _, why := take("d", 60, time.Hour); why != "probe budget spent until 13:10:00 UTC" {
		t.Error(why)
	}
	if _, why := take("d", 60, 80*time.Minute); why != "" {
		t.Error(why)
	}
}

// TestPromptsFitTheCheck: with little time left no further prompt is asked, and what
// was answered counts.
func TestPromptsFitTheCheck(t *testing.T) {
	e := goldentest.Start(t, goldentest.Options{IDs: true})
	p, replica := asking(t, e, Settings{Engine: "vllm", Timeout: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if a := p.AskReplica(ctx, "svc", replica, two, noon); a.State != Answered || len(a.Completions) != 1 {
		t.Errorf("%+v", a)
	}
}

// TestBudgetForgets: it does not grow with what was long ago.
func TestBudgetForgets(t *testing.T) {
	b := newBudget(100, time.Minute)
	for i := range 500 {
		back, why := b.take(fmt.Sprint("pod-", i), 100, noon.Add(time.Duration(i)*time.Minute))
		if why != "" {
			t.Fatalf("%d: %s", i, why)
		}
		back(100)
	}
	if len(b.spent) > 60 || len(b.last) > 1 {
		t.Errorf("it keeps %d spendings and %d targets", len(b.spent), len(b.last))
	}
}
