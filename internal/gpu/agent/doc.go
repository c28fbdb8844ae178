// Package agent serves what is known about the GPUs of a node to whoever may
// ask: GET /v1/health gives a [gpu.Snapshot]. It reads nothing itself, changes
// nothing, and never waits for a driver.
//
// Who asks proves themselves with a client certificate, or with a service
// account's token for this audience, which the API server checks. The agent
// proves itself with its server certificate, and in the answer with a token of
// its own that the API server has bound to its pod and node: that is how an
// agent that lies about its node is found. /metrics names pods, and is for those
// who may read it, of whom Prometheus is one. /healthz is for everybody; it carries
// nothing that a neighbour could use.
package agent
