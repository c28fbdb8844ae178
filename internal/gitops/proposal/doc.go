// Package proposal computes changes of a service's manifests from what was read of a
// source and of its commits: edits, reverts, releases that are taken back, and what a
// commit changed, field by field. It reads no repository and makes no commit.
//
// Package manifests uses it on real repositories, the sandbox on a simulated one.
package proposal
