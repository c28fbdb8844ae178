// Package playbook implements the playbook language: it loads YAML playbooks,
// compiles their CEL and PromQL, analyses their graphs, matches alerts against
// them and draws them. It also declares the types that other packages share:
// [Alert], [Service], [Notification], [Autonomy].
//
// From the bottom up:
//
//   - evidence.go, compiler.go, variables.go and types.go define what expressions
//     can name; package expression compiles them, over the kinds' declared
//     evidence, and package yamldoc reads the files;
//   - template.go, value.go and promql.go implement parameters and queries that
//     contain ${CEL};
//   - parse.go, reader.go, gather.go, edges.go, parameters.go and blocks.go read a
//     playbook; flow.go and ends.go refuse graphs that could misbehave;
//   - numbers.go declares the numbers and durations that may be expressions;
//   - let.go writes out the expressions that spec.let names;
//   - known.go judges conditions over evidence that a gather may lack;
//   - match.go and set.go match; load.go and watch.go read directories;
//   - graph.go, schema.go and reference.go generate documentation.
//
// Invariants: a loaded [Playbook] has typed expressions, edges for every
// result, an end on every path, no change before a check, no lever without
// proof, approval and an end of its own, and no expression that could read
// evidence its path did not gather. Whatever cannot be evaluated at run time is
// an error, never false or zero. A condition over gathered evidence that is
// unknown cannot be told, and then no later edge to a lever is taken. No label
// of an alert changes the meaning of a query. A Playbook and a [Set] are immutable and safe for concurrent use.
//
// The package reads files only in [LoadDir] and [Watch]; everything else works
// on values. It knows the kinds of steps only as declarations ([Kind]) of its
// caller, and executes nothing.
package playbook
