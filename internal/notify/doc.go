// Package notify tells other systems, beside Slack, what happens: a webhook
// that takes CloudEvents, PagerDuty, Alertmanager's silences, and who repairs
// hardware. It is the outside world: it knows nothing of runs, playbooks or who calls it.
//
// Every failure is a [*fault.Error] with a [fault.Reason], so that a caller can tell what
// may succeed later: Unreachable, Timeout, Throttled and ServerError. Nothing is tried again here; what a server says about
// when to come back is kept, and until then it is not asked.
//
// Sending is at least once: a lost answer looks like a failure. Each message
// therefore carries a key under which the receiver knows it again (a
// CloudEvent's id, PagerDuty's dedup_key), and a silence is looked for before
// it is created.
//
// Tokens and routing keys are read from their files for every request, because
// mounted secrets rotate, and are in no error, whatever a server echoes.
// Redirects are not followed: they would carry the secret elsewhere.
package notify
