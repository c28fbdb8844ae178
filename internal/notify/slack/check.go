package slack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slack-go/slack"

	"github.com/inference-responder/responder/internal/fault"
)

// Finding is the result of one check.
type Finding struct {
	Name   string // "token", "scopes", "app token", "channel C0123ABCD", "round trip C0123ABCD"
	OK     bool
	Detail string // what was observed
	Fix    string // what to do; empty if OK
}

// CheckOptions describe what the app must be able to do.
type CheckOptions struct {
	Transport Transport
	Channels  []string // IDs
	NoEmail   bool     // as in [ManifestOptions]
	NoGroups  bool
	Silent    bool // nothing is posted
}

// Check verifies that the tokens work, the scopes suffice, the app is a member
// of its channels, and a message can be posted, found, edited and deleted
// there. After a failure it continues with the checks that still make sense.
// The test message is visible for a moment.
func (c *Client) Check(ctx context.Context, o CheckOptions) []Finding {
	var out []Finding
	r, err := c.api().AuthTestContext(ctx)
	if err != nil {
		return append(out, failed("token", classify("auth.test", err)))
	}
	out = append(out, Finding{Name: "token", OK: true, Detail: fmt.Sprintf("bot %s of workspace %s (%s)", r.UserID, r.Team, r.TeamID)})
	who, err := c.Identify(ctx)
	switch {
	case err != nil:
		out = append(out, failed("app", err))
	case who.AppID == "":
		out = append(out, Finding{Name: "app", Detail: "Slack does not name the app of the token", Fix: "use a bot token (xoxb-...), or configure the app's ID"})
	default:
		out = append(out, Finding{Name: "app", OK: true, Detail: who.AppID})
	}
	out = append(out, checkScopes(r.Header.Get("X-OAuth-Scopes"), o), c.checkTransport(ctx, o.Transport))
	for _, channel := range o.Channels {
		f := c.checkChannel(ctx, channel)
		if out = append(out, f); f.OK && !o.Silent {
			out = append(out, c.roundTrip(ctx, channel))
		}
	}
	return out
}

func failed(name string, err error) Finding {
	f := Finding{Name: name, Detail: err.Error(), Fix: "try again; if it persists, see status.slack.com"}
	var e *fault.Error
	if errors.As(err, &e) {
		if remedy := fix(e.Reason); remedy != "" {
			f.Fix = remedy
		}
	}
	return f
}

func checkScopes(header string, o CheckOptions) Finding {
	var have []string
	for s := range strings.SplitSeq(header, ",") {
		if s = strings.TrimSpace(s); s != "" {
			have = append(have, s)
		}
	}
	if len(have) == 0 {
		return Finding{Name: "scopes", Detail: "Slack did not list the scopes of the token", Fix: "use a bot token (xoxb-...)"}
	}
	// Not every installation needs private channels. The membership check shows
	// whether this one does.
	want := scopes(ManifestOptions{NoEmail: o.NoEmail, NoGroups: o.NoGroups, NoPrivate: true})
	most := scopes(ManifestOptions{})
	var missing, excess []string
	for _, s := range want {
		if !slices.Contains(have, s) {
			missing = append(missing, s)
		}
	}
	for _, s := range have {
		if !slices.Contains(most, s) {
			excess = append(excess, s)
		}
	}
	detail := strings.Join(have, ", ")
	if len(excess) > 0 {
		detail += "; more than needed: " + strings.Join(excess, ", ")
	}
	if len(missing) > 0 {
		return Finding{
			Name: "scopes", Detail: "missing: " + strings.Join(missing, ", "),
			Fix: "add them under OAuth & Permissions (responder slack manifest prints all) and install the app again",
		}
	}
	return Finding{Name: "scopes", OK: true, Detail: detail}
}

func (c *Client) checkTransport(ctx context.Context, t Transport) Finding {
	if t != SocketMode {
		if c.secrets().SigningSecret.Empty() {
			return Finding{Name: "signing secret", Detail: "none is configured", Fix: "copy it from the app's Basic Information into its file"}
		}
		return Finding{Name: "signing secret", OK: true, Detail: "configured; the first click shows whether it belongs to this app"}
	}
	if c.secrets().AppToken.Empty() {
		return Finding{Name: "app token", Detail: "none is configured", Fix: "create one with connections:write under Basic Information, App-Level Tokens"}
	}
	if _, _, err := c.api().StartSocketModeContext(ctx); err != nil {
		f := failed("app token", classify("apps.connections.open", err))
		f.Fix = "create an app-level token with connections:write and enable Socket Mode in the app"
		return f
	}
	return Finding{Name: "app token", OK: true, Detail: "a Socket Mode connection can be opened"}
}

func (c *Client) checkChannel(ctx context.Context, channel string) Finding {
	name := "channel " + channel
	if err := checkChannel("conversations.info", channel); err != nil {
		return failed(name, err)
	}
	info, err := c.api().GetConversationInfoContext(ctx, &slack.GetConversationInfoInput{ChannelID: channel})
	if err != nil {
		return failed(name, classify("conversations.info", err))
	}
	switch {
	case info.IsArchived:
		return Finding{Name: name, Detail: "#" + info.Name + " is archived", Fix: fix(fault.Archived)}
	case !info.IsMember:
		return Finding{Name: name, Detail: "the app is not in #" + info.Name, Fix: "in that channel: /invite @responder"}
	}
	detail := "member of #" + info.Name
	if info.IsExtShared {
		detail += ", which is shared with another organisation: its members see plans but cannot decide"
	}
	return Finding{Name: name, OK: true, Detail: detail}
}

// roundTrip posts, edits, finds and deletes a message, as a run does.
func (c *Client) roundTrip(ctx context.Context, channel string) (f Finding) {
	name := "round trip " + channel
	meta := Meta{Run: "check", Part: "round-trip"}
	ref, err := c.Post(ctx, channel, meta, Notice{Text: "A test of responder slack check. It is deleted automatically."}.Message())
	if err != nil {
		return failed(name, err)
	}
	defer func() {
		if err := c.Delete(context.WithoutCancel(ctx), ref); err != nil && f.OK {
			f = failed(name, fmt.Errorf("the test message was not deleted: %w", err))
		}
	}()
	if err := c.Update(ctx, ref, meta, Notice{Text: "A test of responder slack check: edited. It is deleted automatically."}.Message()); err != nil {
		return failed(name, err)
	}
	found, err := c.Find(ctx, channel, posted(ref.TS))
	if err != nil {
		return failed(name, err)
	}
	if !slices.ContainsFunc(found, func(x Found) bool { return x.Ref == ref && x.Same(meta) }) {
		return Finding{Name: name, Detail: "the message was posted but could not be found again", Fix: "check channels:history or groups:history; without them a crash may post a message twice"}
	}
	return Finding{Name: name, OK: true, Detail: "posted, edited, found and deleted"}
}
