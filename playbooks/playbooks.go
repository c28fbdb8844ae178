// Package playbooks holds the shipped playbooks and the generated JSON Schema.
// The files are the source; they are embedded so that the demo and the sandbox
// need no installation.
package playbooks

import "embed"

// Files are the shipped playbooks, at the root of the file system.
//
//go:embed *.yaml
var Files embed.FS

// Tests records what the cases in tests/ cover of each playbook, as JSON of [Tested]. It is
// written when all of them hold: go test ./playbooks -run TestRehearsals -update.
//
//go:embed tests/covered.json
var Tests []byte

// Tested is what the cases of a playbook cover.
type Tested struct {
	Digest string `json:"digest"` // of the playbook
	Cases  int    `json:"cases"`
	States int    `json:"states"`
	Seen   int    `json:"seen"` // states that a case enters
	Edges  int    `json:"edges"`
	Taken  int    `json:"taken"`  // edges that a case takes
	Worlds int    `json:"worlds"` // simulated fleets that are played with all playbooks
}
