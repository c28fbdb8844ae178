package app

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/slack"
)

// slackMetrics is what /metrics shows of Slack.
type slackMetrics struct {
	calls     *prometheus.CounterVec
	refusals  *prometheus.CounterVec
	connected prometheus.Gauge
	registry  *prometheus.Registry
}

func newSlackMetrics(registry *prometheus.Registry) *slackMetrics {
	return &slackMetrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "responder_slack_calls_total", Help: "Messages sent to or edited in Slack about runs, by result: ok, or why not.",
		}, []string{"result"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "responder_slack_clicks_refused_total", Help: "Requests of Slack, or of who claims to be it, that led to nothing, by reason.",
		}, []string{"reason"}),
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "responder_slack_socket_connected", Help: "1 while clicks can come over Socket Mode.",
		}),
		registry: registry,
	}
}

// connect registers everything. down says why Slack takes no messages, by
// channel; "" stands for all of Slack.
func (m *slackMetrics) connect(down func() map[string]string, socket bool) {
	m.calls.WithLabelValues("ok") // 0 from the start, so that a rate has something to begin with
	m.registry.MustRegister(m.calls, m.refusals, slackDown{down})
	if socket {
		m.registry.MustRegister(m.connected)
	}
}

// called counts a call by its result.
func (m *slackMetrics) called(err error) {
	result := "ok"
	var no *fault.Error
	switch {
	case errors.As(err, &no):
		result = string(no.Reason)
	case err != nil:
		result = string(fault.Unreachable)
	}
	m.calls.WithLabelValues(result).Inc()
}

func (m *slackMetrics) refused(reason string) { m.refusals.WithLabelValues(reason).Inc() }

func (m *slackMetrics) socket(s slack.SocketState) {
	m.connected.Set(0)
	if s.Connected {
		m.connected.Set(1)
	}
}

// slackDown is the gauge of what Slack does not take now.
type slackDown struct{ down func() map[string]string }

// Describe sends nothing: channels come and go.
func (slackDown) Describe(chan<- *prometheus.Desc) {}

// Collect returns 0 or 1 for all of Slack, and 1 for each channel that is down.
func (s slackDown) Collect(ch chan<- prometheus.Metric) {
	desc := prometheus.NewDesc("responder_slack_down", "1 while Slack takes no messages about runs: scope workspace, or a channel's id.", []string{"scope"}, nil)
	down := s.down()
	all := 0.0
	if _, is := down[""]; is {
		all = 1
	}
	ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, all, "workspace")
	for channel := range down {
		if channel != "" {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, 1, channel)
		}
	}
}
