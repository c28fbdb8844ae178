package approvals

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-responder/responder/internal/fault"
)

// metrics are the approvals' metrics.
type metrics struct {
	calls     *prometheus.CounterVec
	refusals  *prometheus.CounterVec
	connected prometheus.Gauge
}

// newMetrics registers the metrics. registry may be nil. down returns why Slack
// accepts no messages, by channel; "" is all of Slack.
func newMetrics(registry prometheus.Registerer, socket bool, down func() map[string]string) *metrics {
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "responder_slack_calls_total", Help: "Messages sent to or edited in Slack about runs, by result: ok, or why not.",
		}, []string{"result"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "responder_slack_clicks_refused_total", Help: "Requests of Slack, or of who claims to be it, that led to nothing, by reason.",
		}, []string{"reason"}),
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "responder_slack_socket_connected", Help: "1 while clicks can come over Socket Mode.",
		}),
	}
	m.calls.WithLabelValues("ok") // 0 from the start, so that a rate has a beginning
	if registry != nil {
		registry.MustRegister(m.calls, m.refusals, downGauge{down})
		if socket {
			registry.MustRegister(m.connected)
		}
	}
	return m
}

// called counts a call by its result.
func (m *metrics) called(err error) {
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

func (m *metrics) refused(reason string) { m.refusals.WithLabelValues(reason).Inc() }

// downGauge is the gauge of what Slack does not accept now.
type downGauge struct{ down func() map[string]string }

// Describe sends nothing: channels come and go.
func (downGauge) Describe(chan<- *prometheus.Desc) {}

// Collect returns 0 or 1 for all of Slack, and 1 for each channel that is down.
func (g downGauge) Collect(ch chan<- prometheus.Metric) {
	desc := prometheus.NewDesc("responder_slack_down", "1 while Slack takes no messages about runs: scope workspace, or a channel's id.", []string{"scope"}, nil)
	down := g.down()
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
