// Package manifests combines the pure editor, the repositories and the pull
// requests: what Git holds of a service, what a change of it would be, and the
// commit that makes it.
//
// Only internal/app constructs one; levers use it through their own interfaces.
package manifests
