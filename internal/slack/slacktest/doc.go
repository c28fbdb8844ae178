// Package slacktest is a Slack of the tests' own: the Web API over HTTP, Socket
// Mode over WebSocket, and signed interactivity requests, as Slack documents
// them. It knows nothing of the client under test.
//
// It is as strict as Slack and stricter where Slack would only behave badly:
// it refuses what breaks a published limit or lacks a scope, and records an
// interaction that is not acknowledged within three seconds as a violation.
// [Start] gives a running one; [Server] is an [net/http.Handler] for those who
// bring their own listener.
//
// Where Slack is silent, this server takes the stricter reading and says so at
// the place.
package slacktest
