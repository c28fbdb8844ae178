package playbook

import (
	"time"
)

// AlertStatus is the status of one alert of a notification, as Alertmanager
// reports it.
type AlertStatus string

// The two statuses of version 4 of the webhook payload.
const (
	Firing   AlertStatus = "firing"
	Resolved AlertStatus = "resolved"
)

// Alert is one alert as matching, conditions and runs see it. Labels in the
// receiver's drop list are removed. Fingerprint is computed over the remaining
// labels, so that two replicas of one Prometheus produce one alert.
type Alert struct {
	Fingerprint  string            `json:"fingerprint"`
	Status       AlertStatus       `json:"status"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt,omitzero"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

// Episode identifies one firing of one alert: fingerprint and start. Repeats
// and duplicates from a highly available pair of Alertmanagers belong to the
// same episode.
func (a Alert) Episode() string {
	return a.Fingerprint + "@" + a.StartsAt.UTC().Format(time.RFC3339Nano)
}
