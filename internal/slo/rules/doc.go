// Package rules turns service-level objectives into Prometheus rules: one
// recording of the bad share for each window, and alerts that compare a short
// and a long window with a burn rate.
//
// An [Objective] comes from a service and the series of its engine
// ([Service.Objectives]), or from documents: OpenSLO v1 and Sloth prometheus/v1
// ([Read]). All of them become rules in the same way ([Objective.Group]), with
// the four pairs of windows of the SRE workbook, the shares of the budget that
// [slo.AlertFactor] knows, and thresholds as Sloth computes them.
//
// [EngineGroup] returns the alerts about an engine that no objective covers: a
// replica that stands still, a full KV cache, preemptions, a growing queue,
// replicas that do not start.
//
// What cannot be expressed is refused with its place: a series that no engine
// exports, a threshold where no bucket ends, a budget that is not counted in
// events. The package is pure: it reads no files and knows nothing of playbooks
// and the catalog.
package rules
