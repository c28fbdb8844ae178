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
// [Locate] says where a variable of a target counts, and [Set], [SetAll] and
// [Unset] make the change. They read the tree as it will be deployed:
// kustomizations are built with every part still knowing its file, value files
// are merged, command lines are split as a shell would. So a place is one that
// certainly wins; where two may count, or a second target would change along,
// or anything on the way cannot be followed, the answer is a [*fault.Error] with the
// places and nothing is changed.
//
// What holds for every edit: the bytes outside of the value (or of the added
// item) are the same, the result is parsed again and differs in this one value,
// and Locate finds the new value. No credential is shown: flags and variables
// whose names say so are refused, and differences come without them.
//
// Not followed: replacements and transformers of a kustomization that touch a
// command line, environment or replicas; selectors of patches by label; copy and move
// in JSON patches; templates of Helm charts (their values are edited for the
// vLLM production stack and llm-d's modelservice); here-documents and nested
// quotes in scripts.
//
// Nothing here knows playbooks, runs or its callers.
package gitops
