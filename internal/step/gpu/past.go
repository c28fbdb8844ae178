package gpu

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/dcgm"
)

// The past is asked for of some GPUs at once, so that no answer is too large, and
// of no more than that many: what went on before stays undated of the others.
const (
	pastAtOnce = 16
	pastMost   = 8 * pastAtOnce
)

// pastQuery returns a query for the values that the series of one selector had,
// as a label, and the highest value of another's, once per GPU: the exporter
// repeats them for each instance of a divided GPU.
const pastQuery = `count_values by (__name__, UUID, uuid, %[1]s) ("value", %[2]s) or max by (__name__, UUID, uuid, %[1]s, clock_event) (%[3]s)`

// past returns, by node, the series of GPUs before a time.
func (d DCGM) past(ctx context.Context, label string, nodes, uuids []string, to time.Time) (map[string][]dcgm.Series, error) {
	out := map[string][]dcgm.Series{}
	values, counts := dcgm.PastNames()
	for some := range slices.Chunk(uuids[:min(len(uuids), pastMost)], pastAtOnce) {
		of := func(uuid string) string {
			o := d
			o.Selector = fmt.Sprintf("%s=~%q", uuid, quoted(some))
			if d.Selector != "" {
				o.Selector += ", " + d.Selector
			}
			return fmt.Sprintf(pastQuery, label, o.selector(label, nodes, values), o.selector(label, nodes, counts))
		}
		all, err := d.span(ctx, of("UUID")+" or "+of("uuid"), to.Add(-dcgm.PastSpan), to, dcgm.PastStep)
		if err != nil {
			return nil, err
		}
		for n, series := range d.byNode(label, all) {
			for _, s := range series {
				if s, ok := valued(s, values); ok {
					out[n] = append(out[n], s)
				}
			}
		}
	}
	return out, nil
}

// valued is a series before [pastQuery] turned its values into a label.
func valued(s dcgm.Series, values []string) (dcgm.Series, bool) {
	if !slices.Contains(values, s.Name) {
		return s, true
	}
	v, err := strconv.ParseFloat(s.Labels["value"], 64)
	for i := range s.Points {
		s.Points[i].Value = v
	}
	return s, err == nil
}

// date returns the snapshots with the past added for nodes where a condition
// already held at the start of the last minutes. If the past cannot be read,
// the last minutes alone count.
func (d DCGM) date(ctx context.Context, label string, out []gpu.Answer, anew func(node string, past []dcgm.Series) (gpu.Snapshot, error), to time.Time) {
	var nodes, uuids []string
	for _, a := range out {
		if undated := dcgm.Undated(a.Snapshot); len(undated) > 0 {
			nodes, uuids = append(nodes, a.Node), append(uuids, undated...)
		}
	}
	if len(nodes) == 0 {
		return
	}
	past, err := d.past(ctx, label, nodes, uuids, to)
	for i, a := range out {
		switch {
		case !slices.Contains(nodes, a.Node):
		case err != nil:
			out[i].Snapshot.Errors = append(a.Snapshot.Errors, gpu.ReadError{What: "past", Why: gpu.Failed, Detail: err.Error()})
		default:
			out[i].Snapshot, out[i].Err = anew(a.Node, past[a.Node])
		}
	}
}
