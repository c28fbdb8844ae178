package slack

import (
	"time"
)

// Kind is the kind of a click.
type Kind string

// The kinds of clicks.
const (
	KindApprove             Kind = "approve"
	KindDeny                Kind = "deny"                 // open the dialog of [Deny]
	KindReplan              Kind = "replan"               // asks for a new plan
	KindDetails             Kind = "details"              // open the details at Page
	KindBreakGlass          Kind = "breakglass"           // open the dialog of [BreakGlass]
	KindDenySubmitted       Kind = "deny-submitted"       // a denial, with Reason
	KindBreakGlassSubmitted Kind = "breakglass-submitted" // an approval by one person alone, with Reason

	kindNext     Kind = "next"
	kindPrevious Kind = "previous"
)

// Click is one thing a person did in Slack. It is authentic. The consumer
// checks whether the person may do it and whether anything is left to decide.
type Click struct {
	Kind       Kind
	ID         string // the opaque identifier of the button or dialog
	UserID     string // see [People]; never a display name
	UserTeamID string // the person's workspace, which differs from TeamID in a shared channel; empty: Slack did not say
	TeamID     string // the app's workspace
	Channel    string // with MessageTS the message, also for dialogs
	MessageTS  string
	ViewID     string    // the dialog it happened in; empty: in a message
	TriggerID  string    // opens a dialog within three seconds
	Reason     string    // of a submitted dialog: at least 3 characters, without invisible ones; not escaped
	Page       int       // of KindDetails, from 0
	At         time.Time // when the person clicked if Slack reports it, else when the click arrived
	Envelope   string    // identifies the delivery: Socket Mode's envelope or the hashed signature of the HTTP request
	Transport  Transport
}

// Origin returns where to answer the click.
func (c Click) Origin() Origin { return Origin{Channel: c.Channel, MessageTS: c.MessageTS} }

// Transport is how a click arrives.
type Transport string

// The transports.
const (
	HTTP       Transport = "http"
	SocketMode Transport = "socket"
)
