// Package manifests puts the pure editor, the repositories and the pull
// requests together: what Git says of a service, what a change of it would be,
// and the commit that makes it.
//
// Only internal/app makes one; levers know it by their own interfaces.
package manifests
