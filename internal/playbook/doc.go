// Package playbook is the language: it loads YAML playbooks, compiles their CEL
// and PromQL, analyses their graphs, matches alerts against them and draws them.
// It also declares the words everything else speaks of: [Alert], [Service],
// [Notification], [Autonomy].
//
// From the bottom up:
//
//   - evidence.go, compiler.go, variables.go and types.go say what expressions
//     can name; package expression compiles them, over the kinds' declared
//     evidence, and package yamldoc reads the files;
//   - template.go, value.go and promql.go are parameters and queries with ${CEL}
//     in them;
//   - parse.go, reader.go, edges.go, parameters.go and blocks.go read a playbook,
//     flow.go refuses graphs that could misbehave;
//   - match.go and set.go match, load.go and watch.go read directories;
//   - graph.go, schema.go and reference.go show it all to people.
//
// What holds: a [Playbook] that loaded has typed expressions, edges for every
// result, an end on every path, no change before a check, no lever without
// proof, approval and an end of its own, and no expression that could read
// evidence its path did not gather. Whatever cannot be evaluated at run time is
// an error, never false or zero. No label of an alert changes what a query asks.
// A Playbook and a [Set] are immutable and safe for concurrent use.
//
// The package reads files only in [LoadDir] and [Watch]; everything else works
// on values. It knows the kinds of steps only as declarations ([Kind]) that its
// caller hands in, and it runs nothing.
package playbook
