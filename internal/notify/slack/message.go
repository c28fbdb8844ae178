package slack

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/inference-responder/responder/internal/fault"
)

// eventType marks our messages in Slack's metadata.
const eventType = "responder_run"

// Meta is metadata that Slack stores with a message, invisible to people, so
// that the message can be found again.
type Meta struct {
	Run  string // ID of the run; empty: it belongs to none, and Part tells which it is
	Gate string // one of the run's gates; may be empty
	Part string // which message of the run: "approval", "progress-7"; may be empty
	Rev  string // the rendered revision, to detect whether an edit is due; may be empty
}

// Same reports whether both describe the same message, in whatever revision.
func (m Meta) Same(other Meta) bool {
	return m.Run == other.Run && m.Gate == other.Gate && m.Part == other.Part
}

// Ref is a posted message.
type Ref struct {
	Channel string // its ID
	TS      string
}

// Found is a message of ours that Slack returned.
type Found struct {
	Meta
	Ref
}

// channelID matches the ID of a channel. Names can change and are not accepted.
var channelID = regexp.MustCompile(`^[CGD][A-Z0-9]{5,30}$`)

// Post posts a message to a channel, given by its ID. An error with Unknown set
// means that the message may have been posted: look with [Client.Find] before
// posting again.
func (c *Client) Post(ctx context.Context, channel string, meta Meta, m Message) (Ref, error) {
	return c.post(ctx, Ref{Channel: channel}, meta, m)
}

// Reply posts a message into the thread of another.
func (c *Client) Reply(ctx context.Context, parent Ref, meta Meta, m Message) (Ref, error) {
	if parent.TS == "" {
		return Ref{}, failure{reason: fault.Invalid, method: "chat.postMessage", err: errors.New("missing the message to reply to")}.error()
	}
	return c.post(ctx, parent, meta, m)
}

func (c *Client) post(ctx context.Context, to Ref, meta Meta, m Message) (Ref, error) {
	const method = "chat.postMessage"
	if err := checkChannel(method, to.Channel); err != nil {
		return Ref{}, err
	}
	options := append(m.options(), slack.MsgOptionMetadata(meta.encode()))
	if to.TS != "" {
		options = append(options, slack.MsgOptionTS(to.TS))
	}
	var ref Ref
	err := c.call(method, to.Channel, func() (err error) {
		ref.Channel, ref.TS, err = c.api().PostMessageContext(ctx, to.Channel, options...)
		return err
	})
	if err != nil {
		return Ref{}, err
	}
	if ref.TS == "" {
		return Ref{}, failure{reason: fault.SlackServerError, method: method, unknown: true, err: errors.New("the answer names no message")}.error()
	}
	return ref, nil
}

// Update edits a posted message in place. Repeating it has no effect.
func (c *Client) Update(ctx context.Context, ref Ref, meta Meta, m Message) error {
	return c.call("chat.update", "", func() error {
		_, _, _, err := c.api().UpdateMessageContext(ctx, ref.Channel, ref.TS, append(m.options(), slack.MsgOptionMetadata(meta.encode()))...)
		return err
	})
}

// Delete deletes a message of ours.
func (c *Client) Delete(ctx context.Context, ref Ref) error {
	return c.call("chat.delete", "", func() error {
		_, _, err := c.api().DeleteMessageContext(ctx, ref.Channel, ref.TS)
		return err
	})
}

// Ephemeral shows a message to one person in a channel, once. Slack does not
// guarantee delivery.
func (c *Client) Ephemeral(ctx context.Context, channel, userID string, m Message) error {
	const method = "chat.postEphemeral"
	if err := checkChannel(method, channel); err != nil {
		return err
	}
	return c.call(method, channel, func() error {
		_, err := c.api().PostEphemeralContext(ctx, channel, userID, m.options()...)
		return err
	})
}

// OpenModal shows a dialog to the person who clicked, on top of the dialog they
// clicked in if there is one. Slack stacks at most three dialogs, so a page of
// the details replaces the previous page. It must be called within three
// seconds of the click.
func (c *Client) OpenModal(ctx context.Context, click Click, m Modal) error {
	switch {
	case click.ViewID == "":
		return c.call("views.open", "", func() error {
			_, err := c.api().OpenViewContext(ctx, click.TriggerID, m.view)
			return err
		})
	case click.Kind == KindDetails:
		return c.call("views.update", "", func() error {
			_, err := c.api().UpdateViewContext(ctx, m.view, "", "", click.ViewID)
			return err
		})
	default:
		return c.call("views.push", "", func() error {
			_, err := c.api().PushViewContext(ctx, click.TriggerID, m.view)
			return err
		})
	}
}

// Find returns our messages in a channel that were posted since a time, newest
// first, without thread replies; see [Client.FindReplies]. One call reads 200
// messages, so call it once for all runs of a channel. Slack allows an internal
// app 50 calls a minute, and a distributed app outside its marketplace one.
func (c *Client) Find(ctx context.Context, channel string, since time.Time) ([]Found, error) {
	const method = "conversations.history"
	if err := checkChannel(method, channel); err != nil {
		return nil, err
	}
	p := slack.GetConversationHistoryParameters{
		ChannelID: channel, Limit: 200, IncludeAllMetadata: true, Oldest: timestamp(since), Inclusive: true,
	}
	return c.find(ctx, method, channel, func() (messages []slack.Message, next string, err error) {
		r, err := c.api().GetConversationHistoryContext(ctx, &p)
		if err != nil {
			return nil, "", err
		}
		p.Cursor = r.ResponseMetaData.NextCursor
		return r.Messages, p.Cursor, nil
	})
}

// FindReplies returns our messages in a thread.
func (c *Client) FindReplies(ctx context.Context, parent Ref) ([]Found, error) {
	p := slack.GetConversationRepliesParameters{ChannelID: parent.Channel, Timestamp: parent.TS, Limit: 200, IncludeAllMetadata: true}
	return c.find(ctx, "conversations.replies", parent.Channel, func() (messages []slack.Message, next string, err error) {
		messages, _, p.Cursor, err = c.api().GetConversationRepliesContext(ctx, &p)
		return messages, p.Cursor, err
	})
}

// maxPagesRead limits a search to 20,000 messages.
const maxPagesRead = 100

func (c *Client) find(ctx context.Context, method, channel string, page func() ([]slack.Message, string, error)) ([]Found, error) {
	who, err := c.Identify(ctx)
	if err != nil {
		return nil, err
	}
	var out []Found
	for range maxPagesRead {
		var messages []slack.Message
		var next string
		err := c.call(method, "", func() (err error) {
			messages, next, err = page()
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			// Anybody can write our metadata; only we write as our bot.
			if meta, ok := decodeMeta(m.Metadata); ok && m.BotID != "" && m.BotID == who.BotID {
				out = append(out, Found{Meta: meta, Ref: Ref{Channel: channel, TS: m.Timestamp}})
			}
		}
		if next == "" {
			return out, nil
		}
	}
	// An incomplete answer would lead to a second message.
	return nil, failure{reason: fault.SlackServerError, method: method, err: fmt.Errorf("more than %d pages of messages: search from a later time", maxPagesRead)}.error()
}

// options returns the parts that every message has. Slack parses no names or
// addresses in it and unfurls no links.
func (m Message) options() []slack.MsgOption {
	return []slack.MsgOption{
		slack.MsgOptionText(m.text, false), slack.MsgOptionBlocks(m.blocks...),
		slack.MsgOptionParse(false), slack.MsgOptionLinkNames(false),
		slack.MsgOptionDisableLinkUnfurl(), slack.MsgOptionDisableMediaUnfurl(), slack.MsgOptionDisableMarkdown(),
	}
}

func (m Meta) encode() slack.SlackMetadata {
	p := map[string]any{"run": m.Run}
	for k, v := range map[string]string{"gate": m.Gate, "part": m.Part, "rev": m.Rev} {
		if v != "" {
			p[k] = v
		}
	}
	return slack.SlackMetadata{EventType: eventType, EventPayload: p}
}

func decodeMeta(s slack.SlackMetadata) (Meta, bool) {
	get := func(k string) string {
		v, _ := s.EventPayload[k].(string)
		return v
	}
	m := Meta{Run: get("run"), Gate: get("gate"), Part: get("part"), Rev: get("rev")}
	return m, s.EventType == eventType && (m.Run != "" || m.Part != "")
}

func checkChannel(method, channel string) error {
	if !channelID.MatchString(channel) {
		return failure{reason: fault.NoChannel, method: method, err: fmt.Errorf("%q is not a channel ID, which begins with C or G", cut(visible(channel), 60))}.error()
	}
	return nil
}

// timestamp returns a time in Slack's form: seconds and microseconds.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.Unix(), 10) + "." + fmt.Sprintf("%06d", t.Nanosecond()/1000)
}

// posted returns when a message was posted, by Slack's clock; zero if its
// timestamp is malformed.
func posted(ts string) time.Time {
	seconds, fraction, _ := strings.Cut(ts, ".")
	s, err := strconv.ParseInt(seconds, 10, 64)
	us, err2 := strconv.ParseInt(fraction, 10, 64)
	if err != nil || err2 != nil {
		return time.Time{}
	}
	return time.Unix(s, us*1000)
}
