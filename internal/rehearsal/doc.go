// Package rehearsal runs playbooks on canned results: what each check answers and
// what becomes of each lever. The decisions are those of the executor's machine;
// guards allow everything, and people approve unless a case says otherwise. Time is
// virtual, so a case that lasts hours takes milliseconds.
//
// A [Suite] is a file of cases for one playbook: fixture.go and evidence.go read it,
// run.go and answer.go run it, cover.go tells which states and edges no case took.
//
// Nothing here reads a clock, a file or a network. The same suite has the same
// result always.
package rehearsal
