// Package api holds the types of what the HTTP API, /api/v1, takes and answers,
// and of the CLI's -o json. The answers are projections: the journal's records,
// the machine's state and the playbook's types change without changing them.
//
// The package has no behaviour but the conversions in codec_SUBJECT.go, which share
// codec.go. Each file in testdata holds the bytes of one request or answer; a change of
// them is a change of the API.
//
// # Fields
//
// The fields have the names of the columns and lines that the CLI prints. Times
// are RFC 3339 in UTC, durations are text like 90s or 28d, and a list that is
// always present is [] when it is empty.
//
// # Version
//
// The version is in the path. Within /api/v1 fields, values of status, kind and
// reason, and endpoints may be added; a client ignores the fields and values
// that it does not know. Nothing is removed, renamed or given another meaning
// or type; that takes /api/v2 beside /api/v1.
package api

import "embed"

// Source is the source of the types, which docs/reference/api.md is generated
// from.
//
//go:embed doc.go run.go event.go lever.go gate.go alert.go node.go service.go session.go sandbox.go journal.go request.go dryrun.go policy.go report.go period.go backup.go
var Source embed.FS
