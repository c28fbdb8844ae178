//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"

	"github.com/inference-responder/responder/test/e2e/rig"
)

// approve answers the run's question, on the command line or in Slack.
func (c *crashes) approve(ctx context.Context, r *rig.Service, run *rig.Run, name string, s scenario) error {
	if s.slack {
		return c.workspace(name).click(ada, "responder.approve")
	}
	said, err := r.CLI(ctx, "approve", run.ID, "--yes")
	if err == nil && said.Code != 0 {
		err = errors.New(said.Stderr)
	}
	return err
}

func (c *crashes) workspace(name string) *workspace {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.workspaces[name]
}

// lastCommits names the last places behind transactions of the journal.
func lastCommits(passed []string, most int) []string {
	total := 0
	for _, name := range passed {
		if name == "after-commit" {
			total++
		}
	}
	var points []string
	for n := max(1, total-most+1); n <= total; n++ {
		points = append(points, fmt.Sprintf("after-commit#%d", n))
	}
	return points
}
