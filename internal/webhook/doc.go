// Package webhook is the door: it receives Alertmanager's notifications and
// serves the HTTP API on which people and the CLI read and decide.
//
// # Receiving
//
// A request walks one line: authenticate from its headers, bound, read,
// decode, check, admit. 200 is answered only after [Intake.Admit] returned,
// which is when the notification is on disk. What Alertmanager does with the
// other answers decides which one is given (it repeats a 5xx at once, and a
// 4xx only a group interval later):
//
//	400  the body can never be accepted; the message names the field
//	401  no or a wrong credential; the body was not read
//	413  the body is larger than the limit
//	503  everything that may pass: overload, a full journal, a pause, a slow sender
//
// Memory is bounded before work starts: connections, bytes of bodies over all
// senders, bytes of one body, alerts in a body, labels of an alert, sizes of
// names and values, nesting. Headers and body have to be there in one time
// limit, so that slow senders cannot hold connections.
//
// # Deciding
//
// Who decides is who authenticated: the name and the groups of a decision come
// from the credential, never from the request's body. There are no cookies and
// no CORS headers, and what changes something is refused to the pages of other
// sites, since browsers send passwords and certificates along with any page's
// requests. Without any credential configured only loopback is served,
// and only under a loopback host name and not to other sites' pages, so that a
// browser on the same machine cannot be tricked into deciding.
//
// # Pages
//
// What people see in a browser is made by [Pages]; this package authenticates
// who looks, and takes the forms. A form is a decision like the API's, through
// the door web, and it always names the question and the plan that were seen.
//
// The package runs no playbook and writes no journal; it knows both through
// small interfaces of its own ([Intake], [Control], [Pauses], [Views], [Log]).
package webhook
