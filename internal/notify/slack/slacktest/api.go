package slacktest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// method describes one method of the Web API.
type method struct {
	scopes []string // all are required
	app    bool     // requires the app's token
	do     func(*Server, args) answer
}

type args struct {
	values map[string]string
	host   string
	tls    bool
}

func (a args) get(name string) string { return a.values[name] }

type answer map[string]any

func fail(code string) answer { return answer{"ok": false, "error": code} }

func methods() map[string]method {
	write := []string{"chat:write"}
	return map[string]method{
		"auth.test":             {do: (*Server).authTest},
		"bots.info":             {scopes: []string{"users:read"}, do: (*Server).botsInfo},
		"chat.postMessage":      {scopes: write, do: (*Server).postMessage},
		"chat.update":           {scopes: write, do: (*Server).update},
		"chat.delete":           {scopes: write, do: (*Server).remove},
		"chat.postEphemeral":    {scopes: write, do: (*Server).postEphemeral},
		"conversations.info":    {do: (*Server).conversationInfo},
		"conversations.join":    {scopes: []string{"channels:join"}, do: (*Server).join},
		"conversations.history": {do: (*Server).history},
		"conversations.replies": {do: (*Server).replies},
		"users.info":            {scopes: []string{"users:read"}, do: (*Server).userInfo},
		"users.lookupByEmail":   {scopes: []string{"users:read.email"}, do: (*Server).lookupByEmail},
		"usergroups.list":       {scopes: []string{"usergroups:read"}, do: (*Server).groupList},
		"usergroups.users.list": {scopes: []string{"usergroups:read"}, do: (*Server).groupMembers},
		"views.open":            {do: (*Server).viewOpen},
		"views.push":            {do: (*Server).viewPush},
		"views.update":          {do: (*Server).viewUpdate},
		"apps.connections.open": {app: true, do: (*Server).connectionsOpen},
		// Not a method: the scopes that depend on the channel.
		"": {scopes: []string{"channels:read", "groups:read", "channels:history", "groups:history"}},
	}
}

func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request, name string) {
	a, token, err := arguments(r)
	s.mu.Lock()
	latency, outage := s.latency, s.outage
	var fault *Fault
	if f := s.faults[name]; len(f) > 0 {
		fault, s.faults[name] = &f[0], f[1:]
	}
	s.mu.Unlock()
	if latency > 0 {
		select {
		case <-time.After(latency):
		case <-r.Context().Done():
			return
		}
	}
	switch {
	case outage:
		s.record(name, a, "HTTP 503")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "<html>Service Unavailable</html>")
		return
	case fault != nil && !fault.After:
		s.record(name, a, fault.word())
		fault.answer(w)
		return
	}
	var res answer
	if err != nil {
		res = fail("invalid_form_data")
	} else {
		res = s.call(name, a, token)
	}
	word, _ := res["error"].(string)
	s.record(name, a, word)
	if fault != nil {
		fault.answer(w)
		return
	}
	if after, ok := res["retry_after"].(int); ok {
		Fault{Status: http.StatusTooManyRequests, RetryAfter: time.Duration(after) * time.Second}.answer(w)
		return
	}
	s.mu.Lock()
	w.Header().Set("X-OAuth-Scopes", strings.Join(s.o.Scopes, ","))
	s.mu.Unlock()
	w.Header().Set("X-Accepted-OAuth-Scopes", strings.Join(methods()[name].scopes, ","))
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(res)
}

func (f Fault) word() string {
	switch {
	case f.Code != "":
		return f.Code
	case f.Status != 0:
		return fmt.Sprintf("HTTP %d", f.Status)
	case f.Garbage:
		return "garbage"
	default:
		return "cut"
	}
}

func (f Fault) answer(w http.ResponseWriter) {
	switch {
	case f.Code != "":
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(fail(f.Code))
	case f.Status != 0:
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(int(f.RetryAfter.Seconds())))
		}
		w.WriteHeader(f.Status)
	case f.Garbage:
		_, _ = io.WriteString(w, "<html>a proxy's page</html>")
	default:
		panic(http.ErrAbortHandler) // makes net/http end the connection
	}
}

// arguments reads a form, a query or JSON, and the token from wherever it is.
func arguments(r *http.Request) (args, string, error) {
	a := args{values: map[string]string{}, host: r.Host, tls: r.TLS != nil}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, 4<<20))
	if err != nil {
		return a, token, err
	}
	form := r.URL.Query()
	switch media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media {
	case "application/json":
		var m map[string]json.RawMessage
		if len(body) > 0 {
			if err := json.Unmarshal(body, &m); err != nil {
				return a, token, errors.New("invalid_json")
			}
		}
		for k, v := range m {
			var text string
			if json.Unmarshal(v, &text) != nil {
				text = string(v)
			}
			a.values[k] = text
		}
	default:
		more, err := url.ParseQuery(string(body))
		if err != nil {
			return a, token, err
		}
		for k, v := range more {
			form[k] = append(form[k], v...)
		}
	}
	for k, v := range form {
		a.values[k] = v[0]
	}
	if t := a.values["token"]; t != "" {
		token = t
	}
	delete(a.values, "token")
	return a, token, nil
}

func (s *Server) call(name string, a args, token string) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := methods()[name]
	want := s.o.Token
	if m.app {
		want = s.o.AppToken
	}
	switch {
	case !ok || m.do == nil:
		return fail("unknown_method")
	case token == "":
		return fail("not_authed")
	case s.tokenError != "":
		return fail(s.tokenError)
	case token != want && (token == s.o.Token || token == s.o.AppToken):
		return fail("not_allowed_token_type")
	case token != want:
		return fail("invalid_auth")
	}
	if res := s.needs(m.scopes...); res != nil {
		return res
	}
	return m.do(s, a)
}

// needs returns Slack's refusal unless the token has all of the scopes.
func (s *Server) needs(scopes ...string) answer {
	for _, need := range scopes {
		if !slices.Contains(s.o.Scopes, need) {
			return answer{"ok": false, "error": "missing_scope", "needed": need, "provided": strings.Join(s.o.Scopes, ",")}
		}
	}
	return nil
}

func (s *Server) record(name string, a args, word string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, Call{Method: name, Args: a.values, Error: word, At: s.now()})
	s.tell()
}

func (s *Server) authTest(args) answer {
	return answer{
		"ok": true, "url": "https://test.slack.com/", "team": "Test", "user": "responder",
		"team_id": s.o.TeamID, "user_id": s.o.BotUserID, "bot_id": s.o.BotID, "is_enterprise_install": false,
	}
}

func (s *Server) botsInfo(a args) answer {
	if a.get("bot") != s.o.BotID {
		return fail("bot_not_found")
	}
	return answer{"ok": true, "bot": answer{"id": s.o.BotID, "app_id": s.o.AppID, "user_id": s.o.BotUserID, "name": "responder"}}
}

func (s *Server) connectionsOpen(a args) answer {
	ticket := random(12)
	s.tickets[ticket] = true
	scheme := "ws"
	if a.tls {
		scheme = "wss"
	}
	return answer{"ok": true, "url": scheme + "://" + a.host + "/link?ticket=" + ticket + "&app_id=" + s.o.AppID}
}
