// Package slacktest is a fake Slack for tests: the Web API over HTTP, Socket
// Mode over WebSocket, and signed interactivity requests, as Slack documents
// them. It knows nothing of the client under test.
//
// It is as strict as Slack, and stricter where Slack would only misbehave: it
// refuses what breaks a published limit or lacks a scope, and records an
// interaction that is not acknowledged within three seconds as a violation.
// [Start] returns a running server. [Server] is an [net/http.Handler] for
// callers with their own listener.
//
// Where Slack's documentation is silent, this server takes the stricter
// reading, with a comment there.
package slacktest
