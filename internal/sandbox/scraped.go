package sandbox

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Targets returns the labels of every pod that a Prometheus in the cluster would scrape.
func (w *World) Targets() []map[string]string {
	w.advance()
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []map[string]string
	for _, f := range w.fleets {
		for _, p := range f.pods {
			if p.node == "" {
				continue // no address yet
			}
			labels, pairs := map[string]string{}, targetLabels(f, p)
			for i := 0; i < len(pairs); i += 2 {
				labels[pairs[i]] = pairs[i+1]
			}
			out = append(out, labels)
		}
	}
	return out
}

// WriteMetrics writes what the engine of a pod answers at /metrics, in the text format
// that Prometheus scrapes. A pod that is gone or has no engine yet is an error.
func (w *World) WriteMetrics(to io.Writer, name string) error {
	w.advance()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.fleets {
		for _, p := range f.pods {
			if p.name != name {
				continue
			}
			if p.engine == nil {
				return fmt.Errorf("pod %s: its engine does not listen", name)
			}
			return writeMetrics(to, f, p)
		}
	}
	return fmt.Errorf("pod %s: there is none", name)
}

func writeMetrics(to io.Writer, f *fleet, p *pod) error {
	out, last := bufio.NewWriter(to), ""
	f.dialect().exposed(p.engine, func(name string, read func() float64, pairs ...string) {
		if family, kind := familyOf(name); family != last {
			fmt.Fprintf(out, "# TYPE %s %s\n", family, kind)
			last = family
		}
		fmt.Fprintf(out, "%s %s\n", seriesText(name, append(engineLabels(f), pairs...)), number(read()))
	})
	return out.Flush()
}

// familyOf returns the family of a series and its type, by the suffixes of Python's
// client library.
func familyOf(name string) (family, kind string) {
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if family, ok := strings.CutSuffix(name, suffix); ok {
			return family, "histogram"
		}
	}
	if strings.HasSuffix(name, "_total") {
		return name, "counter"
	}
	return name, "gauge"
}

// WriteHistory writes the samples since a moment in the OpenMetrics format, from which
// 'promtool tsdb create-blocks-from openmetrics' makes blocks. Where a series ends, its
// samples end.
func (w *World) WriteHistory(to io.Writer, since time.Time) error {
	w.advance()
	w.store.mu.RLock()
	defer w.store.mu.RUnlock()
	out := bufio.NewWriter(to)
	for _, name := range slices.Sorted(maps.Keys(w.store.byName)) {
		for _, sr := range w.store.byName[name] {
			var pairs []string
			for k, v := range labelMap(sr.labels) {
				if k != "__name__" {
					pairs = append(pairs, k, v)
				}
			}
			text := seriesText(name, pairs)
			v := sr.between(since.UnixMilli(), math.MaxInt64)
			for i, value := range v.values {
				if !math.IsNaN(value) {
					fmt.Fprintf(out, "%s %s %d\n", text, number(value), (v.first+int64(i)*scrape.Milliseconds())/1000)
				}
			}
		}
	}
	fmt.Fprintln(out, "# EOF")
	return out.Flush()
}

// seriesText writes a series with its labels, name and value in turn.
func seriesText(name string, pairs []string) string {
	var labels []string
	for i := 0; i < len(pairs); i += 2 {
		labels = append(labels, fmt.Sprintf("%s=%q", pairs[i], pairs[i+1]))
	}
	slices.Sort(labels)
	return name + "{" + strings.Join(labels, ",") + "}"
}

// number writes a value or a bucket's bound as Python's client library and Prometheus 3
// do: 1.0, not 1.
func number(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
