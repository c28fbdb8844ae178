// Package argocd is a client of one Argo CD server: state of an application,
// progress of a commit, refresh, sync, rollback, owner of an object.
//
// It is the only package that imports argo-cd. It uses the generated clients of
// argo-cd's pkg/apiclient over a connection of its own. apiclient.NewClient calls
// the server without a deadline, ends the process when it cannot open a socket in
// TMPDIR, takes address and token from the environment when options are empty, and
// reads the token once. Here every call has a deadline, nothing comes from the
// environment (not even proxies), and the token file is read for every call, so
// that a rotated token works at once.
//
// The token needs two permissions on the project's applications, get and sync. It
// uses no others, such as create, update, override and delete.
//
// Reads are repeated when the server is unreachable, busy or fails. A sync is sent
// once. If its answer is lost, it is looked up by its key.
package argocd
