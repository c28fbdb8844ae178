package slack

import (
	"time"
)

// Kind is what a person did.
type Kind string

// The kinds.
const (
	KindApprove             Kind = "approve"
	KindDeny                Kind = "deny"                 // wants to deny: open the dialog of [Deny]
	KindReplan              Kind = "replan"               // wants a fresh plan
	KindDetails             Kind = "details"              // wants to see all of it; Page says which page
	KindBreakGlass          Kind = "breakglass"           // wants to approve alone: open the dialog of [BreakGlass]
	KindDenySubmitted       Kind = "deny-submitted"       // denies, with Reason
	KindBreakGlassSubmitted Kind = "breakglass-submitted" // approves alone, with Reason

	kindNext     Kind = "next"
	kindPrevious Kind = "previous"
)

// Click is one thing a person did in Slack. It is authentic, and that is all:
// whether this person may, and whether there is anything left to decide, is
// the consumer's to find out.
type Click struct {
	Kind       Kind
	ID         string // the opaque identifier of the button or dialog
	UserID     string // who; see [People]. Never a display name
	UserTeamID string // the workspace of the person, which is another's in a shared channel; empty: Slack did not say
	TeamID     string // the workspace of the app
	Channel    string // where; with MessageTS the message, also for dialogs
	MessageTS  string
	ViewID     string    // the dialog it happened in; empty: in a message
	TriggerID  string    // opens a dialog within three seconds
	Reason     string    // of a submitted dialog: at least 3 characters, cleaned of what nobody can see; not escaped
	Page       int       // of KindDetails, from 0
	At         time.Time // when the person did it, if Slack said so; else when it came
	Envelope   string    // what identifies this delivery: Socket Mode's envelope or the HTTP request's signature, hashed
	Transport  Transport
}

// Origin is where to answer the click.
func (c Click) Origin() Origin { return Origin{Channel: c.Channel, MessageTS: c.MessageTS} }

// Transport is how a click came.
type Transport string

// The transports.
const (
	HTTP       Transport = "http"
	SocketMode Transport = "socket"
)
