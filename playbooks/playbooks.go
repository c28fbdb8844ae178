// Package playbooks holds the shipped playbooks and the generated JSON Schema.
// The files are the source; they are embedded so that the demo and the sandbox
// need no installation.
package playbooks

import "embed"

// Files are the shipped playbooks, at the root of the file system.
//
//go:embed *.yaml
var Files embed.FS
