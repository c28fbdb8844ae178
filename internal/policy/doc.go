// Package policy implements the platform team's rules over all playbooks: what
// may never happen, and what may happen only after certain people have
// approved.
//
// From the bottom up:
//
//   - input.go describes a lever and how conditions see it; condition.go compiles
//     conditions over it;
//   - effect.go, approval.go, freeze.go and bounds.go implement the effects of
//     rules; read.go and read_freeze.go read the file;
//   - evaluate.go evaluates all rules and combines their findings;
//   - table.go runs the table tests of a policy;
//   - schema.go and reference.go generate documentation.
//
// Invariants:
//
//   - Evaluation is pure. Time, counts and everything else come in with [Input].
//   - A denial wins, needs add up, the lowest level and the shortest time win,
//     and every rule that asks must name the people who may break the glass. So
//     another rule never loosens a rule, and a playbook loosens none. A rule can
//     loosen a playbook's own approval, by break_glass, and its default that
//     people merge pull requests; for the latter a rule that names people wins.
//   - Unknown is denied: a condition that fails to evaluate, an unknown effect on
//     capacity where it is limited, a count that is not kept.
//   - Every verdict names the first cause by rule, file and line.
//
// The package opens no files. A [Set] is immutable and safe for concurrent use;
// a nil one has no rules.
package policy
