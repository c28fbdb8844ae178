// Package policy is the platform team's rules over all playbooks: what may
// never happen, and what may happen only when whom has said yes.
//
// From the bottom up:
//
//   - input.go says what is known of a lever and how conditions see it,
//     condition.go compiles conditions over it;
//   - effect.go, approval.go, freeze.go and bounds.go are the effects a rule can
//     have, read.go reads the file;
//   - evaluate.go asks all rules and adds their answers up;
//   - table.go runs the table tests that stand beside a policy;
//   - schema.go and reference.go show the language to people.
//
// What holds:
//
//   - Evaluation is pure. Time, counts and everything else come in with [Input].
//   - A denial wins, needs add up, the lowest level and the shortest time win,
//     and who may break the glass must be named by every rule that asks. So a
//     further rule never loosens another one, and a playbook loosens none. A
//     rule can loosen a playbook's own approval, by break_glass, and that people
//     merge pull requests; for the latter a rule that names people wins.
//   - What cannot be said is a denial: a condition that fails to evaluate, an
//     unknown effect on capacity where it is bounded, a count nobody keeps.
//   - Every verdict names the first cause by rule, file and line.
//
// The package opens no files. A [Set] is immutable and safe for concurrent use;
// a nil one has no rules.
package policy
