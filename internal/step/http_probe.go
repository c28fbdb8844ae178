package step

import (
	"github.com/inference-responder/responder/internal/playbook"
)

// httpProbeKind declares http.probe.
func httpProbeKind() playbook.Kind {
	return playbook.Kind{
		Name: "http.probe",
		Role: playbook.RoleCheck,
		Doc: `Asks the service's own endpoint over HTTP, once. The address comes from the catalog only, never from an alert or a playbook; redirects to another
host are not followed, and link-local and metadata addresses are refused. A hung engine may well answer ` + "`/health`" + ` with 200: this proves that
the server listens, not that it makes progress.`,
		With: []playbook.Field{
			{Name: "path", Type: scalar(playbook.String), Default: "/health", Doc: "Path and query below the service's endpoint."},
			{Name: "method", Type: scalar(playbook.String), Enum: []string{"GET", "HEAD"}, Default: "GET", Doc: "HTTP method. Only safe ones: a check changes nothing."},
			{Name: "expect_status", Type: scalar(playbook.Int), Default: 200, Min: limit(100), Max: limit(599), Doc: "Status code that counts as well."},
			{Name: "timeout", Type: scalar(playbook.Duration), Default: "5s", Doc: "For the whole exchange."},
		},
		Out: []playbook.Field{
			{Name: "ok", Type: scalar(playbook.Bool), Doc: "It answered in time with the expected status."},
			{Name: "status", Type: scalar(playbook.Int), Doc: "HTTP status code; 0 when there was no answer."},
			{Name: "latency_seconds", Type: scalar(playbook.Double), Unit: "seconds", Doc: "Until the header of the answer, or until giving up."},
			{Name: "error", Type: scalar(playbook.String), Doc: "Why there was no answer; empty otherwise."},
		},
	}
}
