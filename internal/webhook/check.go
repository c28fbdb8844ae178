package webhook

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/prometheus/common/model"

	"github.com/inference-responder/responder/internal/playbook"
)

// Bounds on one alert, far above what the author of a rule writes. More is
// refused before it is stored.
const (
	maxName  = 1 << 10  // bytes of a label's or annotation's name
	maxValue = 64 << 10 // bytes of its value, and of any other string
)

// payloadHint names the usual causes of a body that is not Alertmanager's.
const payloadHint = "remove payload from the receiver's webhook_configs, so that Alertmanager sends its own body"

// decode turns a body into a notification that can be admitted. Its error is a
// [*playbook.FieldError].
func decode(data []byte, drop []string) (playbook.Notification, error) {
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
	for _, f := range []struct{ name, value string }{
		{"receiver", n.Receiver}, {"groupKey", n.GroupKey}, {"externalURL", n.ExternalURL}, {"notification_reason", n.Reason},
	} {
		if len(f.value) > maxValue {
			return tooLong(len(f.value), maxValue).Under(f.name)
		}
	}
	for _, f := range []struct {
		name string
		set  map[string]string
	}{
		{"groupLabels", n.GroupLabels}, {"commonLabels", n.CommonLabels}, {"commonAnnotations", n.CommonAnnotations}, {"routeLabels", n.RouteLabels},
	} {
		if err := checkSet(f.name, f.set); err != nil {
			return err
		}
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
	case len(a.GeneratorURL) > maxValue:
		return tooLong(len(a.GeneratorURL), maxValue).Under("generatorURL")
	}
	if err := checkSet("labels", a.Labels); err != nil {
		return err
	}
	if err := checkSet("annotations", a.Annotations); err != nil {
		return err
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

// checkSet bounds the names and values of a label set.
func checkSet(field string, set map[string]string) *playbook.FieldError {
	for name, value := range set {
		switch {
		case name == "":
			return wrong("", "a name is empty").Under(playbook.FieldName(name)).Under(field)
		case len(name) > maxName:
			return tooLong(len(name), maxName).Under(playbook.FieldName(name)).Under(field)
		case len(value) > maxValue:
			return tooLong(len(value), maxValue).Under(playbook.FieldName(name)).Under(field)
		}
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

func tooLong(size, limit int) *playbook.FieldError {
	return wrong("", fmt.Sprintf("%d bytes long, at most %d are accepted", size, limit))
}
