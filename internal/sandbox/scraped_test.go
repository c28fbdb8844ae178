package sandbox

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// What a Prometheus scrapes of the pods is what the simulated one has, under the same
// labels, and so is the history.
func TestScrapedSeries(t *testing.T) {
	for _, name := range []string{"kv-thrash", "stuck-engine"} {
		w, clock := open(t, name)
		clock.Set(clock.Now().Truncate(scrape).Add(scrape))
		families, samples := 0, 0
		for _, target := range w.Targets() {
			var out strings.Builder
			if err := w.WriteMetrics(&out, target["pod"]); err != nil {
				t.Fatal(err)
			}
			parser := expfmt.NewTextParser(model.UTF8Validation)
			all, err := parser.TextToMetricFamilies(strings.NewReader(out.String()))
			if err != nil {
				t.Fatalf("%v in\n%s", err, out.String())
			}
			families += len(all)
			for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
				if strings.HasPrefix(line, "#") {
					continue
				}
				i := strings.LastIndex(line, " ")
				expr := strings.TrimSuffix(line[:i], "}") + `,pod="` + target["pod"] + `",job="` + target["job"] + `",instance="` + target["instance"] + `"}`
				if got := number(one(t, w, expr, clock.Now())); got != line[i+1:] {
					t.Errorf("%s: scraped %s, simulated %s", expr, line[i+1:], got)
				}
				samples++
			}
		}
		if families < 20 || samples < 200 {
			t.Errorf("%s: only %d families and %d samples", name, families, samples)
		}
		if err := w.WriteMetrics(&strings.Builder{}, "no-such-pod"); err == nil {
			t.Error("a pod that is not there has metrics")
		}
		var out strings.Builder
		if err := w.WriteHistory(&out, clock.Now().Add(-time.Minute)); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count("\n"+out.String(), "\nup{"); n != 5*len(w.Targets()) || !strings.HasSuffix(out.String(), "\n# EOF\n") {
			t.Errorf("%s: %d samples of a series in a minute of history, want %d", name, n, 5*len(w.Targets()))
		}
	}
}
