package slack

import (
	"strings"
	"testing"

	"github.com/slack-go/slack"

	"github.com/inference-responder/responder/internal/fault"
)

// TestReasons pins the meaning of some codes in Slack's reference whose name
// misleads.
func TestReasons(t *testing.T) {
	for code, want := range map[string]fault.Reason{
		"is_inactive":                           fault.Archived,  // the message cannot be edited within a frozen, archived or deleted channel
		"cant_update_message":                   fault.NotFound,  // the authenticated user does not have permission to update this message
		"edit_window_closed":                    fault.NotFound,  // the message cannot be edited due to the team message edit settings
		"no_permission":                         fault.NoChannel, // make sure your app is a member of the conversation
		"update_failed":                         fault.SlackServerError,
		"org_login_required":                    fault.SlackServerError, // until migration is complete
		"restricted_action_thread_only_channel": fault.NoChannel,
		"external_channel_migrating":            fault.SlackServerError, // cannot be updated at this time
		"accesslimited":                         fault.BadToken,         // on the current network
		"msg_blocks_too_long":                   fault.Invalid,
	} {
		if got := reason(code); got != want {
			t.Errorf("%s is %s, want %s", code, got, want)
		}
	}
}

// An answer that echoes the request shows no token.
func TestAnswersShowNoToken(t *testing.T) {
	const echo = "must provide a channel: channel=C1&token=xoxb-canary-canary-0001&text=x xapp-1-canary-0001"
	refused := slack.SlackErrorResponse{Err: "invalid_arguments " + echo, Needed: echo}
	refused.ResponseMetadata.Messages = []string{echo, "missing required field: channel"}
	got := classify("chat.postMessage", refused).Error()
	if strings.Contains(got, "canary") || !strings.Contains(got, "missing required field: channel") {
		t.Error(got)
	}
}
