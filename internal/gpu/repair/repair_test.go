package repair

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/notifytest"
)

func aRequest() Request {
	return Request{Action: "request", Key: "r-1/ask#1/request", Node: "gpu-17", GPUs: []string{"GPU-8f6d", "3"}, Reason: "a row waits <to be remapped>", Run: "r-1", Service: "serving/chat"}
}

func client(t *testing.T, url string) *Client {
	t.Helper()
	r, err := New(Config{URL: url, TokenFile: notifytest.SecretFile(t, "s3cret\n"), Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRepairs(t *testing.T) {
	server := notifytest.StartRepairServer(t)
	r := client(t, server.URL+"?hook=hidden")
	for range 2 { // a repeat is the same request
		ticket, err := r.Ask(t.Context(), aRequest())
		if err != nil || ticket != "OPS-1" {
			t.Fatalf("%q, %v", ticket, err)
		}
	}
	end := aRequest()
	end.Action, end.Of, end.Key, end.Ticket = "withdraw", end.Key, "r-1/ask#1/withdraw", "OPS-1"
	if _, err := r.Ask(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	same := map[string]any{"node": "gpu-17", "gpus": []any{"GPU-8f6d", "3"}, "reason": "a row waits <to be remapped>", "run": "r-1", "service": "serving/chat"}
	with := func(more ...string) map[string]any {
		out := map[string]any{}
		for k, v := range same {
			out[k] = v
		}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	want := []notifytest.RepairRequest{
		{Key: "r-1/ask#1/request", Body: with("action", "request", "key", "r-1/ask#1/request")},
		{Key: "r-1/ask#1/withdraw", Body: with("action", "withdraw", "key", "r-1/ask#1/withdraw", "of", "r-1/ask#1/request", "ticket", "OPS-1")},
	}
	if diff := cmp.Diff(want, server.Taken()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if tokens := server.Tokens(); len(tokens) != 3 || tokens[0] != "Bearer s3cret" {
		t.Errorf("tokens %q", tokens)
	}
	if where := r.Where(); !strings.HasPrefix(server.URL, where) || strings.Contains(where, "hidden") {
		t.Errorf("it is at %q", where)
	}
}

// TestRepairsThatFail: what may have arrived is told from what has not.
func TestRepairsThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		fault  notifytest.Fault
		reason fault.Reason
		maybe  bool
	}{
		"the answer is lost": {notifytest.Fault{Lose: true}, fault.Unreachable, true},
		"it fails":           {notifytest.Fault{Status: http.StatusBadGateway}, fault.ServerError, true},
		"it refuses":         {notifytest.Fault{Status: http.StatusUnprocessableEntity, Body: "no such node; Bearer s3cret"}, fault.Invalid, false},
		"it has enough":      {notifytest.Fault{Status: http.StatusTooManyRequests}, fault.Throttled, false},
		"the token is old":   {notifytest.Fault{Status: http.StatusUnauthorized}, fault.Forbidden, false},
		"it is elsewhere":    {notifytest.Fault{Status: http.StatusFound, Header: map[string]string{"Location": "http://192.0.2.1/"}}, fault.Invalid, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := notifytest.StartRepairServer(t)
			server.Fail(c.fault)
			_, err := client(t, server.URL).Ask(t.Context(), aRequest())
			if e := notifytest.ErrorFor(t, name, err, c.reason); e.Unknown != c.maybe || strings.Contains(e.Error(), "s3cret") {
				t.Errorf("%s, may have arrived: %t: %v; want %s, %t", e.Reason, e.Unknown, e, c.reason, c.maybe)
			}
		})
	}
	t.Run("on a connection that was used before", func(t *testing.T) {
		server := notifytest.StartRepairServer(t)
		r := client(t, server.URL)
		if _, err := r.Ask(t.Context(), aRequest()); err != nil {
			t.Fatal(err)
		}
		server.Fail(notifytest.Fault{Lose: true})
		_, err := r.Ask(t.Context(), aRequest())
		if e := notifytest.ErrorFor(t, "lost", err, fault.Unreachable); !e.Unknown || server.Seen() != 2 {
			t.Errorf("%v after %d requests; want 2, and no repeat that nobody asked for", e, server.Seen())
		}
	})
	t.Run("nobody is there", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = client(t, "http://"+address+"/repairs").Ask(t.Context(), aRequest())
		if e := notifytest.ErrorFor(t, "nobody", err, fault.Unreachable); e.Unknown {
			t.Errorf("%s, may have arrived: %t: %v", e.Reason, e.Unknown, e)
		}
	})
}

// TestTicket: an answer is a yes whatever else is in it.
func TestTicket(t *testing.T) {
	for body, want := range map[string]string{
		`{"id": "OPS-7"}`: "OPS-7", `{"id": 12}`: "12", `{"id": null}`: "", `{"id": {"x": 1}}`: "", `{}`: "", ``: "", `accepted`: "", `[1]`: "",
		`{"id": "` + strings.Repeat("x", 300) + `"}`:                    strings.Repeat("x", 100) + "...",
		`{"id": "OPS` + "\\u0007" + `-7"}`:                              "OPS-7",
		`{"id": "OPS-7", "note": "` + strings.Repeat("x", 70<<10) + `"`: "",
	} {
		server := notifytest.StartRepairServer(t)
		server.Fail(notifytest.Fault{Status: http.StatusOK, Body: body})
		if got, err := client(t, server.URL).Ask(t.Context(), aRequest()); err != nil || got != want {
			t.Errorf("%.40s: %q, %v, want %q", body, got, err, want)
		}
	}
}
