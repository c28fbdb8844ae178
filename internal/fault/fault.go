// Package fault holds the words for why something failed: one [Reason], which
// retry policy and metrics are decided on, and one [Error], which carries it
// from the packages that talk to the outside world up to the run's outcome.
//
// It is a leaf: it imports nothing of this module, and decides nothing.
package fault

import "time"

// Reason is why something failed or is not proven, for machines. Retry policy
// is decided on it. Reasons are stored in the journal and are metric labels,
// so the string of a reason never changes. Messages are for people.
type Reason string

// The reasons of everything that is asked for something: the Kubernetes API,
// Git, Prometheus, Alertmanager, PagerDuty, webhooks.
const (
	None        Reason = ""
	Unreachable Reason = "unreachable"   // could not connect, or the answer was cut off
	Timeout     Reason = "timeout"       // no answer in time
	Throttled   Reason = "throttled"     // 429: asked to slow down
	ServerError Reason = "server_error"  // 5xx, or an answer that cannot be read
	Forbidden   Reason = "forbidden"     // 401, 403, or our own credential cannot be read
	NotFound    Reason = "not_found"     // the target is not there
	Conflict    Reason = "conflict"      // a precondition failed: the target moved since it was read
	Invalid     Reason = "invalid"       // the request, its parameters or an input is refused for what it is
	Owned       Reason = "owned"         // an HPA, Argo CD, Flux, a generator or a parent object owns the field
	Ambiguous   Reason = "ambiguous"     // several places or objects fit, and nothing decides which one counts
	NothingToDo Reason = "nothing_to_do" // already as wanted, or no earlier revision
	OutOfBounds Reason = "out_of_bounds" // beyond MaxScale, MinReady, a size limit or what the workload allows
)

// The reasons why a run or one of its effects did not go on.
const (
	Guard         Reason = "guard"          // a guard refused
	Deadline      Reason = "deadline"       // not done within the playbook's time
	Degraded      Reason = "degraded"       // the change did not become healthy
	Overridden    Reason = "overridden"     // the change is made, and something else decides what runs
	ForeignChange Reason = "foreign_change" // someone else changed the target
	Panic         Reason = "panic"          // a step panicked; never retried
	Expression    Reason = "expression"     // a condition or value could not be evaluated
	Denied        Reason = "denied"         // a person said no
	Canceled      Reason = "canceled"       // a person cancelled
	Cleared       Reason = "cleared"        // the alert resolved
	Interrupted   Reason = "interrupted"    // the process died between intent and outcome
)

// The reasons why a query had no usable answer, or why a proof is not made.
const (
	NoData     Reason = "no_data"    // empty, or partial as the server itself reports
	Stale      Reason = "stale"      // the newest sample is too old
	NotANumber Reason = "nan"        // NaN or infinite
	NoTraffic  Reason = "no_traffic" // too few requests to prove anything
	NotMet     Reason = "not_met"    // an expectation is not satisfied
	Burning    Reason = "burning"    // the error budget burns too fast since the fix
)

// The reasons of the Slack Web API, next to Unreachable, NotFound and Invalid.
// Some have an equivalent above, but are labels of Slack's own metric and stand
// in stored records, so they keep their strings.
const (
	RateLimited      Reason = "rate_limited"  // wait for Error.RetryAfter
	MissingScope     Reason = "missing_scope" // the message names the scope; install the app again
	Archived         Reason = "archived"      // the channel is archived
	NoChannel        Reason = "channel"       // no such channel, or the app is not in it
	BadToken         Reason = "token"         // invalid, expired or revoked
	TooLate          Reason = "too_late"      // the trigger of a dialog is older than three seconds, or was used
	SlackServerError Reason = "server"        // 5xx, or an answer that is not Slack's
)

// The reasons why a GPU agent returned no snapshot, next to Unreachable and Timeout.
const (
	NoAgent     Reason = "no_agent"     // the API server knows no running agent on the node
	Untrusted   Reason = "untrusted"    // its certificate is not of our authority, or not in its name
	Impostor    Reason = "impostor"     // it is not the pod, or not of the node, that it should be
	Refused     Reason = "refused"      // it does not answer us
	BadSnapshot Reason = "bad_snapshot" // its answer cannot be read
	Unchecked   Reason = "unchecked"    // its identity cannot be checked now
)

// Retryable reports whether trying a read or an idempotent step again may help.
func (r Reason) Retryable() bool {
	switch r {
	case Unreachable, Timeout, Throttled, ServerError, Interrupted:
		return true
	default:
		return false
	}
}

// Error is why something could not be done.
type Error struct {
	Reason     Reason
	Message    string        // what, where, why, what to do; never a credential
	Unknown    bool          // a write may have happened: look before it is repeated
	RetryAfter time.Duration // how long the other side wants to be left alone; 0: it did not say
	Status     int           // of the HTTP answer, where the reason is not enough; 0: none, or not recorded
	Err        error         // the cause, if it is not in Message; its text is shown
}

// Error returns the message and the cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
