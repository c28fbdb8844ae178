package gpu

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/dcgm"
	"github.com/inference-responder/responder/internal/step"
)

// xidsQuery asks four things about each GPU of one selector of the XID gauge
// over a span: the number of steps with a fresh sample, and the lowest and
// highest value. Values that are no XID (NaN, and DCGM's values for "none")
// count as no sample.
const xidsQuery = `label_replace(count_over_time((max by (UUID, uuid) (timestamp(%[1]s) and (%[1]s >= 0 < 1e6)) > time() - %[2]d)[%[3]ds:%[4]ds]), "of", "steps", "", "") or ` +
	`label_replace(min_over_time((min by (UUID, uuid) (%[1]s))[%[3]ds:%[4]ds]), "of", "lowest", "", "") or ` +
	`label_replace(max_over_time((max by (UUID, uuid) (%[1]s))[%[3]ds:%[4]ds]), "of", "highest", "", "")`

// Quiet implements [step.XIDs]. The gauge keeps the last XID until the next
// one, so one value over the whole time proves that there was no other XID; the
// same XID again does not matter if it is harmless. XIDs that dcgm-exporter
// misses are missed here, too: those between a scrape and a restart of the
// exporter.
func (d DCGM) Quiet(ctx context.Context, node string, uuids []string, since time.Time) error {
	// Steps lie at multiples of their length: half a step beside one, a span of
	// whole steps has the same number of them whether its ends count or not. What
	// is younger than that is in every snapshot.
	at := d.Now().UTC().Truncate(dcgm.Step).Add(-dcgm.Step / 2)
	steps := max(int(at.Sub(since)/dcgm.Step), 0) + 2 // one of them before it
	young := int(gpu.Snapshot{PeriodMS: dcgm.Step.Milliseconds()}.MaxAge() / time.Second)
	gauge := d.selector(d.label(), []string{node}, []string{dcgm.XIDGauge})
	every := int(dcgm.Step / time.Second)
	v, err := d.Querier.Instant(ctx, fmt.Sprintf(xidsQuery, gauge, young, steps*every, every), at)
	if err != nil {
		return fmt.Errorf("ask for XIDs since %s: %w", since.UTC().Format(time.RFC3339), err)
	}
	if w := step.Warnings(v.Warnings); w != "" {
		return fmt.Errorf("Prometheus could not read everything: %s", w) //nolint:staticcheck // a name
	}
	seen := map[string]map[string]float64{}
	for _, s := range v.Samples {
		uuid := s.Labels["UUID"] + s.Labels["uuid"]
		if seen[uuid] == nil {
			seen[uuid] = map[string]float64{}
		}
		seen[uuid][s.Labels["of"]] = s.Value
	}
	for _, uuid := range slices.Sorted(slices.Values(uuids)) {
		of, there := seen[uuid]
		lowest, low := of["lowest"]
		highest, high := of["highest"]
		switch {
		case !there:
			return fmt.Errorf("%s is not in Prometheus for GPU %s", dcgm.XIDGauge, uuid)
		case !(of["steps"] >= float64(steps)): // NaN too
			return fmt.Errorf("%s of GPU %s was scraped at %.0f of %d steps of %s", dcgm.XIDGauge, uuid, of["steps"], steps, dcgm.Step)
		case !low || !high || lowest != highest:
			return fmt.Errorf("GPU %s had another XID since, or its exporter restarted", uuid)
		}
		if code := uint64(lowest); !gpu.HarmlessXID(code) {
			return fmt.Errorf("GPU %s had XID %d last: a repetition of it would not show", uuid, code)
		}
	}
	return nil
}
