package runview

import (
	"fmt"

	"github.com/inference-responder/responder/internal/webhook"
)

// PauseScope names what a pause holds up.
func PauseScope(p webhook.Pause) string {
	switch {
	case p.Intake:
		return "intake"
	case p.Service != "" && p.Playbook != "":
		return fmt.Sprintf("service:%s playbook:%s", p.Service, p.Playbook)
	case p.Service != "":
		return "service:" + p.Service
	case p.Playbook != "":
		return "playbook:" + p.Playbook
	default:
		return "global"
	}
}
