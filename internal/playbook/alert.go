package playbook

import (
	"time"
)

// AlertStatus is the status Alertmanager gives one alert of a notification.
type AlertStatus string

// The two statuses of the webhook payload, version 4.
const (
	Firing   AlertStatus = "firing"
	Resolved AlertStatus = "resolved"
)

// Alert is one alert as matching, conditions and runs see it. Labels named in
// the receiver's drop list are already gone, and Fingerprint is computed over
// what is left, so that two replicas of one Prometheus mean one alert.
type Alert struct {
	Fingerprint  string            `json:"fingerprint"`
	Status       AlertStatus       `json:"status"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt,omitzero"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

// Episode names one firing of one alert: fingerprint and start. Repeats and
// duplicates of a highly available pair of Alertmanagers have the same episode.
func (a Alert) Episode() string {
	return a.Fingerprint + "@" + a.StartsAt.UTC().Format(time.RFC3339Nano)
}
