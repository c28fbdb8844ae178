//go:build e2e

package rig

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Metric reads one series of the replica's own metrics, by its exact name and
// labels. A series that is not there yet is 0, as counters are.
func (am *Alertmanager) Metric(ctx context.Context, series string) (float64, error) {
	return metric(ctx, am.URL+"/metrics", "", series)
}

// Metric reads one series of the service's own metrics, by its exact name and
// labels. A series that is not there yet is 0, as counters are.
func (s *Service) Metric(t testing.TB, series string) float64 {
	t.Helper()
	v, err := s.TryMetric(t.Context(), series)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TryMetric is Metric for a service that may be too busy to answer.
func (s *Service) TryMetric(ctx context.Context, series string) (float64, error) {
	return metric(ctx, s.URL+"/metrics", oncallToken, series)
}

// metric waits long for its answer: the server may be under load.
func metric(ctx context.Context, url, token, series string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{Timeout: 20 * time.Second}).Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", url, resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), series+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, lines.Err()
}
