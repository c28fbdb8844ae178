package main

import (
	"net/url"

	"github.com/spf13/cobra"
)

// Paths of the API.
const (
	runsPath       = "/api/v1/runs"
	pausesPath     = "/api/v1/pauses"
	auditPath      = "/api/v1/audit"
	checkpointPath = "/api/v1/audit/checkpoint"
	exportPath     = "/api/v1/audit/export"
	playbooksPath  = "/api/v1/playbooks"
	servicesPath   = "/api/v1/services"
	ladderPath     = "/api/v1/ladder"
	promotePath    = "/api/v1/ladder/promote"
	lastGoodPath   = "/api/v1/last-good"
)

func runPath(id string) string { return runsPath + "/" + url.PathEscape(id) }

func newRunsCommand(p *process) *cobra.Command {
	return group("runs", "List, show, watch and steer runs",
		newRunsListCommand(p), newRunsShowCommand(p), newRunsWatchCommand(p), newRunsStartCommand(p),
		newRunsCancelCommand(p), newRunsResolveCommand(p), newRunsReleaseCommand(p))
}
