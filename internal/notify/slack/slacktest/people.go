package slacktest

import "slices"

func (s *Server) userInfo(a args) answer {
	u, ok := s.users[a.get("user")]
	if !ok {
		return fail("user_not_found")
	}
	return answer{"ok": true, "user": s.user(u)}
}

func (s *Server) user(u User) answer {
	profile := answer{"real_name": u.RealName, "display_name": u.DisplayName, "team": u.TeamID}
	if slices.Contains(s.o.Scopes, "users:read.email") && u.Email != "" {
		profile["email"] = u.Email // without the scope Slack omits it
	}
	return answer{
		"id": u.ID, "team_id": u.TeamID, "name": u.DisplayName, "real_name": u.RealName, "deleted": u.Deleted,
		"is_bot": u.Bot, "is_restricted": u.Restricted, "is_ultra_restricted": u.UltraRestricted,
		"is_stranger": u.Stranger, "is_invited_user": u.Invited, "is_app_user": u.AppUser, "profile": profile,
	}
}

func (s *Server) lookupByEmail(a args) answer {
	for _, u := range s.users {
		if u.Email != "" && u.Email == a.get("email") && !u.Deleted {
			return answer{"ok": true, "user": s.user(u)}
		}
	}
	return fail("users_not_found")
}

func (s *Server) groupList(a args) answer {
	list := []answer{}
	for _, g := range s.groups {
		deleted := 0
		if g.Disabled {
			if a.get("include_disabled") != "true" {
				continue
			}
			deleted = 1
		}
		list = append(list, answer{
			"id": g.ID, "team_id": s.o.TeamID, "is_usergroup": true, "handle": g.Handle, "name": g.Handle,
			"is_external": g.External, "date_delete": deleted,
		})
	}
	return answer{"ok": true, "usergroups": list}
}

func (s *Server) groupMembers(a args) answer {
	g, ok := s.groups[a.get("usergroup")]
	if !ok || g.Disabled {
		return fail("no_such_subteam")
	}
	return answer{"ok": true, "users": append([]string{}, g.Members...)}
}
