package playbook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// goldenNotification and its bytes are what journals hold: a change of either
// needs a decoder for the old form.
var goldenNotification = Notification{
	Receiver: `ml\.remediator`, Status: Firing, GroupKey: `{}:{alertname="TTFTFastBurn"}`,
	GroupLabels:       map[string]string{"alertname": "TTFTFastBurn"},
	CommonLabels:      map[string]string{"alertname": "TTFTFastBurn", "severity": "critical"},
	CommonAnnotations: map[string]string{"summary": "line one\nline \"two\" <é\u2028>"},
	RouteLabels:       map[string]string{"team": "ml"},
	ExternalURL:       "http://am.lab:9093", Version: "4", TruncatedAlerts: 2, Reason: "new alerts added",
	Alerts: []Alert{
		{
			Fingerprint: "0027d97db9c1f474", Status: Firing,
			Labels:       map[string]string{"severity": "critical", "alertname": "TTFTFastBurn"},
			StartsAt:     time.Date(2026, 11, 21, 2, 28, 4, 731e6, time.UTC),
			GeneratorURL: "http://prom.lab:9090/graph?g0.expr=a&g0.tab=1",
		},
		{
			Fingerprint: "4f332363c1b5afec", Status: Resolved,
			Labels:      map[string]string{"alertname": "TTFTFastBurn", "pod": "a\x00\x7f\\"},
			Annotations: map[string]string{"summary": "s"},
			StartsAt:    time.Date(2026, 11, 21, 2, 28, 4, 0, time.UTC), EndsAt: time.Date(2026, 11, 21, 2, 30, 0, 1, time.UTC),
		},
	},
	Sender: "alertmanager", ReceivedAt: time.Date(2026, 11, 21, 2, 28, 35, 5e6, time.UTC),
}

const goldenJSON = `{"receiver":"ml\\.remediator","status":"firing","alerts":[` +
	`{"fingerprint":"0027d97db9c1f474","status":"firing","labels":{"alertname":"TTFTFastBurn","severity":"critical"},` +
	`"startsAt":"2026-11-21T02:28:04.731Z","generatorURL":"http://prom.lab:9090/graph?g0.expr=a&g0.tab=1"},` +
	`{"fingerprint":"4f332363c1b5afec","status":"resolved","labels":{"alertname":"TTFTFastBurn","pod":"a\u0000` + "\x7f" + `\\"},` +
	`"annotations":{"summary":"s"},"startsAt":"2026-11-21T02:28:04Z","endsAt":"2026-11-21T02:30:00.000000001Z"}],` +
	`"notification_reason":"new alerts added","groupLabels":{"alertname":"TTFTFastBurn"},` +
	`"commonLabels":{"alertname":"TTFTFastBurn","severity":"critical"},"commonAnnotations":{"summary":"line one\nline \"two\" <é` + "\u2028" + `>"},` +
	`"routeLabels":{"team":"ml"},"externalURL":"http://am.lab:9093","version":"4","groupKey":"{}:{alertname=\"TTFTFastBurn\"}",` +
	`"truncatedAlerts":2,"sender":"alertmanager","receivedAt":"2026-11-21T02:28:35.005Z"}`

func TestNotificationGoldenBytes(t *testing.T) {
	if got := string(goldenNotification.AppendJSON([]byte("x"))); got != "x"+goldenJSON {
		t.Errorf("AppendJSON:\n%s\nwant\n%s", got, goldenJSON)
	}
	got, err := DecodeNotification([]byte(goldenJSON))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(goldenNotification, got); diff != "" {
		t.Errorf("DecodeNotification (-want +got):\n%s", diff)
	}
	var viaStd Notification
	if err := json.Unmarshal([]byte(goldenJSON), &viaStd); err != nil || !cmp.Equal(viaStd, got) {
		t.Errorf("encoding/json decodes it as %+v, %v", viaStd, err)
	}
	if b, err := json.Marshal(got); err != nil || !json.Valid(b) {
		t.Errorf("encoding/json writes %s, %v", b, err)
	}
}

// peerNotification is the message as encoding/json sees it, for comparison.
type peerNotification struct {
	Receiver          string            `json:"receiver"`
	Status            AlertStatus       `json:"status"`
	Alerts            []Alert           `json:"alerts"`
	Reason            string            `json:"notification_reason"`
	GroupLabels       map[string]string `json:"groupLabels"`
	CommonLabels      map[string]string `json:"commonLabels"`
	CommonAnnotations map[string]string `json:"commonAnnotations"`
	RouteLabels       map[string]string `json:"routeLabels"`
	ExternalURL       string            `json:"externalURL"`
	Version           string            `json:"version"`
	GroupKey          string            `json:"groupKey"`
	TruncatedAlerts   int               `json:"truncatedAlerts"`
	Sender            string            `json:"sender"`
	ReceivedAt        time.Time         `json:"receivedAt"`
}

// likePeer fails unless encoding/json reads from data what n says.
func likePeer(t *testing.T, data []byte, n Notification) {
	t.Helper()
	var peer peerNotification
	if err := json.Unmarshal(data, &peer); err != nil {
		t.Fatalf("decoded what encoding/json refuses (%v): %q", err, data)
	}
	want := Notification{
		Receiver: peer.Receiver, Status: peer.Status, Alerts: peer.Alerts, Reason: peer.Reason, GroupLabels: tidy(peer.GroupLabels),
		CommonLabels: tidy(peer.CommonLabels), CommonAnnotations: tidy(peer.CommonAnnotations), RouteLabels: tidy(peer.RouteLabels),
		ExternalURL: peer.ExternalURL, Version: peer.Version, GroupKey: peer.GroupKey, TruncatedAlerts: peer.TruncatedAlerts,
		Sender: peer.Sender, ReceivedAt: peer.ReceivedAt.UTC(),
	}
	if len(want.Alerts) == 0 {
		want.Alerts = nil
	}
	for i := range want.Alerts {
		a := &want.Alerts[i]
		a.Labels, a.Annotations, a.StartsAt, a.EndsAt = tidy(a.Labels), tidy(a.Annotations), a.StartsAt.UTC(), a.EndsAt.UTC()
	}
	if diff := cmp.Diff(want, n); diff != "" {
		t.Fatalf("encoding/json decodes %q differently (-peer +ours):\n%s", data, diff)
	}
}

func tidy(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

func fixtures(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("../webhook/testdata/alertmanager/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	bodies := make(map[string][]byte)
	for _, p := range paths {
		if bodies[filepath.Base(p)], err = os.ReadFile(p); err != nil {
			t.Fatal(err)
		}
	}
	return bodies
}

func TestDecodeNotificationReadsAlertmanagersBodies(t *testing.T) {
	for name, body := range fixtures(t) {
		n, err := DecodeNotification(body)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		likePeer(t, body, n)
		back, err := DecodeNotification(n.AppendJSON(nil))
		if err != nil || !cmp.Equal(n, back) {
			t.Errorf("%s: after a round trip (%v):\n%s", name, err, cmp.Diff(n, back))
		}
	}
}

func TestDecodeNotificationSkipsWhatItDoesNotKnow(t *testing.T) {
	body := `{"new":{"a":[1,-2.5e+3,true,false,null,"\u00e9\ud83d\ude00"],"a":0},"version" : "4", "alerts":null,` +
		`"al\u0065rts2":[],"st\u0061tus":"firing","groupLabels":{},"routeLabels":null,"truncatedAlerts":9223372036854775807}` + "\n"
	n, err := DecodeNotification([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	want := Notification{Version: "4", Status: Firing, TruncatedAlerts: 1<<63 - 1}
	if diff := cmp.Diff(want, n); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecodeNotificationNamesTheBadField(t *testing.T) {
	alert := func(fields string) string { return `{"alerts":[{},{` + fields + `}]}` }
	many := strings.Repeat(`{},`, maxAlerts)
	var wide strings.Builder
	for i := range maxLabels + 1 {
		fmt.Fprintf(&wide, `,"l%d":""`, i)
	}
	for body, want := range map[string]string{
		``:                                 `want an object, not the end of the message (byte 0)`,
		"\xef\xbb\xbf{}":                   `want an object, not byte 0xef (byte 0)`,
		`[]`:                               `want an object, not an array (byte 0)`,
		`{} x`:                             `there is 'x' after the end of the message (byte 3)`,
		"{}\x00":                           `there is byte 0x0 after the end of the message (byte 2)`,
		`{}{}`:                             `there is an object after the end of the message (byte 2)`,
		`{"status":"firing",}`:             `want a name in quotes, not '}' (byte 19)`,
		`{"status" "firing"}`:              `want a colon, not a string (byte 10)`,
		`{"status":"a" "version":"4"}`:     `want a comma or '}', not a string (byte 14)`,
		`{"status":"firing"`:               `want a comma or '}', not the end of the message (byte 18)`,
		`{"status":"fir`:                   `status: the message ends inside a string (byte 14)`,
		`{"status":"\`:                     `status: the message ends inside a string (byte 11)`,
		`{"status":"a","status":"a"}`:      `status: appears twice (byte 23)`,
		`{"status":"a","st\u0061tus":"a"}`: `status: appears twice (byte 28)`,
		`{"version":4}`:                    `version: want a string, not a number (byte 11)`,
		`{"receiver":"a` + "\n" + `b"}`:    `receiver: unescaped control character in a string (byte 14)`,
		`{"receiver":"a` + "\xff" + `b"}`:  `receiver: invalid UTF-8 in a string (byte 14)`,
		`{"receiver":"\ud800"}`:            `receiver: invalid \u escape sequence in a string (byte 13)`,
		`{"receiver":"\ud800\u0041"}`:      `receiver: invalid \u escape sequence in a string (byte 13)`,
		`{"receiver":"\u12g4"}`:            `receiver: invalid \u escape sequence in a string (byte 13)`,
		`{"receiver":"\x"}`:                `receiver: unknown escape sequence in a string (byte 13)`,
		`{"truncatedAlerts":-1}`:           `truncatedAlerts: want a whole number from 0 to 9223372036854775807 (byte 19)`,
		`{"truncatedAlerts":1.0}`:          `truncatedAlerts: want a whole number from 0 to 9223372036854775807 (byte 19)`,
		`{"truncatedAlerts":01}`:           `want a comma or '}', not a number (byte 20)`,
		`{"x":nul}`:                        `want a value, not null (byte 5)`,
		`{"x":1.}`:                         `want a digit (byte 7)`,
		`{"x":1e}`:                         `want a digit (byte 7)`,
		`{"x":` + strings.Repeat("[", 40):  `nested deeper than 32 levels (byte 36)`,
		`{"alerts":{}}`:                    `alerts: want an array, not an object (byte 10)`,
		`{"alerts":[1]}`:                   `alerts[0]: want an object, not a number (byte 11)`,
		`{"alerts":[` + many + `{}]}`:      `alerts[50000]: more than 50000 alerts; set max_alerts on the receiver (byte 150011)`,
		alert(`"labels":{"a":1}`):          `alerts[1].labels.a: want a string, not a number (byte 29)`,
		alert(`"labels":{"a":"","a":""}`):  `alerts[1].labels.a: appears twice (byte 33)`,
		alert(`"labels":{"a b":[]}`):       `alerts[1].labels["a b"]: want a string, not an array (byte 31)`,
		alert(`"labels":{"` + strings.Repeat("x", 70) + `":[]}`):              `alerts[1].labels["` + strings.Repeat("x", 64) + `"...]: want a string, not an array (byte 98)`,
		alert(`"annotations":{"a":"","a":""}`):                                `alerts[1].annotations.a: appears twice (byte 38)`,
		alert(`"labels":{"":"x"}`):                                            `alerts[1].labels[""]: a name is empty (byte 26)`,
		alert(`"annotations":{"a":"` + strings.Repeat("x", maxText+1) + `"}`): `alerts[1].annotations.a: 65537 bytes long, at most 65536 are accepted (byte 31)`,
		alert(`"labels":{"a":""` + wide.String() + `}`):                       `alerts[1].labels: more than 256 entries (byte 2481)`,
		alert(`"startsAt":"yesterday"`):                                       `alerts[1].startsAt: want a time like 2026-11-21T02:28:04.731Z (RFC 3339) (byte 26)`,
		alert(`"startsAt":1732155`):                                           `alerts[1].startsAt: want a time in quotes, not a number (byte 26)`,
		alert(`"endsAt":"9999-12-31T23:59:59-01:00"`):                         `alerts[1].endsAt: want a time in the years 0 to 9999 UTC (byte 24)`,
	} {
		_, err := DecodeNotification([]byte(body))
		if err == nil {
			t.Errorf("%.60q: accepted, want %s", body, want)
		} else if err.Error() != want {
			t.Errorf("%.60q:\n got %s\nwant %s", body, err, want)
		}
	}
}

func TestNotificationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawNotification(t)
		data := n.AppendJSON(nil)
		back, err := DecodeNotification(data)
		if err != nil {
			t.Fatalf("%v in %q", err, data)
		}
		if diff := cmp.Diff(n, back); diff != "" {
			t.Fatalf("after a round trip (-want +got):\n%s", diff)
		}
		if again := back.AppendJSON(nil); !bytes.Equal(data, again) {
			t.Fatalf("not the same bytes:\n%q\n%q", data, again)
		}
	})
}

func drawNotification(t *rapid.T) Notification {
	text := rapid.String()
	labels := rapid.Custom(func(t *rapid.T) map[string]string {
		return tidy(rapid.MapOfN(rapid.StringN(1, -1, -1), text, 0, 12).Draw(t, "labels"))
	})
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "s"), rapid.Int64Range(0, 999999999).Draw(t, "ns")).UTC()
	})
	alert := rapid.Custom(func(t *rapid.T) Alert {
		return Alert{
			Fingerprint: text.Draw(t, "fingerprint"), Status: AlertStatus(text.Draw(t, "status")), Labels: labels.Draw(t, "labels"),
			Annotations: labels.Draw(t, "annotations"), StartsAt: moment.Draw(t, "startsAt"), EndsAt: moment.Draw(t, "endsAt"),
			GeneratorURL: text.Draw(t, "url"),
		}
	})
	n := Notification{
		Receiver: text.Draw(t, "receiver"), Status: AlertStatus(text.Draw(t, "status")), GroupKey: text.Draw(t, "key"),
		GroupLabels: labels.Draw(t, "group"), CommonLabels: labels.Draw(t, "common"), CommonAnnotations: labels.Draw(t, "annotations"),
		RouteLabels: labels.Draw(t, "route"), ExternalURL: text.Draw(t, "url"), Version: text.Draw(t, "version"),
		TruncatedAlerts: rapid.IntMin(0).Draw(t, "truncated"), Reason: text.Draw(t, "reason"), Sender: text.Draw(t, "sender"),
		ReceivedAt: moment.Draw(t, "at"),
	}
	if alerts := rapid.SliceOfN(alert, 0, 4).Draw(t, "alerts"); len(alerts) > 0 {
		n.Alerts = alerts
	}
	return n
}

func FuzzDecodeNotification(f *testing.F) {
	for _, body := range fixtures(f) {
		f.Add(body)
	}
	f.Add([]byte(goldenJSON))
	f.Add([]byte(`{"x":[1e5,{"a":null}],"alerts":[{"labels":{"a":"\ud83d\ude00\b"},"endsAt":"2026-11-21T02:28:04+14:00"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := DecodeNotification(data)
		if err != nil {
			return
		}
		once := n.AppendJSON(nil)
		back, err := DecodeNotification(once)
		if err != nil {
			t.Fatalf("cannot read back %q: %v", once, err)
		}
		if diff := cmp.Diff(n, back); diff != "" {
			t.Fatalf("after a round trip (-want +got):\n%s", diff)
		}
		if !foldsNames(data) {
			likePeer(t, data, n)
		}
	})
}

// foldsNames reports whether data has names that encoding/json, which ignores
// case, takes for fields and DecodeNotification does not.
func foldsNames(data []byte) bool {
	var top map[string]json.RawMessage
	var alerts []map[string]json.RawMessage
	if json.Unmarshal(data, &top) != nil {
		return false
	}
	if json.Unmarshal(top["alerts"], &alerts) != nil {
		alerts = nil
	}
	known := "receiver status alerts notification_reason groupLabels commonLabels commonAnnotations routeLabels externalURL version " +
		"groupKey truncatedAlerts sender receivedAt labels annotations startsAt endsAt generatorURL fingerprint"
	for _, object := range append(alerts, top) {
		for name := range maps.Keys(object) {
			for _, field := range strings.Fields(known) {
				if name != field && strings.EqualFold(name, field) {
					return true
				}
			}
		}
	}
	return false
}

// storm is a body of n alerts like a real one, about 1.2 KB each.
func burst(n int) []byte {
	m := peerNotification{Receiver: "remediator", Status: Firing, Version: "4", GroupKey: `{}:{alertname="InferenceTTFTFastBurn"}`}
	for i := range n {
		a := Alert{
			Status: Firing, Fingerprint: fmt.Sprintf("%016x", i), StartsAt: goldenNotification.ReceivedAt,
			GeneratorURL: "http://prometheus.monitoring:9090/graph?g0.expr=" + strings.Repeat("slo%3Ainference_ttft_error+%3E+", 12) + "&g0.tab=1",
			Labels: map[string]string{
				"alertname": "InferenceTTFTFastBurn", "cluster": "lab", "namespace": "serving", "pod": fmt.Sprintf("inference-llm-%d", i),
				"service": "inference-llm", "severity": "critical", "slo": "inference-ttft", "job": "vllm", "model_name": "llama-70b",
				"instance": "10.0.0.1:8000",
			},
			Annotations: map[string]string{
				"runbook": "runbook-inference-slo-breach: inference SLO breach (TTFT)",
				"summary": "TTFT error ratio 63.17% on inference-llm", "description": strings.Repeat("The error budget burns. ", 6),
			},
		}
		m.Alerts = append(m.Alerts, a)
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

func BenchmarkDecodeNotification(b *testing.B) {
	data := burst(10)
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeNotification(data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			var p peerNotification
			if err := json.Unmarshal(data, &p); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkNotificationAppendJSON(b *testing.B) {
	n, err := DecodeNotification(burst(10))
	if err != nil {
		b.Fatal(err)
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = n.AppendJSON(buf[:0])
	}
}
