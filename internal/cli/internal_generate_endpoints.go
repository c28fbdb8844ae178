package cli

import (
	"cmp"
	"strconv"
	"strings"
)

// An endpoint is one request of the API, as the reference and the OpenAPI document tell it.
type endpoint struct {
	request string   // METHOD PATH
	scope   string   // empty: no credential is asked for
	query   []string // parameters
	body    string   // type of package api; empty: none, or note tells
	answer  string   // type of package api; empty: note tells
	media   string   // of an answer that is not JSON
	status  int      // of success; 0: 200
	note    string
}

const (
	text   = "text/plain"
	lines  = "application/x-ndjson"
	octets = "application/octet-stream"
)

// endpoints are all of them but those of the page. A test of internal/webhook compares
// them with the routes.
var endpoints = []endpoint{
	{request: "POST /api/v1/alertmanager", scope: "intake", note: "200 once the notification of Alertmanager is on disk"},
	{request: "POST /", scope: "intake", note: "the same as `/api/v1/alertmanager`"},
	{request: "GET /api/v1/runs", scope: "read", answer: "RunList", query: []string{"service", "playbook", "open", "begins", "limit"}, note: "`begins` is the beginning of an ID; elsewhere `{run}` is a whole ID"},
	{request: "POST /api/v1/runs", scope: "start", answer: "RunDetail", status: 201, body: "StartRequest", note: "201 for a new run; the header `Idempotency-Key` names the request"},
	{request: "GET /api/v1/runs/{run}", scope: "read", answer: "RunDetail"},
	{request: "GET /api/v1/runs/{run}/events", scope: "read", answer: "Event", media: lines, query: []string{"from", "follow"}, note: "one a line; `from` is the first seq, `follow=1` goes on until the run ends"},
	{request: "GET /api/v1/runs/{run}/budget", scope: "read", answer: "RunBudget"},
	{request: "POST /api/v1/runs/{run}/approve", scope: "approve", answer: "RunDetail", body: "DecisionRequest"},
	{request: "POST /api/v1/runs/{run}/deny", scope: "approve", answer: "RunDetail", body: "DecisionRequest"},
	{request: "POST /api/v1/runs/{run}/replan", scope: "approve", answer: "RunDetail", body: "DecisionRequest"},
	{request: "POST /api/v1/runs/{run}/cancel", scope: "cancel", answer: "RunDetail", body: "DecisionRequest"},
	{request: "POST /api/v1/runs/{run}/resolve", scope: "resolve", answer: "RunDetail", body: "DecisionRequest"},
	{request: "POST /api/v1/runs/{run}/release", scope: "release", answer: "RunDetail", body: "DecisionRequest"},
	{request: "POST /api/v1/runs/{run}/proceed", scope: "release", answer: "RunDetail", body: "DecisionRequest"},
	{request: "GET /api/v1/alerts", scope: "read", answer: "AlertList", query: []string{"firing", "no_run", "alert", "limit"}, note: "`alert` is the beginning of an episode"},
	{request: "GET /api/v1/report", scope: "read", answer: "DigestPage", query: []string{"since", "until", "service", "playbook", "before", "limit"}, note: "`since` is a time, `limit` at most 200 runs looked at"},
	{request: "GET /api/v1/report/preview", scope: "read", answer: "ReportPreview", query: []string{"name", "since"}, note: "`name` of a report of the configuration, `since` a time"},
	{request: "GET /api/v1/pauses", scope: "read", answer: "PauseList"},
	{request: "POST /api/v1/pauses", scope: "pause", answer: "PauseList", body: "PauseRequest"},
	{request: "DELETE /api/v1/pauses", scope: "unpause", answer: "PauseList", query: []string{"service", "playbook", "intake", "reason"}, note: "a body [PauseRequest](#pauserequest) does the same"},
	{request: "GET /api/v1/ladder", scope: "read", answer: "LeverList", query: []string{"service", "playbook"}},
	{request: "POST /api/v1/ladder/promote", scope: "promote", answer: "LeverList", body: "Promotion"},
	{request: "GET /api/v1/last-good", scope: "read", answer: "LastGoodList", query: []string{"service"}},
	{request: "GET /api/v1/services", scope: "read", answer: "ServiceList", query: []string{"service"}, note: "`service` is the name of one; its `arming` tells whether Responder can act on it"},
	{request: "GET /api/v1/nodes", scope: "read", answer: "NodeList", note: "the cluster is read at most every 30 seconds"},
	{request: "GET /api/v1/playbooks", scope: "read", answer: "PlaybookList"},
	{request: "GET /api/v1/audit", scope: "read", answer: "AuditPage", query: []string{"from", "limit", "stream", "kind"}, note: "`stream` is a whole name, such as `run/ID`, or ends in `/` for every stream below it"},
	{request: "GET /api/v1/audit/checkpoint", scope: "read", media: text, note: "the latest signed checkpoint, as a signed note"},
	{request: "GET /api/v1/audit/export", scope: "admin", media: octets, note: "a copy of the journal"},
	{request: "GET /api/v1/journal", scope: "read", answer: "JournalStatus"},
	{request: "POST /api/v1/journal/archive", scope: "admin", answer: "JournalArchive", body: "JournalArchiveRequest"},
	{request: "GET /api/v1/sessions", scope: "sessions", answer: "SessionList"},
	{request: "DELETE /api/v1/sessions", scope: "sessions", answer: "SessionList", body: "SessionEnd"},
	{request: "GET /api/v1/sandbox", scope: "read", answer: "Sandbox", note: "404 if the cluster is real"},
	{request: "POST /api/v1/sandbox/fire", scope: "start", answer: "SandboxFired", body: "SandboxFire", note: "202 if a scenario is named; 404 if the cluster is real"},
	{request: "GET /api/v1/version", scope: "read", note: "the version of the program"},
	{request: "POST /api/v1/slack/interactivity", note: "clicks in Slack, with Slack's signature"},
	{request: "GET /readyz", answer: "Readiness", note: "503 unless it is ready"},
	{request: "GET /healthz", media: text, note: "text"},
	{request: "GET /metrics", scope: "metrics", media: text, note: "[metrics](metrics.md), as text"},
}

const endpointsIntro = `## Endpoints

Every request with a scope carries a credential that has it: see [authentication](../how-to/authentication.md). An answer that is not
a success is ` + "`" + `{"error": ` + "…}`" + ` with a [Problem](#problem). Requests with an unknown field are refused.
[openapi.json](openapi.json) describes the same for programs (OpenAPI 3.1).

| request | scope | answer |
|---|---|---|
`

// endpointTable is the table of the reference.
func endpointTable() string {
	var b strings.Builder
	b.WriteString(endpointsIntro)
	for _, e := range endpoints {
		var parts []string
		add := func(when bool, part string) {
			if when {
				parts = append(parts, part)
			}
		}
		add(e.answer != "", "["+e.answer+"](#"+strings.ToLower(e.answer)+")")
		add(e.body != "", "body ["+e.body+"](#"+strings.ToLower(e.body)+")")
		add(len(e.query) > 0, "query `"+strings.Join(e.query, "`, `")+"`")
		add(e.note != "", e.note)
		b.WriteString("| `" + e.request + "` | " + e.scope + " | " + strings.Join(parts, "; ") + " |\n")
	}
	return b.String() + "\n"
}

// success is the status of an answer that is one.
func (e endpoint) success() string { return strconv.Itoa(cmp.Or(e.status, 200)) }
