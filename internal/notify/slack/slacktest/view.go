package slacktest

import (
	"encoding/json"
	"time"
)

// view is an open dialog.
type view struct {
	id, root, user string
	raw            json.RawMessage
}

// trigger lets the app open a dialog after a click.
type trigger struct {
	user    string
	view    string // the dialog the click was in; empty: none
	expires time.Time
	used    bool
}

// View is an open dialog as a person sees it.
type View struct {
	ID   string
	User string
	Raw  json.RawMessage // as the app sent it
}

// Views returns the open dialogs of a person.
func (s *Server) Views(user string) []View {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []View
	for _, v := range s.views {
		if v.user == user {
			out = append(out, View{ID: v.id, User: v.user, Raw: v.raw})
		}
	}
	return out
}

func (s *Server) exchange(id string) (*trigger, answer) {
	t, ok := s.triggers[id]
	switch {
	case !ok:
		return nil, fail("invalid_trigger_id")
	case t.used:
		return nil, fail("exchanged_trigger_id")
	case s.now().After(t.expires):
		return nil, fail("expired_trigger_id")
	}
	return t, nil
}

func (s *Server) viewOpen(a args) answer { return s.show(a, false) }

func (s *Server) viewPush(a args) answer { return s.show(a, true) }

func (s *Server) show(a args, push bool) answer {
	t, res := s.exchange(a.get("trigger_id"))
	if res != nil {
		return res
	}
	if res := invalidView(a.get("view")); res != nil {
		return res
	}
	v := &view{id: "V" + random(5), user: t.user, raw: json.RawMessage(a.get("view"))}
	v.root = v.id
	if push {
		under, ok := s.views[t.view]
		if !ok {
			return fail("not_found")
		}
		v.root = under.root
		n := 0
		for _, x := range s.views {
			if x.root == v.root {
				n++
			}
		}
		if n >= 3 {
			return fail("push_limit_reached")
		}
	}
	t.used = true
	s.views[v.id] = v
	return answer{"ok": true, "view": v.public(s)}
}

func (s *Server) viewUpdate(a args) answer {
	v, ok := s.views[a.get("view_id")]
	if !ok {
		return fail("not_found")
	}
	if res := invalidView(a.get("view")); res != nil {
		return res
	}
	v.raw = json.RawMessage(a.get("view"))
	return answer{"ok": true, "view": v.public(s)}
}

func invalidView(raw string) answer {
	if problems := ValidateView([]byte(raw)); len(problems) > 0 {
		return answer{"ok": false, "error": "invalid_arguments", "response_metadata": answer{"messages": problems}}
	}
	return nil
}

// public returns the view as the Web API and interactions show it.
func (v *view) public(s *Server) answer {
	var p answer
	if json.Unmarshal(v.raw, &p) != nil {
		p = answer{}
	}
	p["id"], p["root_view_id"], p["team_id"], p["app_id"], p["bot_id"] = v.id, v.root, s.o.TeamID, s.o.AppID, s.o.BotID
	p["hash"] = "1." + v.id
	return p
}
