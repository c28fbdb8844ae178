package webhook

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the receiver's own figures. Labels are few and bounded: never a
// name, a fingerprint or a run.
type metrics struct {
	notifications *prometheus.CounterVec
	alerts        *prometheus.CounterVec
	truncated     prometheus.Counter
	requests      *prometheus.HistogramVec
	lastSuccess   prometheus.Gauge
	panics        prometheus.Counter
	cut           prometheus.Counter
	authReload    prometheus.Counter
	oidcRefreshes *prometheus.CounterVec
	signIns       *prometheus.CounterVec
	bytesInFlight prometheus.GaugeFunc
	ready         prometheus.GaugeFunc
}

func newMetrics(inFlight func() int64, missing func() []string) *metrics {
	m := &metrics{
		notifications: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "responder_notifications_total",
			Help: "Notifications by result: accepted, invalid, unauthorized, too_large, busy, quota, memory, disk, paused, unavailable, slow, failed.",
		}, []string{"result"}),
		alerts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "responder_notification_alerts_total", Help: "Alerts in accepted notifications by their own status.",
		}, []string{"status"}),
		truncated: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "responder_notification_truncated_alerts_total", Help: "Alerts that max_alerts of the receiver left out of accepted notifications.",
		}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "responder_http_request_duration_seconds", Help: "Time from the end of a request's headers to the end of its answer, streams excepted.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route", "method", "code"}),
		lastSuccess: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "responder_notification_last_success_timestamp_seconds", Help: "When a notification was last accepted.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "responder_http_panics_total", Help: "Requests that ended in a panic.",
		}),
		cut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "responder_http_connections_cut_total", Help: "Connections closed to make room: of senders who had not authenticated, or idle.",
		}),
		authReload: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "responder_auth_file_errors_total", Help: "Times a credential file became unusable; its credentials are refused until it is good again.",
		}),
		oidcRefreshes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "responder_oidc_refreshes_total", Help: "Fetches of the OIDC issuer's keys by result: ok, failed. Tokens are refused once keys are an hour old.",
		}, []string{"result"}),
		signIns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "responder_sign_ins_total",
			Help: "Sign-ins on the page by method (password, oidc) and result: ok, wrong, limited, refused (by the issuer, or its token is), no_rights, invalid, unavailable.",
		}, []string{"method", "result"}),
		bytesInFlight: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "responder_notification_bytes_in_flight", Help: "Bytes of notification bodies being read or admitted.",
		}, func() float64 { return float64(inFlight()) }),
		ready: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "responder_ready", Help: "1: the service works, as /readyz says; 0: it does not.",
		}, func() float64 {
			if len(missing()) > 0 {
				return 0
			}
			return 1
		}),
	}
	for _, method := range []string{methodPassword, methodOIDC} {
		for _, result := range []string{signedInOK, signInWrong, signInLimited, signInRefused} {
			m.signIns.WithLabelValues(method, result)
		}
	}
	for _, result := range []string{codeQuota, codeMemory, codeDisk, "unavailable"} { // an increase from nothing would be none
		m.notifications.WithLabelValues(result)
	}
	return m
}

// register registers everything with r; a nil r keeps the figures to itself.
func (m *metrics) register(r prometheus.Registerer) error {
	if r == nil {
		return nil
	}
	for _, c := range []prometheus.Collector{
		m.notifications, m.alerts, m.truncated, m.requests, m.lastSuccess, m.panics, m.cut, m.authReload, m.oidcRefreshes, m.signIns, m.bytesInFlight, m.ready,
	} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

func (m *metrics) observe(route, method string, status int, since time.Time) {
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Observe(time.Since(since).Seconds())
}

func (m *metrics) oidcRefreshed(ok bool) {
	result := "ok"
	if !ok {
		result = "failed"
	}
	m.oidcRefreshes.WithLabelValues(result).Inc()
}
