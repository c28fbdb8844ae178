// Package agent serves the state of a node's GPUs to authorized callers: GET
// /v1/health returns a [gpu.Snapshot]. It reads nothing itself, changes nothing,
// and never waits for a driver.
//
// Callers authenticate with a client certificate, or with a service account's
// token for this audience, which the API server checks. The agent authenticates
// with its server certificate, and in the answer with its own token, which the API
// server has bound to its pod and node. That reveals an agent that claims to be
// another node's. /metrics names pods and needs a permission of its own, for
// Prometheus among others. /healthz is open to everybody and holds nothing
// confidential.
package agent
