// Package gitops changes what Git owns in Git.
//
// This package is the subject's vocabulary and its pure part: where a variable
// of a service stands in its manifests, and the edit that changes only the
// bytes of its value. It reads no file and no network.
//
//	gitops             Source, Variable, Place, Edit: find and edit (pure)
//	gitops/repository  one repository: kept warm, read, committed to, pushed, reverted
//	gitops/forge       pull requests on GitHub, GitLab, Gitea
//	gitops/argocd      Argo CD applications: refresh, sync, watch
//
// Nothing here knows playbooks, runs or its callers.
package gitops
