package slacktest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Delivery describes how an interaction reached the app.
type Delivery struct {
	Acknowledged bool
	After        time.Duration     // until the acknowledgement
	Status       int               // of HTTP
	Envelope     string            // of Socket Mode
	Errors       map[string]string // by block: why a dialog was refused
	TriggerID    string
}

// answer reads what an acknowledgement tells a dialog.
func (d *Delivery) answer(raw []byte) {
	var a struct {
		Action string            `json:"response_action"`
		Errors map[string]string `json:"errors"`
	}
	if json.Unmarshal(raw, &a) == nil && a.Action == "errors" {
		d.Errors = a.Errors
	}
}

// Click presses a button of the current message. action is the button's
// action_id. An error means that there is no such button.
func (s *Server) Click(user, channel, ts, action string) (Delivery, error) {
	return s.click(user, channel, ts, action, false)
}

// ClickStale presses a button of an earlier version of the message, as on a
// screen that was not refreshed.
func (s *Server) ClickStale(user, channel, ts, action string) (Delivery, error) {
	return s.click(user, channel, ts, action, true)
}

func (s *Server) click(user, channel, ts, action string, stale bool) (Delivery, error) {
	payload, trigger, err := s.Payload(user, channel, ts, action, stale)
	if err != nil {
		return Delivery{}, err
	}
	d, err := s.send(payload)
	d.TriggerID = trigger
	return d, err
}

// Payload returns the block_actions payload of a click without sending it, for
// tests that change it.
func (s *Server) Payload(user, channel, ts, action string, stale bool) (payload []byte, trigger string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.find(channel, ts)
	if m == nil {
		return nil, "", fmt.Errorf("no message %s in %s", ts, channel)
	}
	pressed := buttonOf(m.Blocks, action, s.now())
	if stale {
		for _, v := range m.versions {
			if pressed == nil {
				pressed = buttonOf(v, action, s.now())
			}
		}
	}
	if pressed == nil {
		return nil, "", fmt.Errorf("message %s has no button %q", ts, action)
	}
	p := s.common("block_actions", user, "")
	p["container"] = answer{"type": "message", "message_ts": ts, "channel_id": channel, "is_ephemeral": false}
	p["channel"] = answer{"id": channel, "name": s.channels[channel].Name}
	p["message"] = m.public(true)
	p["state"] = answer{"values": answer{}}
	p["response_url"] = "https://hooks.slack.test/actions/" + random(8)
	p["actions"] = []answer{pressed}
	return encode(p), p["trigger_id"].(string), nil
}

// ClickIn presses a button of an open dialog.
func (s *Server) ClickIn(user, viewID, action string) (Delivery, error) {
	s.mu.Lock()
	v, ok := s.views[viewID]
	if !ok {
		s.mu.Unlock()
		return Delivery{}, fmt.Errorf("no view %s", viewID)
	}
	var body struct {
		Blocks json.RawMessage `json:"blocks"`
	}
	_ = json.Unmarshal(v.raw, &body)
	pressed := buttonOf(body.Blocks, action, s.now())
	if pressed == nil {
		s.mu.Unlock()
		return Delivery{}, fmt.Errorf("view %s has no button %q", viewID, action)
	}
	p := s.common("block_actions", user, viewID)
	p["container"] = answer{"type": "view", "view_id": viewID}
	p["view"] = v.public(s)
	p["actions"] = []answer{pressed}
	s.mu.Unlock()
	d, err := s.send(encode(p))
	d.TriggerID, _ = p["trigger_id"].(string)
	return d, err
}

// Submit submits an open dialog with one value for the given block and action.
// Slack's own client would hold back a value that is too short; this one does
// not, because an app must not rely on it. Without a refusal the dialog closes.
func (s *Server) Submit(user, viewID, block, action, value string) (Delivery, error) {
	s.mu.Lock()
	v, ok := s.views[viewID]
	if !ok {
		s.mu.Unlock()
		return Delivery{}, fmt.Errorf("no view %s", viewID)
	}
	p := s.common("view_submission", user, viewID)
	shown := v.public(s)
	shown["state"] = answer{"values": answer{block: answer{action: answer{"type": "plain_text_input", "value": value}}}}
	p["view"], p["response_urls"] = shown, []any{}
	s.mu.Unlock()
	d, err := s.send(encode(p))
	if err == nil && d.Acknowledged && d.Errors == nil {
		s.mu.Lock()
		delete(s.views, viewID)
		s.mu.Unlock()
	}
	return d, err
}

// common returns the fields of every interaction. The caller holds the lock.
func (s *Server) common(kind, user, viewID string) answer {
	u := s.users[user]
	team := u.TeamID
	if team == "" {
		team = s.o.TeamID
	}
	id := fmt.Sprintf("%d.%s.%s", s.now().UnixMilli(), "123", random(16))
	s.triggers[id] = &trigger{user: user, view: viewID, expires: s.now().Add(s.o.TriggerLife)}
	return answer{
		"type": kind, "token": "legacy-verification-token", "api_app_id": s.o.AppID, "trigger_id": id,
		"team":       answer{"id": s.o.TeamID, "domain": "test"},
		"enterprise": nil, "is_enterprise_install": false,
		"user": answer{"id": user, "username": u.DisplayName, "name": u.DisplayName, "team_id": team},
	}
}

// buttonOf finds a button in blocks and returns it as an action.
func buttonOf(blocks json.RawMessage, action string, now time.Time) answer {
	var list []map[string]any
	if json.Unmarshal(blocks, &list) != nil {
		return nil
	}
	for i, b := range list {
		elements, _ := b["elements"].([]any)
		for _, e := range append(elements, b["accessory"]) {
			o, ok := e.(map[string]any)
			if !ok || o["type"] != "button" || o["action_id"] != action {
				continue
			}
			id, _ := b["block_id"].(string)
			if id == "" {
				id = "b" + strconv.Itoa(i) // Slack generates one
			}
			return answer{
				"type": "button", "action_id": action, "block_id": id, "value": o["value"], "text": o["text"],
				"action_ts": fmt.Sprintf("%d.%06d", now.Unix(), now.Nanosecond()/1000),
			}
		}
	}
	return nil
}

func encode(a answer) []byte {
	b, err := json.Marshal(a)
	if err != nil {
		panic(err) // unreachable: maps, strings and raw JSON that was parsed before
	}
	return b
}

// send delivers an interaction to the app over the configured transport.
func (s *Server) send(payload []byte) (Delivery, error) {
	s.mu.Lock()
	to, at := s.interact, s.now()
	s.mu.Unlock()
	if to == "" {
		return s.deliver(payload), nil
	}
	body := []byte(url.Values{"payload": {string(payload)}}.Encode())
	return s.Post(body, s.Sign(body, at))
}

// Sign returns the headers of a signed request.
func (s *Server) Sign(body []byte, at time.Time) http.Header {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(s.o.SigningSecret))
	fmt.Fprintf(mac, "v0:%s:%s", stamp, body)
	h := http.Header{}
	h.Set("Content-Type", "application/x-www-form-urlencoded")
	h.Set("X-Slack-Request-Timestamp", stamp)
	h.Set("X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)))
	return h
}

// Post posts a request to the interactivity endpoint as Slack does.
func (s *Server) Post(body []byte, h http.Header) (Delivery, error) {
	s.mu.Lock()
	to := s.interact
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), s.o.AckWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return Delivery{}, err
	}
	req.Header = h
	start := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.mu.Lock()
		s.violate("the interactivity request was not answered within %s", s.o.AckWithin)
		s.mu.Unlock()
		return Delivery{}, nil
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	d := Delivery{Acknowledged: resp.StatusCode/100 == 2, After: time.Since(start), Status: resp.StatusCode}
	d.answer(raw)
	return d, nil
}
