package webhook

import (
	"slices"
	"strconv"

	"github.com/prometheus/common/model"

	"github.com/inference-responder/responder/internal/playbook"
)

// payloadHint names the usual causes of a body that is not Alertmanager's.
const payloadHint = "remove payload from the receiver's webhook_configs, so that Alertmanager sends its own body"

// Decode turns a body into a notification that can be admitted, without the dropped
// labels. Its error is a [*playbook.FieldError].
func Decode(data []byte, drop []string) (playbook.Notification, error) {
	n, err := playbook.DecodeNotification(data)
	if err != nil {
		return n, err
	}
	if bad := check(&n, drop); bad != nil {
		return n, bad
	}
	return n, nil
}

// check returns the first problem of n. It removes the dropped labels and sets
// the fingerprint of every alert.
func check(n *playbook.Notification, drop []string) *playbook.FieldError {
	switch n.Version {
	case "4":
	case "":
		return wrong("version", "missing; this is not the body Alertmanager sends")
	default:
		return wrong("version", `want "4"`)
	}
	if n.Status != playbook.Firing && n.Status != playbook.Resolved {
		return wrong("status", "want firing or resolved")
	}
	if len(n.Alerts) == 0 {
		return wrong("alerts", "missing or empty")
	}
	for i := range n.Alerts {
		if err := checkAlert(&n.Alerts[i], drop); err != nil {
			return err.Under("alerts[" + strconv.Itoa(i) + "]")
		}
	}
	for _, label := range drop {
		delete(n.GroupLabels, label)
		delete(n.CommonLabels, label)
	}
	return nil
}

func checkAlert(a *playbook.Alert, drop []string) *playbook.FieldError {
	switch {
	case a.Status == "":
		return wrong("status", "missing")
	case a.Status != playbook.Firing && a.Status != playbook.Resolved:
		return wrong("status", "want firing or resolved")
	case a.Labels["alertname"] == "":
		return wrong("labels.alertname", "missing")
	case a.StartsAt.IsZero():
		return wrong("startsAt", "missing or zero")
	}
	before := len(a.Labels)
	for _, label := range drop {
		delete(a.Labels, label)
	}
	if len(a.Labels) != before || !isFingerprint(a.Fingerprint) {
		a.Fingerprint = model.Fingerprint(model.LabelsToSignature(a.Labels)).String()
	}
	return nil
}

// isFingerprint reports whether s is 16 lower-case hexadecimal digits.
func isFingerprint(s string) bool {
	return len(s) == 16 && !slices.ContainsFunc([]byte(s), func(c byte) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'f')
	})
}

func wrong(field, problem string) *playbook.FieldError {
	return &playbook.FieldError{Field: field, Offset: -1, Problem: problem}
}
