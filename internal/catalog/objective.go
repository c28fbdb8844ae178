package catalog

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/playbook"
)

// maxWindow limits the window of an SLO; raw series are not kept for longer.
const maxWindow = 90 * 24 * time.Hour

// Defaults are what holds for a service that does not say otherwise.
type Defaults struct {
	SLOs     []playbook.SLO // of a service without any
	Recovery time.Duration  // how long its objectives must hold before a loan is returned
}

// into fills in what a service does not say. The list of SLOs is shared by all
// services of one engine, so that a large catalog holds it once.
func (d Defaults) into(s *playbook.Service, of map[string][]playbook.SLO) {
	if s.Recovery == 0 {
		s.Recovery = d.Recovery
	}
	if len(s.SLOs) > 0 {
		return
	}
	list, known := of[s.Engine]
	if !known {
		list = d.Of(s.Engine)
		of[s.Engine] = list
	}
	s.SLOs = list
}

// Of returns the default objectives as an engine can measure them: a threshold
// that none of its buckets has becomes the nearest that one has. Only defaults
// are moved: what a service declares itself is measured as declared, or not at all.
func (d Defaults) Of(name string) []playbook.SLO {
	e, _ := engine.Named(name)
	list := slices.Clone(d.SLOs)
	for i, o := range list {
		below, above := engine.Around(e.Bounds(o.Measures()), o.Threshold)
		switch {
		case o.CustomBuckets, math.IsNaN(below) && math.IsNaN(above):
		case math.IsNaN(below) || above/o.Threshold < o.Threshold/below:
			list[i].Threshold = above
		default:
			list[i].Threshold = below
		}
	}
	return list
}

// Moved returns the thresholds of the i-th default that engines are judged by in its
// place, as "sglang 0.6 s". Without names it tells of all engines.
func (d Defaults) Moved(i int, engines ...string) []string {
	if len(engines) == 0 {
		engines = engine.Names()
	}
	var out []string
	for _, name := range engines {
		if to := d.Of(name)[i].Threshold; to != d.SLOs[i].Threshold {
			out = append(out, fmt.Sprintf("%s %v s", name, to))
		}
	}
	return out
}

// Objectives returns the declared objectives.
func Objectives(list []SLO) []playbook.SLO {
	var out []playbook.SLO
	for _, o := range list {
		out = append(out, playbook.SLO{
			Name: o.Name, Objective: o.Objective, Window: o.Window, Threshold: o.Threshold,
			Indicator: o.Indicator, Model: o.Model, Route: o.Route, By: o.By, CustomBuckets: o.Custom,
		})
	}
	return out
}

// validateSLOs returns the errors of objectives below a path.
func validateSLOs(path string, list []playbook.SLO) []problem {
	var ps []problem
	names := map[string]int{}
	for i, o := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		for _, p := range validateSLO(o) {
			ps = append(ps, problem{at + "." + p.field, p.message, p.hint})
		}
		if first, twice := names[o.Name]; twice && o.Name != "" {
			ps = append(ps, problem{at + ".name", fmt.Sprintf("duplicate name %q, also at %s[%d]", o.Name, path, first), "give one of them another name, and its indicator"})
		}
		names[o.Name] = i
	}
	return ps
}

func validateSLO(s playbook.SLO) []problem {
	var ps []problem
	add := func(field, message, hint string) { ps = append(ps, problem{field, message, hint}) }
	indicators := "one of " + strings.Join(engine.Indicators(), ", ")
	switch {
	case s.Name == "":
		add("name", "is missing", "like ttft or tpot")
	case slices.Contains(engine.Indicators(), s.Measures()):
	case s.Indicator == "":
		add("indicator", fmt.Sprintf("is missing, and %q is not one", s.Name), indicators)
	default:
		add("indicator", fmt.Sprintf("unknown indicator %q", s.Indicator), indicators)
	}
	if !(s.Objective > 0 && s.Objective < 1) {
		add("objective", fmt.Sprintf("%v is not between 0 and 1", s.Objective), "0.99 means 99 %")
	}
	if s.Window <= 0 || s.Window > maxWindow {
		add("window", fmt.Sprintf("%s is not between 0 and 90d", playbook.FormatDuration(max(s.Window, 0))), "28d is common")
	}
	switch timed := engine.Timed(s.Measures()); {
	case s.Threshold < 0 || math.IsNaN(s.Threshold) || math.IsInf(s.Threshold, 0):
		add("threshold", fmt.Sprintf("%v is not a number of seconds", s.Threshold), "a bucket of the engine's histogram, like 0.5")
	case timed && s.Threshold == 0 && slices.Contains(engine.Indicators(), s.Measures()):
		add("threshold", "is missing", "seconds; a bucket of the engine's histogram, like 0.5")
	case !timed && s.Threshold != 0:
		add("threshold", "is of no use for "+s.Measures(), "remove it")
	}
	if s.By != "" && !model.LegacyValidation.IsValidLabelName(s.By) {
		add("by", fmt.Sprintf("%q is not the name of a label", s.By), "like model_name or route")
	}
	return ps
}

// unmeasured returns the objectives, below a path, of which the service's engine
// cannot tell what is good: none of its buckets ends at the threshold.
func unmeasured(path string, s playbook.Service) []problem {
	e, _ := engine.Named(s.Engine)
	var ps []problem
	for i, o := range s.SLOs {
		below, above := engine.Around(e.Bounds(o.Measures()), o.Threshold)
		if o.CustomBuckets || o.Threshold <= 0 || math.IsNaN(below) && math.IsNaN(above) || below == above {
			continue
		}
		var near []string
		for _, b := range []float64{below, above} {
			if !math.IsNaN(b) {
				near = append(near, fmt.Sprintf("%v s", b))
			}
		}
		ps = append(ps, problem{
			fmt.Sprintf("%s[%d].threshold", path, i),
			fmt.Sprintf("%s has no bucket of %s that ends at %v s in the versions that are known; the nearest are %s", e.Title, o.Measures(), o.Threshold, strings.Join(near, " and ")),
			"take one of them; where yours has others, by its version or configuration, or native ones, add custom_buckets: true",
		})
	}
	return ps
}
