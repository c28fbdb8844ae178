package slack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/slack-go/slack"
)

// Reason is why Slack did not do what it was asked to. It is also the metric's
// label.
type Reason string

// The reasons of an [Error].
const (
	RateLimited  Reason = "rate_limited"  // wait for Error.RetryAfter
	MissingScope Reason = "missing_scope" // Error.Needed names it; install the app again
	Archived     Reason = "archived"      // the channel is archived
	Channel      Reason = "channel"       // no such channel, or the app is not in it
	Token        Reason = "token"         // invalid, expired or revoked
	NotFound     Reason = "not_found"     // no such message, user or view, or the message is no longer ours to edit
	TooLate      Reason = "too_late"      // the trigger of a dialog is older than three seconds, or was used
	Invalid      Reason = "invalid"       // Slack refuses the request itself, a defect on our side
	Unreachable  Reason = "unreachable"   // no connection, or no answer in time
	ServerError  Reason = "server"        // 5xx, or an answer that is not Slack's
)

// Error is the failure of a call.
type Error struct {
	Reason     Reason
	Method     string        // of the Web API: "chat.postMessage"
	Code       string        // Slack's error code; empty if there is none
	RetryAfter time.Duration // of RateLimited
	Needed     string        // of MissingScope
	Provided   string        // of MissingScope
	// Unknown is set if Slack may have carried out the call although no answer
	// arrived. A message must then be looked for before it is posted again.
	Unknown bool
	Err     error // the cause; nil if Slack answered
}

// Error describes what failed, why, and what to do.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "slack %s: %s", e.Method, strings.ReplaceAll(string(e.Reason), "_", " "))
	if e.Code != "" {
		fmt.Fprintf(&b, " (%s)", e.Code)
	}
	if e.Needed != "" {
		fmt.Fprintf(&b, ", needs scope %s", e.Needed)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, ", retry after %s", e.RetryAfter.Round(time.Second))
	}
	if fix := e.Reason.fix(); fix != "" {
		b.WriteString(": " + fix)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// fix returns what a person can do.
func (r Reason) fix() string {
	switch r {
	case MissingScope:
		return "compare the app with the output of responder slack manifest and install it again"
	case Archived:
		return "unarchive the channel or configure another"
	case Channel:
		return "use the channel's ID and invite the app: /invite @responder"
	case Token:
		return "write a valid token to the configured file"
	case Unreachable:
		return "check the network path to slack.com"
	default:
		return ""
	}
}

// reasons maps Slack's error codes. A code that is not listed is Invalid: Slack
// understood the request and refused it.
func reason(code string) Reason {
	switch code {
	case "ratelimited", "rate_limited", "message_limit_exceeded":
		return RateLimited
	case "missing_scope", "ekm_access_denied":
		return MissingScope
	case "is_archived", "is_inactive":
		return Archived
	case "channel_not_found", "not_in_channel", "restricted_action", "restricted_action_read_only_channel", "restricted_action_thread_only_channel", "restricted_action_non_threadable_channel",
		"posting_to_general_channel_denied", "no_permission": // no_permission: the app is not in the conversation
		return Channel
	case "invalid_auth", "not_authed", "token_expired", "token_revoked", "account_inactive", "not_allowed_token_type", "team_access_not_granted", "access_denied", "accesslimited", "two_factor_setup_required":
		return Token
	case "message_not_found", "cant_update_message", "edit_window_closed", "cant_delete_message", "user_not_found", "users_not_found", "thread_not_found", "no_such_subteam", "subteam_not_found", "not_found", "bot_not_found", "user_not_visible":
		return NotFound
	case "trigger_expired", "expired_trigger_id", "trigger_exchanged", "exchanged_trigger_id", "invalid_trigger", "invalid_trigger_id", "view_expired":
		return TooLate
	case "internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org", "org_login_required", "external_channel_migrating", "update_failed":
		return ServerError
	default:
		return Invalid
	}
}

// classify converts an error of the client library. It omits the address, which
// for Socket Mode holds a ticket.
func classify(method string, err error) error {
	if err == nil {
		return nil
	}
	if already := (*Error)(nil); errors.As(err, &already) {
		return err
	}
	e := &Error{Method: method}
	var limited *slack.RateLimitedError
	var status slack.StatusCodeError
	var answer slack.SlackErrorResponse
	var transport *url.Error
	switch {
	case errors.As(err, &transport):
		e.Reason, e.Err, e.Unknown = Unreachable, transport.Err, !neverSent(err)
	case errors.As(err, &limited):
		e.Reason, e.RetryAfter = RateLimited, limited.RetryAfter
	case errors.As(err, &status):
		e.fromStatus(status.Code)
	case errors.As(err, &answer):
		e.Reason, e.Code, e.Needed, e.Provided = reason(answer.Err), answer.Err, answer.Needed, answer.Provided
		e.Unknown = e.Reason == ServerError
		if details := answer.ResponseMetadata.Messages; len(details) > 0 {
			e.Err = errors.New(strings.Join(details, "; "))
		}
	case errors.Is(err, slack.ErrParametersMissing), errors.Is(err, slack.ErrBlockIDNotUnique):
		e.Reason, e.Err = Invalid, err
	case badJSON(err):
		e.Reason, e.Err, e.Unknown = ServerError, errors.New("the answer is not from Slack"), true
	default:
		e.Reason, e.Err, e.Unknown = Unreachable, err, !neverSent(err)
	}
	if e.Reason == RateLimited && e.RetryAfter <= 0 {
		e.RetryAfter = 30 * time.Second
	}
	return e
}

func (e *Error) fromStatus(code int) {
	e.Code = fmt.Sprintf("HTTP %d", code)
	switch {
	case code == http.StatusTooManyRequests:
		e.Reason = RateLimited
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		e.Reason = Token
	case code >= 500:
		e.Reason, e.Unknown = ServerError, true
	default:
		e.Reason = Invalid
	}
}

func badJSON(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &kind) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

// neverSent reports whether the request cannot have reached Slack.
func neverSent(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &dns) || (errors.As(err, &op) && op.Op == "dial")
}
