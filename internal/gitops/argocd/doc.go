// Package argocd speaks to one Argo CD server: what an application is and how
// far a commit has come, refresh, sync, rollback, who owns an object.
//
// It is the only package that imports argo-cd. It uses the generated clients of
// argo-cd's pkg/apiclient over a connection of its own: apiclient.NewClient
// calls the server without a deadline, ends the process when it cannot open a
// socket in TMPDIR, takes address and token from the environment when options
// are empty, and reads the token once. Here every call has a deadline, nothing
// comes from the environment (proxies neither), and the token file is read for
// every call, so that a rotated token works at once.
//
// The token needs two rights on the project's applications, get and sync. What
// else Argo CD can do, such as create, update, override and delete, is not used.
//
// Reads are repeated when the server is unreachable, busy or fails; a sync is
// sent once, and when its answer is lost, it is looked for by its key.
package argocd
