package playbook

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Notification is one webhook message of Alertmanager as the receiver admitted
// it: decoded, without the dropped labels. Its JSON form is stored in the
// journal: Alertmanager's own field names, plus sender and receivedAt, without
// fields unknown to this program. Encode it with [Notification.AppendJSON] and
// decode it with [DecodeNotification]; encoding/json uses these too. Fields are
// added, never renamed.
type Notification struct {
	Receiver string      // as Alertmanager sends it: regexp-quoted, "ml.remediator" arrives as "ml\.remediator"
	Status   AlertStatus // of the body; with TruncatedAlerts > 0 it does not hold for the group
	GroupKey string      // not unique across receivers; correlates, never identifies

	GroupLabels       map[string]string
	CommonLabels      map[string]string
	CommonAnnotations map[string]string
	RouteLabels       map[string]string // Alertmanager 0.34 and later; nil otherwise

	ExternalURL     string
	Version         string // of the payload: "4"
	TruncatedAlerts int    // alerts of the group omitted by max_alerts, >= 0; above 0 the blast radius is unknown
	Reason          string // notification_reason, Alertmanager 0.32 and later; empty otherwise
	Alerts          []Alert

	Sender     string    // authenticated sender, as named in the receiver's configuration
	ReceivedAt time.Time // UTC, when the body was complete
}

// FieldError reports a field of a notification that cannot be decoded or is not
// acceptable. It never contains a value of the message, because values may be
// secrets.
type FieldError struct {
	Field   string // e.g. alerts[3].startsAt; empty: the whole message
	Offset  int    // byte of the message where the error was found; -1: unknown
	Problem string // what is wrong and what is expected
}

// Doubled is the problem of a duplicate name in an object.
const Doubled = "appears twice"

// Error returns the field, the problem and its offset.
func (e *FieldError) Error() string {
	s := e.Problem
	if e.Field != "" {
		s = e.Field + ": " + s
	}
	if e.Offset >= 0 {
		s += fmt.Sprintf(" (byte %d)", e.Offset)
	}
	return s
}

// DecodeNotification decodes a webhook message of Alertmanager, or what
// [Notification.AppendJSON] wrote. It is strict about form: one JSON object and
// nothing after it, valid UTF-8, no duplicate name in an object it reads,
// values of the expected type, nesting of at most 32 levels, names and texts of
// bounded length. Unknown fields are skipped; null counts as absent. The caller
// checks the content (version, statuses, fingerprints). Every error is a
// [*FieldError].
//
// Strings of one label set share one allocation that holds nothing else, so a
// retained alert does not retain data.
func DecodeNotification(data []byte) (Notification, error) {
	var n Notification
	s := Scanner{data: data}
	if err := s.message(&n); err != nil {
		return Notification{}, err
	}
	return n, nil
}

// UnmarshalJSON calls [DecodeNotification], for encoding/json.
func (n *Notification) UnmarshalJSON(data []byte) error {
	d, err := DecodeNotification(data)
	if err != nil {
		return err
	}
	*n = d
	return nil
}

// MarshalJSON calls [Notification.AppendJSON], for encoding/json.
func (n Notification) MarshalJSON() ([]byte, error) {
	return n.AppendJSON(nil), nil
}

// notification reads the message's object. The fields are in the order in which
// Alertmanager writes them, which is where object looks first.
func (s *Scanner) notification(n *Notification) *FieldError {
	fields := [...]string{
		"receiver", "status", "alerts", "notification_reason", "groupLabels", "commonLabels", "commonAnnotations",
		"routeLabels", "externalURL", "version", "groupKey", "truncatedAlerts", "sender", "receivedAt",
	}
	return s.Object(fields[:], func(field string) *FieldError {
		switch field {
		case "receiver":
			return s.text(&n.Receiver)
		case "status":
			return s.text((*string)(&n.Status))
		case "alerts":
			return s.alerts(&n.Alerts)
		case "notification_reason":
			return s.text(&n.Reason)
		case "groupLabels":
			return s.labels(&n.GroupLabels)
		case "commonLabels":
			return s.labels(&n.CommonLabels)
		case "commonAnnotations":
			return s.labels(&n.CommonAnnotations)
		case "routeLabels":
			return s.labels(&n.RouteLabels)
		case "externalURL":
			return s.text(&n.ExternalURL)
		case "version":
			return s.text(&n.Version)
		case "groupKey":
			return s.text(&n.GroupKey)
		case "truncatedAlerts":
			return s.count(&n.TruncatedAlerts)
		case "sender":
			return s.text(&n.Sender)
		default: // receivedAt
			return s.time(&n.ReceivedAt)
		}
	})
}

func (s *Scanner) alert(a *Alert) *FieldError {
	fields := [...]string{"status", "labels", "annotations", "startsAt", "endsAt", "generatorURL", "fingerprint"}
	return s.Object(fields[:], func(field string) *FieldError {
		switch field {
		case "status":
			return s.text((*string)(&a.Status))
		case "labels":
			return s.labels(&a.Labels)
		case "annotations":
			return s.labels(&a.Annotations)
		case "startsAt":
			return s.time(&a.StartsAt)
		case "endsAt":
			return s.time(&a.EndsAt)
		case "generatorURL":
			return s.text(&a.GeneratorURL)
		default: // fingerprint
			return s.text(&a.Fingerprint)
		}
	})
}

// alerts reads the array of alerts. Alerts of one group are similar, so the
// size of the first predicts how many there are. A wrong prediction costs one
// copy.
func (s *Scanner) alerts(to *[]Alert) *FieldError {
	begin := s.pos
	return s.Array(func(i int) *FieldError {
		switch i {
		case 1:
			*to = slices.Grow(*to, (len(s.data)-s.pos)/max(s.pos-begin, 100)+1)
		case maxAlerts:
			return s.fail("more than " + strconv.Itoa(maxAlerts) + " alerts; set max_alerts on the receiver")
		}
		*to = append(*to, Alert{})
		return s.alert(&(*to)[i])
	})
}

// AppendJSON appends the notification's JSON form to dst. It is compact and
// deterministic: fields in Alertmanager's order, labels sorted by name, times
// in UTC, empty fields omitted except an alert's status, labels, startsAt and
// fingerprint. Invalid UTF-8 becomes U+FFFD.
func (n Notification) AppendJSON(dst []byte) []byte {
	w := writer{buf: slices.Grow(dst, n.sizeHint())}
	w.raw('{')
	w.text("receiver", n.Receiver)
	w.text("status", string(n.Status))
	w.name("alerts")
	w.raw('[')
	for i := range n.Alerts {
		if i > 0 {
			w.raw(',')
		}
		w.alert(&n.Alerts[i])
	}
	w.raw(']')
	w.text("notification_reason", n.Reason)
	w.labels("groupLabels", n.GroupLabels, &w.labelNames)
	w.labels("commonLabels", n.CommonLabels, &w.labelNames)
	w.labels("commonAnnotations", n.CommonAnnotations, &w.annotationNames)
	w.labels("routeLabels", n.RouteLabels, &w.labelNames)
	w.text("externalURL", n.ExternalURL)
	w.text("version", n.Version)
	w.text("groupKey", n.GroupKey)
	if n.TruncatedAlerts > 0 {
		w.name("truncatedAlerts")
		w.buf = strconv.AppendInt(w.buf, int64(n.TruncatedAlerts), 10)
	}
	w.text("sender", n.Sender)
	w.time("receivedAt", n.ReceivedAt)
	w.raw('}')
	return w.buf
}

// alert writes an [Alert] as encoding/json does, with sorted labels.
func (w *writer) alert(a *Alert) {
	w.raw('{')
	w.name("fingerprint")
	w.quote(a.Fingerprint)
	w.name("status")
	w.quote(string(a.Status))
	w.name("labels")
	w.object(a.Labels, &w.labelNames)
	w.labels("annotations", a.Annotations, &w.annotationNames)
	w.name("startsAt")
	w.quoteTime(a.StartsAt)
	w.time("endsAt", a.EndsAt)
	w.text("generatorURL", a.GeneratorURL)
	w.raw('}')
}

// sizeHint estimates the size of the JSON form from the first alert: alerts of
// one group are similar, and a wrong estimate costs one copy.
func (n Notification) sizeHint() int {
	const fixed = 512
	if len(n.Alerts) == 0 {
		return fixed
	}
	a := &n.Alerts[0]
	per := 160 + len(a.GeneratorURL)
	for k, v := range a.Labels {
		per += len(k) + len(v) + 6
	}
	for k, v := range a.Annotations {
		per += len(k) + len(v) + 6
	}
	return fixed + per*(len(n.Alerts)+2) // common labels and annotations are about one alert in size
}
