// Package report sends summaries of a day or a week to channels.
//
// Each report has a time at which it falls due. It covers what happened since
// its last one, so that a service that was down for a month sends one report,
// late, and not four. What a report says is not known here.
//
// # Stored keys
//
// None. The [Ledger] records until when each report was made, together with
// the message that is to be sent, before anything is sent.
//
// # Invariants
//
//   - The periods of a report follow each other without a gap or an overlap,
//     except that a period is at most 31 days.
//   - A change to or from daylight saving time brings no report twice and skips none: there
//     is one on each day of its schedule, whatever its clock shows.
//
// Only internal/app runs it, and internal/config reads its block.
package report
