package slack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// payload is the part of an interaction that is read. Message text, names and
// other state are not decoded.
type payload struct {
	Type      string `json:"type"`
	APIAppID  string `json:"api_app_id"`
	TriggerID string `json:"trigger_id"`
	Team      *idOf  `json:"team"`
	Channel   idOf   `json:"channel"`
	User      struct {
		ID     string `json:"id"`
		TeamID string `json:"team_id"`
	} `json:"user"`
	Container struct {
		MessageTS string `json:"message_ts"`
		ChannelID string `json:"channel_id"`
		ViewID    string `json:"view_id"`
	} `json:"container"`
	Actions []struct {
		ActionID string `json:"action_id"`
		Type     string `json:"type"`
		Value    string `json:"value"`
		ActionTS string `json:"action_ts"`
	} `json:"actions"`
	View struct {
		ID              string `json:"id"`
		CallbackID      string `json:"callback_id"`
		PrivateMetadata string `json:"private_metadata"`
		State           struct {
			Values map[string]map[string]struct {
				Value string `json:"value"`
			} `json:"values"`
		} `json:"state"`
	} `json:"view"`
}

type idOf struct {
	ID string `json:"id"`
}

// opaque matches the identifier in a button.
var opaque = regexp.MustCompile(`^[A-Za-z0-9_-]{8,64}$`)

// slackID matches Slack's own identifiers.
var slackID = regexp.MustCompile(`^[A-Z][A-Z0-9]{2,30}$`)

// refusal is the error for an interaction that is not accepted as a click.
type refusal struct {
	reason  Refusal
	message string
}

func (r *refusal) Error() string { return r.message }

func refuse(reason Refusal, format string, a ...any) error {
	return &refusal{reason, fmt.Sprintf(format, a...)}
}

// errNothing marks an interaction that requests nothing, such as closing a
// dialog.
var errNothing = errors.New("nothing to do")

// errNoReason marks a submitted dialog without a usable reason.
var errNoReason = errors.New("no reason given")

// parse reads one interaction of either transport. It does not check whose
// interaction it is, and keeps only what a [Click] holds.
func parse(raw []byte) (payload, Click, error) {
	var p payload
	if err := unambiguous(raw); err != nil {
		return p, Click{}, refuse(Malformed, "interaction: %v", err)
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, Click{}, refuse(Malformed, "interaction: not in Slack's format")
	}
	c := Click{
		UserID: p.User.ID, UserTeamID: p.User.TeamID, TriggerID: p.TriggerID,
		Channel: p.Container.ChannelID, MessageTS: p.Container.MessageTS, ViewID: p.View.ID,
	}
	if p.Team != nil {
		c.TeamID = p.Team.ID
	}
	if c.Channel == "" {
		c.Channel = p.Channel.ID
	}
	var err error
	switch p.Type {
	case "block_actions":
		err = p.action(&c)
	case "view_submission":
		err = p.submission(&c)
	case "view_closed":
		err = errNothing
	default:
		err = refuse(UnknownAction, "interaction: type %q is not one of ours", cut(visible(p.Type), 40))
	}
	if err == nil && !slackID.MatchString(c.UserID) {
		err = refuse(Malformed, "interaction: missing user")
	}
	return p, c, err
}

func (p payload) action(c *Click) error {
	if len(p.Actions) != 1 {
		return refuse(Malformed, "interaction: %d actions, want 1", len(p.Actions))
	}
	a := p.Actions[0]
	name, ours := strings.CutPrefix(a.ActionID, actionPrefix)
	c.Kind, c.ID = Kind(name), a.Value
	switch {
	case !ours || a.Type != "button":
		return refuse(UnknownAction, "interaction: action %q is not one of ours", cut(visible(a.ActionID), 60))
	case !opaque.MatchString(a.Value):
		return refuse(Malformed, "interaction: the button's value is not an identifier of ours")
	}
	if at, err := strconv.ParseFloat(a.ActionTS, 64); err == nil && at > 0 && at < 1e11 {
		c.At = time.UnixMilli(int64(at * 1000))
	}
	if c.ViewID != "" {
		back, err := p.carried()
		if err != nil {
			return err
		}
		if back.ID != c.ID {
			return refuse(Malformed, "interaction: the button does not belong to this dialog")
		}
		c.Channel, c.MessageTS, c.Page = back.Channel, back.TS, back.Page
	}
	switch c.Kind {
	case KindApprove, KindDeny, KindReplan, KindBreakGlass, KindDetails:
		c.Page = 0
	case kindNext, kindPrevious:
		if c.ViewID == "" {
			return refuse(Malformed, "interaction: paging outside a dialog")
		}
		if c.Page++; c.Kind == kindPrevious {
			c.Page -= 2
		}
		c.Kind, c.Page = KindDetails, min(max(c.Page, 0), maxPages)
	default:
		return refuse(UnknownAction, "interaction: action %q is not one of ours", cut(visible(a.ActionID), 60))
	}
	return nil
}

func (p payload) submission(c *Click) error {
	name, _ := strings.CutPrefix(p.View.CallbackID, actionPrefix)
	c.Kind = Kind(name)
	if c.Kind != KindDenySubmitted && c.Kind != KindBreakGlassSubmitted {
		return refuse(UnknownAction, "interaction: dialog %q is not one of ours", cut(visible(p.View.CallbackID), 60))
	}
	back, err := p.carried()
	if err != nil {
		return err
	}
	c.ID, c.Channel, c.MessageTS = back.ID, back.Channel, back.TS
	c.Reason = strings.TrimSpace(visible(p.View.State.Values[reasonBlock][actionPrefix+reasonBlock].Value))
	if n := size(c.Reason); n > 2*maxReason {
		return refuse(Malformed, "interaction: the reason has %d characters", n)
	}
	if size(strings.Join(strings.Fields(c.Reason), "")) < 3 {
		return errNoReason
	}
	return nil
}

// carried decodes the state that our dialog returned.
func (p payload) carried() (carried, error) {
	var back carried
	if err := json.Unmarshal([]byte(p.View.PrivateMetadata), &back); err != nil || !opaque.MatchString(back.ID) {
		return carried{}, refuse(Malformed, "interaction: the dialog's state holds no identifier of ours")
	}
	return back, nil
}

// unambiguous refuses JSON that two readers could interpret differently: a name
// twice in one object, also in another case because encoding/json ignores case;
// more than one value; nesting beyond anything Slack sends.
func unambiguous(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := object(d, 0); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

func object(d *json.Decoder, depth int) error {
	t, err := d.Token()
	if err != nil {
		return errors.New("not JSON")
	}
	delim, ok := t.(json.Delim)
	if !ok {
		return nil
	}
	if depth > 64 {
		return errors.New("nested too deep")
	}
	names := map[string]bool{}
	for d.More() {
		if delim == '{' {
			name, err := d.Token()
			if err != nil {
				return errors.New("not JSON")
			}
			s, _ := name.(string)
			if s = strings.ToLower(s); names[s] {
				return errors.New("a name appears twice in one object")
			}
			names[s] = true
		}
		if err := object(d, depth+1); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return errors.New("not JSON")
	}
	return nil
}
