package slacktest

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// reachable returns Slack's refusal to write to a channel, or nil.
func (s *Server) reachable(channel string) answer {
	c, ok := s.channels[channel]
	switch {
	case !ok, c.Private && !c.Member:
		return fail("channel_not_found")
	case c.Archived:
		return fail("is_archived")
	case !c.Member:
		return fail("not_in_channel")
	default:
		return nil
	}
}

// content validates and returns the text and the blocks.
func content(a args) (text string, blocks json.RawMessage, refused answer) {
	text = a.get("text")
	if b := a.get("blocks"); b != "" {
		blocks = json.RawMessage(b)
	}
	if text == "" && len(blocks) == 0 {
		return "", nil, fail("no_text")
	}
	if problems := ValidateMessage(text, blocks); len(problems) > 0 {
		code := "invalid_blocks"
		for _, p := range problems {
			if word, ok := strings.CutPrefix(p, "code:"); ok {
				code = word
			}
		}
		return "", nil, answer{"ok": false, "error": code, "response_metadata": answer{"messages": problems}}
	}
	return text, blocks, nil
}

// metadata checks the form that Slack requires.
func metadata(a args) (json.RawMessage, answer) {
	raw := a.get("metadata")
	if raw == "" {
		return nil, nil
	}
	var m struct {
		EventType    string         `json:"event_type"`
		EventPayload map[string]any `json:"event_payload"`
	}
	if json.Unmarshal([]byte(raw), &m) != nil || m.EventType == "" || m.EventPayload == nil {
		return nil, fail("invalid_metadata_format")
	}
	if len(raw) > 16<<10 { // Slack limits it but publishes no figure
		return nil, fail("metadata_too_large")
	}
	return json.RawMessage(raw), nil
}

func (s *Server) postMessage(a args) answer {
	channel := a.get("channel")
	if res := s.reachable(channel); res != nil {
		return res
	}
	if after := s.tooFast(channel); after > 0 {
		return answer{"ok": false, "error": "ratelimited", "retry_after": after}
	}
	text, blocks, res := content(a)
	if res != nil {
		return res
	}
	meta, res := metadata(a)
	if res != nil {
		return res
	}
	m := &Message{
		Channel: channel, TS: s.stamp(), ThreadTS: a.get("thread_ts"), Text: text, BotID: s.o.BotID,
		Blocks: blocks, Metadata: meta, versions: []json.RawMessage{blocks},
	}
	if m.ThreadTS != "" && s.find(channel, m.ThreadTS) == nil {
		return fail("thread_not_found")
	}
	s.messages = append(s.messages, m)
	return answer{"ok": true, "channel": channel, "ts": m.TS, "message": m.public(true)}
}

// tooFast enforces the rate of one channel and returns the seconds to wait.
func (s *Server) tooFast(channel string) int {
	if s.o.PostEvery == 0 {
		return 0
	}
	now := s.now()
	recent := slices.DeleteFunc(s.posts[channel], func(t time.Time) bool {
		return now.Sub(t) >= s.o.PostEvery*time.Duration(max(s.o.PostBurst, 1))
	})
	s.posts[channel] = recent
	if len(recent) >= max(s.o.PostBurst, 1) {
		return max(1, int(s.o.PostEvery.Seconds()))
	}
	s.posts[channel] = append(recent, now)
	return 0
}

func (s *Server) find(channel, ts string) *Message {
	for _, m := range s.messages {
		if m.Channel == channel && m.TS == ts {
			return m
		}
	}
	return nil
}

func (s *Server) update(a args) answer {
	if c, ok := s.channels[a.get("channel")]; !ok {
		return fail("channel_not_found")
	} else if c.Archived {
		return fail("is_archived")
	}
	m := s.find(a.get("channel"), a.get("ts"))
	switch {
	case m == nil:
		return fail("message_not_found")
	case m.BotID != s.o.BotID:
		return fail("cant_update_message")
	}
	if len([]rune(a.get("text"))) > 4000 {
		return fail("msg_too_long")
	}
	text, blocks, res := content(a)
	if res != nil {
		return res
	}
	meta, res := metadata(a)
	if res != nil {
		return res
	}
	m.Text, m.Blocks, m.Edits = text, blocks, m.Edits+1
	m.versions = append(m.versions, blocks)
	if meta != nil {
		m.Metadata = meta
	}
	return answer{"ok": true, "channel": m.Channel, "ts": m.TS, "text": text, "message": m.public(true)}
}

func (s *Server) remove(a args) answer {
	m := s.find(a.get("channel"), a.get("ts"))
	switch {
	case m == nil:
		return fail("message_not_found")
	case m.BotID != s.o.BotID:
		return fail("cant_delete_message")
	}
	s.messages = slices.DeleteFunc(s.messages, func(x *Message) bool { return x == m })
	return answer{"ok": true, "channel": m.Channel, "ts": m.TS}
}

func (s *Server) postEphemeral(a args) answer {
	if res := s.reachable(a.get("channel")); res != nil {
		return res
	}
	if _, ok := s.users[a.get("user")]; !ok {
		return fail("user_not_in_channel")
	}
	text, blocks, res := content(a)
	if res != nil {
		return res
	}
	m := Message{Channel: a.get("channel"), TS: s.stamp(), Text: text, User: a.get("user"), BotID: s.o.BotID, Blocks: blocks}
	s.ephemerals = append(s.ephemerals, m)
	return answer{"ok": true, "message_ts": m.TS}
}

// public returns the message as the Web API shows it.
func (m *Message) public(withMetadata bool) answer {
	p := answer{"type": "message", "ts": m.TS, "text": m.Text, "bot_id": m.BotID}
	if m.BotID == "" {
		p["user"] = m.User
		delete(p, "bot_id")
	}
	if len(m.Blocks) > 0 {
		p["blocks"] = m.Blocks
	}
	if m.ThreadTS != "" {
		p["thread_ts"] = m.ThreadTS
	}
	if withMetadata && m.Metadata != nil {
		p["metadata"] = m.Metadata
	}
	return p
}

// readable returns Slack's refusal to read a channel, or nil.
func (s *Server) readable(channel, what string) answer {
	c, ok := s.channels[channel]
	prefix := "channels:"
	if c.Private {
		prefix = "groups:"
	}
	switch res := s.needs(prefix + what); {
	case !ok, c.Private && !c.Member:
		return fail("channel_not_found")
	case res != nil:
		return res
	case what == "history" && !c.Member:
		return fail("not_in_channel")
	default:
		return nil
	}
}

func (s *Server) conversationInfo(a args) answer {
	if res := s.readable(a.get("channel"), "read"); res != nil {
		return res
	}
	c := s.channels[a.get("channel")]
	return answer{"ok": true, "channel": answer{
		"id": c.ID, "name": c.Name, "is_channel": !c.Private, "is_private": c.Private, "is_archived": c.Archived,
		"is_member": c.Member, "is_ext_shared": c.Shared,
	}}
}

func (s *Server) join(a args) answer {
	c, ok := s.channels[a.get("channel")]
	switch {
	case !ok:
		return fail("channel_not_found")
	case c.Archived:
		return fail("is_archived")
	case c.Private:
		return fail("method_not_supported_for_channel_type")
	}
	c.Member = true
	s.channels[c.ID] = c
	return answer{"ok": true, "channel": answer{"id": c.ID}}
}

func (s *Server) history(a args) answer {
	if res := s.readable(a.get("channel"), "history"); res != nil {
		return res
	}
	var found []*Message
	for _, m := range slices.Backward(s.messages) {
		if m.Channel == a.get("channel") && (m.ThreadTS == "" || m.ThreadTS == m.TS) && m.TS >= a.get("oldest") {
			found = append(found, m)
		}
	}
	return page(a, found)
}

func (s *Server) replies(a args) answer {
	if res := s.readable(a.get("channel"), "history"); res != nil {
		return res
	}
	var found []*Message
	for _, m := range s.messages {
		if m.Channel == a.get("channel") && (m.TS == a.get("ts") || m.ThreadTS == a.get("ts")) {
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		return fail("thread_not_found")
	}
	return page(a, found)
}

// page pages a list as Slack does, by an opaque cursor.
func page(a args, found []*Message) answer {
	limit, _ := strconv.Atoi(a.get("limit"))
	if limit <= 0 || limit > 999 {
		limit = 100
	}
	from := 0
	if c := a.get("cursor"); c != "" {
		raw, err := base64.StdEncoding.DecodeString(c)
		n, err2 := strconv.Atoi(strings.TrimPrefix(string(raw), "next:"))
		if err != nil || err2 != nil || n > len(found) {
			return fail("invalid_cursor")
		}
		from = n
	}
	to := min(from+limit, len(found))
	list := []answer{}
	for _, m := range found[from:to] {
		list = append(list, m.public(a.get("include_all_metadata") == "1" || a.get("include_all_metadata") == "true"))
	}
	next := ""
	if to < len(found) {
		next = base64.StdEncoding.EncodeToString([]byte("next:" + strconv.Itoa(to)))
	}
	return answer{"ok": true, "messages": list, "has_more": next != "", "response_metadata": answer{"next_cursor": next}}
}
