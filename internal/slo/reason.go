package slo

import "fmt"

// Reason says, for machines, why a question had no usable answer or why a
// proof is not made. The words are those of the executor's reasons.
type Reason string

// The reasons.
const (
	Unreachable Reason = "unreachable"  // could not connect, or the answer was cut off
	Timeout     Reason = "timeout"      // no answer in time, or the query ran too long
	Throttled   Reason = "throttled"    // 429
	ServerError Reason = "server_error" // 5xx, or an answer that is not Prometheus's
	Forbidden   Reason = "forbidden"    // 401, 403
	NotFound    Reason = "not_found"    // 404: not a Prometheus API
	Invalid     Reason = "invalid"      // the expression or the settings are wrong
	NoData      Reason = "no_data"      // empty, or partial by the server's own words
	Stale       Reason = "stale"        // the newest sample is too old
	NotANumber  Reason = "nan"          // NaN or infinite
	NoTraffic   Reason = "no_traffic"   // too few requests to prove anything
	NotMet      Reason = "not_met"      // an expectation is not satisfied
	Burning     Reason = "burning"      // the budget burns too fast since the fix
)

// Error is why a query could not be answered.
type Error struct {
	Reason  Reason
	Message string // what, where, why, what to do
	Err     error
}

// Error says the message and the cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return fmt.Sprintf("%s: %v", e.Message, e.Err)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }
