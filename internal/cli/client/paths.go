package client

import "net/url"

// RunPath returns the path of one run.
func RunPath(id string) string { return RunsPath + "/" + url.PathEscape(id) }

// Paths of the API.
const (
	RunsPath       = "/api/v1/runs"
	AlertsPath     = "/api/v1/alerts"
	ReportPath     = "/api/v1/report"
	PreviewPath    = "/api/v1/report/preview"
	PausesPath     = "/api/v1/pauses"
	AuditPath      = "/api/v1/audit"
	CheckpointPath = "/api/v1/audit/checkpoint"
	ExportPath     = "/api/v1/audit/export"
	JournalPath    = "/api/v1/journal"
	ArchivePath    = "/api/v1/journal/archive"
	PlaybooksPath  = "/api/v1/playbooks"
	ServicesPath   = "/api/v1/services"
	NodesPath      = "/api/v1/nodes"
	LadderPath     = "/api/v1/ladder"
	PromotePath    = "/api/v1/ladder/promote"
	SessionsPath   = "/api/v1/sessions"
	SandboxPath    = "/api/v1/sandbox"
	FirePath       = "/api/v1/sandbox/fire"
	LastGoodPath   = "/api/v1/last-good"
)
