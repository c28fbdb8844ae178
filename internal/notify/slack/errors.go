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

	"github.com/inference-responder/responder/internal/credential"
	"github.com/inference-responder/responder/internal/fault"
)

// failure is a failed call of the Web API.
type failure struct {
	method     string // "chat.postMessage"
	reason     fault.Reason
	code       string        // Slack's error code; empty if there is none
	needed     string        // the scope that is missing
	retryAfter time.Duration // of fault.RateLimited
	// unknown is set if Slack may have carried out the call although no answer
	// arrived. A message must then be looked for before it is posted again.
	unknown bool
	err     error // the cause; nil if Slack answered
}

// error returns the failure with a message that describes what failed, why, and
// what to do.
func (f failure) error() *fault.Error {
	var b strings.Builder
	fmt.Fprintf(&b, "slack %s: %s", f.method, strings.ReplaceAll(string(f.reason), "_", " "))
	if f.code != "" {
		fmt.Fprintf(&b, " (%s)", f.code)
	}
	if f.needed != "" {
		fmt.Fprintf(&b, ", needs scope %s", f.needed)
	}
	if f.retryAfter > 0 {
		fmt.Fprintf(&b, ", retry after %s", f.retryAfter.Round(time.Second))
	}
	if remedy := fix(f.reason); remedy != "" {
		b.WriteString(": " + remedy)
	}
	return &fault.Error{Reason: f.reason, Message: b.String(), RetryAfter: f.retryAfter, Unknown: f.unknown, Err: f.err}
}

// fix returns what a person can do.
func fix(r fault.Reason) string {
	switch r {
	case fault.MissingScope:
		return "compare the app with the output of responder slack manifest and install it again"
	case fault.Archived:
		return "unarchive the channel or configure another"
	case fault.NoChannel:
		return "use the channel's ID and invite the app: /invite @responder"
	case fault.BadToken:
		return "write a valid token to the configured file"
	case fault.Unreachable:
		return "check the network path to slack.com"
	default:
		return ""
	}
}

// reason maps Slack's error codes. A code that is not listed is Invalid: Slack
// understood the request and refused it.
func reason(code string) fault.Reason {
	switch code {
	case "ratelimited", "rate_limited", "message_limit_exceeded":
		return fault.RateLimited
	case "missing_scope", "ekm_access_denied":
		return fault.MissingScope
	case "is_archived", "is_inactive":
		return fault.Archived
	case "channel_not_found", "not_in_channel", "restricted_action", "restricted_action_read_only_channel", "restricted_action_thread_only_channel", "restricted_action_non_threadable_channel",
		"posting_to_general_channel_denied", "no_permission": // no_permission: the app is not in the conversation
		return fault.NoChannel
	case "invalid_auth", "not_authed", "token_expired", "token_revoked", "account_inactive", "not_allowed_token_type", "team_access_not_granted", "access_denied", "accesslimited", "two_factor_setup_required":
		return fault.BadToken
	case "message_not_found", "cant_update_message", "edit_window_closed", "cant_delete_message", "user_not_found", "users_not_found", "thread_not_found", "no_such_subteam", "subteam_not_found", "not_found", "bot_not_found", "user_not_visible":
		return fault.NotFound
	case "trigger_expired", "expired_trigger_id", "trigger_exchanged", "exchanged_trigger_id", "invalid_trigger", "invalid_trigger_id", "view_expired":
		return fault.TooLate
	case "internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org", "org_login_required", "external_channel_migrating", "update_failed":
		return fault.SlackServerError
	default:
		return fault.Invalid
	}
}

// classify converts an error of the client library. It omits the address, which
// for Socket Mode holds a ticket.
func classify(method string, err error) error {
	if err == nil {
		return nil
	}
	if already := (*fault.Error)(nil); errors.As(err, &already) {
		return err
	}
	e := failure{method: method}
	var limited *slack.RateLimitedError
	var status slack.StatusCodeError
	var answer slack.SlackErrorResponse
	var transport *url.Error
	switch {
	case errors.As(err, &transport):
		e.reason, e.err, e.unknown = fault.Unreachable, transport.Err, !neverSent(err)
	case errors.As(err, &limited):
		e.reason, e.retryAfter = fault.RateLimited, limited.RetryAfter
	case errors.As(err, &status):
		e.fromStatus(status.Code)
	case errors.As(err, &answer):
		// A proxy may echo the request, with the token in it.
		e.reason, e.code, e.needed = reason(answer.Err), credential.Redact(answer.Err), credential.Redact(answer.Needed)
		e.unknown = e.reason == fault.SlackServerError
		if details := answer.ResponseMetadata.Messages; len(details) > 0 {
			e.err = errors.New(credential.Redact(strings.Join(details, "; ")))
		}
	case errors.Is(err, slack.ErrParametersMissing), errors.Is(err, slack.ErrBlockIDNotUnique):
		e.reason, e.err = fault.Invalid, err
	case badJSON(err):
		e.reason, e.err, e.unknown = fault.SlackServerError, errors.New("the answer is not from Slack"), true
	default:
		e.reason, e.err, e.unknown = fault.Unreachable, err, !neverSent(err)
	}
	if e.reason == fault.RateLimited && e.retryAfter <= 0 {
		e.retryAfter = 30 * time.Second
	}
	return e.error()
}

func (e *failure) fromStatus(code int) {
	e.code = fmt.Sprintf("HTTP %d", code)
	switch {
	case code == http.StatusTooManyRequests:
		e.reason = fault.RateLimited
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		e.reason = fault.BadToken
	case code >= 500:
		e.reason, e.unknown = fault.SlackServerError, true
	default:
		e.reason = fault.Invalid
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
