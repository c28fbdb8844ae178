// Package webhook receives Alertmanager's notifications and serves the HTTP API
// that people and the CLI use to read and decide.
//
// # Receiving
//
// A request passes these steps in order: authenticate from its headers, bound,
// read, decode, check, admit. The answer is 200 only after [Intake.Admit]
// returned, when the notification is on disk. Alertmanager repeats a 5xx at once
// and a 4xx a group interval later, so the other answers are:
//
//	400  the body can never be accepted; the message names the field
//	401  no or a wrong credential; the body was not read
//	413  the body is larger than the limit
//	503  every temporary failure: overload, a full journal, a pause, a slow sender
//
// Memory is bounded before work starts: connections, bytes of bodies over all
// senders, bytes of one body, alerts in a body, labels of an alert, sizes of
// names and values, nesting. One time limit covers headers and body, so that
// slow senders cannot hold connections.
//
// # Deciding
//
// The name and the groups of a decision come from the credential, never from the
// request's body; in a sandbox that authenticates nobody, people may play others by name
// (channel sandbox). There are no CORS headers. Of the four cookies that the page sets, that
// of a session is the only credential. Requests that change something are refused to the pages of
// other sites, because browsers send passwords and certificates with the requests of
// any page. If no credential is configured, only loopback is served, only under a
// loopback host name and not to other sites' pages, so that a page cannot decide
// through a browser on the same machine.
//
// # Signing in
//
// People sign in on the page by a name and password, or through an OpenID Connect issuer
// by the authorization code flow with PKCE. Both lead to a session, which acts as its
// person would with that credential, but changes things by the page's forms only, and
// only where the browser says that they are this service's own. Package session keeps
// sessions, and seals what a browser carries.
//
// The cookies are: the session; a sign-in at the issuer that is under way; a browser in
// which somebody signed in before, which strangers' failures do not slow down; and that
// somebody signed out, after which the issuer asks who signs in.
//
// # Pages
//
// [Pages] renders what people see in a browser. This package authenticates them
// and handles the forms. A form is a decision like the API's, on the channel web.
// It always names the question and the plan that the person saw.
//
// The package runs no playbook and writes no journal. It uses both through small
// interfaces of its own ([Intake], [Control], [Pauses], [Views], [Log]).
package webhook
