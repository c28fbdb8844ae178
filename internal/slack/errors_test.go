package slack

import "testing"

// TestReasons pins the meaning of some codes in Slack's reference whose name
// misleads.
func TestReasons(t *testing.T) {
	for code, want := range map[string]Reason{
		"is_inactive":                           Archived, // the message cannot be edited within a frozen, archived or deleted channel
		"cant_update_message":                   NotFound, // the authenticated user does not have permission to update this message
		"edit_window_closed":                    NotFound, // the message cannot be edited due to the team message edit settings
		"no_permission":                         Channel,  // make sure your app is a member of the conversation
		"update_failed":                         ServerError,
		"org_login_required":                    ServerError, // until migration is complete
		"restricted_action_thread_only_channel": Channel,
		"external_channel_migrating":            ServerError, // cannot be updated at this time
		"accesslimited":                         Token,       // on the current network
		"msg_blocks_too_long":                   Invalid,
	} {
		if got := reason(code); got != want {
			t.Errorf("%s is %s, want %s", code, got, want)
		}
	}
}
