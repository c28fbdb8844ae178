package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-responder/responder/internal/trace"
)

// openTraces returns what sends the traces of runs; nil: none are sent.
func (s *Service) openTraces(c trace.Config) (*trace.Exporter, error) {
	if !c.Enabled() {
		return nil, trace.Forget(s.journal)
	}
	sent := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "responder_traces_sent_total", Help: "Traces of runs that the receiver of tracing.endpoint took.",
	})
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "responder_traces_dropped_total", Help: "Traces of runs that are not sent, by reason: overflow, given_up, refused, unreadable.",
	}, []string{"reason"})
	for _, reason := range trace.Dropped() {
		dropped.WithLabelValues(reason)
	}
	s.metrics.registry.MustRegister(sent, dropped)
	return trace.New(trace.Options{
		Config: c, Journal: s.journal, Runs: s.executor, Log: s.log,
		Sent: sent.Inc, Dropped: func(reason string) { dropped.WithLabelValues(reason).Inc() },
	})
}

// sendTraces sends the traces of runs, once these are loaded.
func (s *Service) sendTraces(ctx context.Context) error {
	if !s.library.await(ctx) {
		return nil
	}
	return s.traces.Run(ctx)
}
