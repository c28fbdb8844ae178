package slacktest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// post calls a method without any client library.
func post(t *testing.T, s *Server, method string, values url.Values) map[string]any {
	t.Helper()
	if !values.Has("token") {
		values.Set("token", Token)
	}
	resp, err := http.PostForm(s.APIURL()+method, values)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return map[string]any{"status": resp.StatusCode, "retry": resp.Header.Get("Retry-After")}
	}
	var out map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRefusals: the server refuses what Slack refuses, with Slack's codes.
func TestRefusals(t *testing.T) {
	s := Start(t, Options{})
	s.AddChannel(Conversation{ID: "C0ONCALL01", Name: "oncall", Member: true})
	s.AddChannel(Conversation{ID: "C0NOTIN001"})
	in := func(more ...string) url.Values {
		v := url.Values{"channel": {"C0ONCALL01"}, "text": {"x"}}
		for i := 0; i < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		return v
	}
	for _, tc := range []struct {
		method string
		values url.Values
		want   string
	}{
		{"auth.test", url.Values{"token": {"xoxb-other"}}, "invalid_auth"},
		{"auth.test", url.Values{"token": {AppToken}}, "not_allowed_token_type"},
		{"apps.connections.open", url.Values{}, "not_allowed_token_type"},
		{"no.such", url.Values{}, "unknown_method"},
		{"chat.postMessage", in("channel", "C0NOTIN001"), "not_in_channel"},
		{"chat.postMessage", in("channel", "C0NONE0001"), "channel_not_found"},
		{"chat.postMessage", in("text", ""), "no_text"},
		{"chat.postMessage", in("blocks", "{"), "invalid_blocks_format"},
		{"chat.postMessage", in("blocks", `[{"type":"header"}]`), "invalid_blocks"},
		{"chat.postMessage", in("metadata", `{"event_type":""}`), "invalid_metadata_format"},
		{"chat.postMessage", in("thread_ts", "1.1"), "thread_not_found"},
		{"chat.update", in("ts", "1.1"), "message_not_found"},
		{"chat.postEphemeral", in("user", "U0NOBODY01"), "user_not_in_channel"},
		{"views.open", url.Values{"trigger_id": {"x"}, "view": {"{}"}}, "invalid_trigger_id"},
		{"usergroups.users.list", url.Values{"usergroup": {"S0"}}, "no_such_subteam"},
		{"conversations.history", in("cursor", "x"), "invalid_cursor"},
	} {
		if got := post(t, s, tc.method, tc.values); got["error"] != tc.want {
			t.Errorf("%s: %v, want %s", tc.method, got, tc.want)
		}
	}
	s.Scopes("users:read")
	if got := post(t, s, "chat.postMessage", in()); got["error"] != "missing_scope" || got["needed"] != "chat:write" || got["provided"] != "users:read" {
		t.Errorf("got %v", got)
	}
}

func TestRate(t *testing.T) {
	s := Start(t, Options{PostEvery: time.Second, PostBurst: 2})
	s.AddChannel(Conversation{ID: "C0ONCALL01", Member: true})
	v := func() url.Values { return url.Values{"channel": {"C0ONCALL01"}, "text": {"x"}} }
	for i := range 3 {
		got := post(t, s, "chat.postMessage", v())
		if limited := got["status"] == http.StatusTooManyRequests && got["retry"] == "1"; limited != (i == 2) {
			t.Errorf("message %d: %v", i, got)
		}
	}
	s.Advance(2 * time.Second)
	if got := post(t, s, "chat.postMessage", v()); got["ok"] != true {
		t.Errorf("after the time: %v", got)
	}
}

// TestValidator: one row for each of Slack's limits, at the limit and over it.
func TestValidator(t *testing.T) {
	section := func(n int) string {
		return `{"type":"section","text":{"type":"mrkdwn","text":"` + strings.Repeat("x", n) + `"}}`
	}
	button := func(words, id, value string) string {
		return `{"type":"actions","elements":[{"type":"button","text":{"type":"plain_text","text":"` + words + `"},"action_id":"` + id + `","value":"` + value + `"}]}`
	}
	x := func(n int) string { return strings.Repeat("x", n) }
	many := func(n int) string { return strings.TrimSuffix(strings.Repeat(`{"type":"divider"},`, n), ",") }
	fields := func(n, size int) string {
		f := `{"type":"mrkdwn","text":"` + x(size) + `"},`
		return `{"type":"section","fields":[` + strings.TrimSuffix(strings.Repeat(f, n), ",") + `]}`
	}
	for name, tc := range map[string]struct{ good, bad string }{
		"section":      {section(3000), section(3001)},
		"empty":        {section(1), section(0)},
		"header":       {`{"type":"header","text":{"type":"plain_text","text":"` + x(150) + `"}}`, `{"type":"header","text":{"type":"plain_text","text":"` + x(151) + `"}}`},
		"header type":  {`{"type":"divider"}`, `{"type":"header","text":{"type":"mrkdwn","text":"x"}}`},
		"blocks":       {many(50), many(51)},
		"button text":  {button(x(75), "a", "v"), button(x(76), "a", "v")},
		"action id":    {button("x", x(255), "v"), button("x", x(256), "v")},
		"value":        {button("x", "a", x(2000)), button("x", "a", x(2001))},
		"fields":       {fields(10, 10), fields(11, 10)},
		"field":        {fields(1, 2000), fields(1, 2001)},
		"block id":     {`{"type":"divider","block_id":"a"},{"type":"divider","block_id":"b"}`, `{"type":"divider","block_id":"a"},{"type":"divider","block_id":"a"}`},
		"whole":        {section(3000) + "," + section(3000), strings.Join([]string{section(3000), section(3000), section(3000), section(3000)}, ",")},
		"unescaped":    {`{"type":"section","text":{"type":"mrkdwn","text":"a &lt; b <https://x|y> <!here>"}}`, `{"type":"section","text":{"type":"mrkdwn","text":"a < b"}}`},
		"emoji":        {section(1), `{"type":"section","text":{"type":"mrkdwn","text":"x","emoji":true}}`},
		"unknown":      {section(1), `{"type":"section","text":{"type":"mrkdwn","text":"x"},"style":"x"}`},
		"input":        {section(1), `{"type":"input","label":{"type":"plain_text","text":"x"},"element":{"type":"plain_text_input","action_id":"a"}}`},
		"unknown type": {section(1), `{"type":"marquee"}`},
	} {
		if p := ValidateMessage("x", []byte("["+tc.good+"]")); p != nil {
			t.Errorf("%s: refused: %v", name, p)
		}
		if p := ValidateMessage("x", []byte("["+tc.bad+"]")); p == nil {
			t.Errorf("%s: taken", name)
		}
	}
	view := func(title, meta, submit string) []byte {
		return []byte(`{"type":"modal","title":{"type":"plain_text","text":"` + title + `"},"private_metadata":"` + meta + `"` + submit + `,"blocks":[{"type":"input","label":{"type":"plain_text","text":"x"},"element":{"type":"plain_text_input","action_id":"a"}}]}`)
	}
	submit := `,"submit":{"type":"plain_text","text":"Go"}`
	if p := ValidateView(view(x(24), x(3000), submit)); p != nil {
		t.Errorf("refused: %v", p)
	}
	for name, v := range map[string][]byte{
		"title": view(x(25), "", submit), "metadata": view("x", x(3001), submit), "no submit": view("x", "", ""), "not JSON": []byte("x"),
	} {
		if ValidateView(v) == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// TestLateAnswer: an app that does not answer in time is recorded.
func TestLateAnswer(t *testing.T) {
	s := Start(t, Options{AckWithin: 50 * time.Millisecond})
	s.AddChannel(Conversation{ID: "C0ONCALL01", Member: true})
	s.AddUser(User{ID: "U0ADA00001"})
	done := make(chan struct{})
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
	defer app.Close()
	defer close(done)
	s.Interactivity(app.URL)
	m := s.Put(Message{Channel: "C0ONCALL01", BotID: BotID, Blocks: json.RawMessage(`[{"type":"actions","elements":[{"type":"button","action_id":"a","value":"v","text":{"type":"plain_text","text":"x"}}]}]`)})
	if d, err := s.Click("U0ADA00001", m.Channel, m.TS, "a"); err != nil || d.Acknowledged || len(s.Violations()) != 1 {
		t.Errorf("%+v, %v, violations %v", d, err, s.Violations())
	}
	if _, err := s.Click("U0ADA00001", m.Channel, m.TS, "b"); err == nil {
		t.Error("a button that there is not was pressed")
	}
}
