package dryrun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/setting"
)

// maxNotification bounds what dry-run reads, as the receiver does.
const maxNotification = 16 << 20

// Source is where the alerts of a dry run come from: exactly one of its
// fields is set.
type Source struct {
	File             string            // a webhook body; "-": standard input
	Labels           map[string]string // of one alert that fires now
	FromAlertmanager string            // URL whose firing alerts are taken
}

// Check insists on exactly one source.
func (s Source) Check(sandbox bool) error {
	n := 0
	for _, set := range []bool{s.File != "", len(s.Labels) > 0, s.FromAlertmanager != ""} {
		if set {
			n++
		}
	}
	switch {
	case n > 1:
		return errors.New("-f, --alert and --from-alertmanager exclude each other; give one")
	case n == 0 && !sandbox:
		return errors.New("no alerts: give -f FILE, --alert LABEL=VALUE or --from-alertmanager URL")
	default:
		return nil
	}
}

// bodies returns webhook bodies as Alertmanager would post them.
func (s Source) bodies(ctx context.Context, p *command.Process, now time.Time) ([][]byte, error) {
	switch {
	case s.File == "-":
		body, err := config.ReadAtMost(p.Stdin, maxNotification)
		if err == nil && len(bytes.TrimSpace(body)) == 0 {
			err = errors.New("read notification: the standard input is empty; the body that Alertmanager posts belongs there")
		}
		return [][]byte{body}, err
	case s.File != "":
		f, err := os.Open(s.File)
		if err != nil {
			return nil, fmt.Errorf("read notification: %w; -f names the file with the body that Alertmanager posts, - is the standard input", err)
		}
		defer f.Close()
		body, err := config.ReadAtMost(f, maxNotification)
		if err != nil {
			return nil, fmt.Errorf("read notification %s: %w", s.File, err)
		}
		return [][]byte{body}, nil
	case s.FromAlertmanager != "":
		alerts, err := fetchAlerts(ctx, s.FromAlertmanager)
		if err != nil {
			return nil, err
		}
		return [][]byte{webhookBody(alerts)}, nil
	default:
		if s.Labels["alertname"] == "" {
			return nil, errors.New("--alert needs the label alertname, e.g. --alert alertname=InferenceTTFTFastBurn --alert namespace=serving")
		}
		alert := playbook.Alert{Status: playbook.Firing, Labels: s.Labels, StartsAt: now.UTC()}
		return [][]byte{webhookBody([]playbook.Alert{alert})}, nil
	}
}

// webhookBody is a payload of version 4 with these alerts.
func webhookBody(alerts []playbook.Alert) []byte {
	status := playbook.Resolved
	if slices.ContainsFunc(alerts, func(a playbook.Alert) bool { return a.Status == playbook.Firing }) {
		status = playbook.Firing
	}
	n := playbook.Notification{Receiver: "dry-run", Status: status, GroupKey: "{}:{}", Version: "4", Alerts: alerts}
	return n.AppendJSON(nil)
}

// amAlert is an alert of Alertmanager's API, version 2.
type amAlert struct {
	Fingerprint  string            `json:"fingerprint"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	GeneratorURL string            `json:"generatorURL"`
}

// fetchAlerts reads the alerts that fire and are neither silenced nor inhibited.
func fetchAlerts(ctx context.Context, server string) ([]playbook.Alert, error) {
	u, err := url.Parse(server)
	if err != nil || !setting.IsHTTP(server) || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("--from-alertmanager %s is not the URL of an Alertmanager; write it like http://alertmanager:9093", setting.QuotedURL(server))
	}
	shown := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String() // without the user, who may have a password
	ctx, cancel := context.WithTimeout(ctx, client.RequestDeadline)
	defer cancel()
	u = u.JoinPath("api/v2/alerts")
	u.RawQuery = "active=true&silenced=false&inhibited=false&unprocessed=false"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask alertmanager: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // without the whole query
		}
		return nil, fmt.Errorf("cannot reach Alertmanager at %s: %w; --from-alertmanager names it", shown, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxNotification))
	if err != nil {
		return nil, fmt.Errorf("ask alertmanager: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s: %s", shown, resp.Status, runview.Cut(runview.Cell(string(data)), 200))
	}
	var found []amAlert
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, fmt.Errorf("%s does not answer like an Alertmanager: %w", shown, err)
	}
	var alerts []playbook.Alert
	for _, a := range found {
		alerts = append(alerts, playbook.Alert{
			Fingerprint: a.Fingerprint, Status: playbook.Firing, Labels: a.Labels, Annotations: a.Annotations,
			StartsAt: a.StartsAt, GeneratorURL: a.GeneratorURL,
		})
	}
	if len(alerts) == 0 {
		return nil, fmt.Errorf("no alert fires at %s that is neither silenced nor inhibited", shown)
	}
	return alerts, nil
}

// ParseAlert reads the label=value arguments of --alert.
func ParseAlert(args []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--alert %q: write label=value", arg)
		}
		if old, dup := labels[name]; dup && old != value {
			return nil, fmt.Errorf("--alert sets %s twice, to %q and %q", name, old, value)
		}
		labels[name] = strings.Trim(value, `"`)
	}
	return labels, nil
}
