// Package gitops finds and changes what Git owns: the flags, environment variables
// and replicas of serving engines in the manifests of a repository.
//
// The package has the types of the subject and its pure part: it reads no file and
// uses no network. It starts one program, which renders charts. The packages below it:
//
//	gitops/edit        YAML files with the place of every value; changes of the bytes of one value
//	gitops/command     flags and environment variables on command lines
//	gitops/kustomize   builds of kustomizations
//	gitops/helm        value files, the charts that are known, and charts that are rendered
//
//	gitops/manifests   proposals and commits for the levers: the three below put together
//	gitops/repository  one repository: clone, read, commit, push, revert
//	gitops/forge       pull requests on GitHub, GitLab and Gitea
//	gitops/argocd      Argo CD applications: refresh, sync, watch
//	gitops/flux        Kustomizations and HelmReleases of Flux, in the same form
//
// [Locate] returns where a variable of a target takes effect, and [Set], [SetAll]
// and [Unset] change it. They read the tree as it is deployed: kustomizations are
// built, value files are merged, command lines are split as a shell splits them. The
// result is a place that certainly takes effect. If several places may, if a change
// would change another target too, or if something on the way cannot be followed,
// they return an [*fault.Error] with the places and change nothing.
//
// After every edit, the bytes outside of the value (or of the added item) are the
// same, the result parses and differs in this one value, and Locate finds the new
// value. The kustomization that deploys it is built before and after, by the code in
// gitops/kustomize, and every object compared: an edit that changes nothing there, or
// another object, is refused. So is one of a ConfigMap that another workload reads.
// A chart of the tree is rendered before and after, by the program responder-helm: a
// value counts if its change shows in the wanted variable of the target and nowhere else.
// What a HelmRelease of Flux makes is changed in spec.values of its manifest.
// What cannot be built is in [Edit.Unbuilt]. Credentials are not shown: flags and
// variables with such names are refused, and differences hide them.
//
// A flag goes only into a container that runs an engine, and [Place] names the engine.
//
// Not followed: replacements and transformers of a kustomization that touch a
// command line, environment or replicas; selectors of patches by label; copy and move
// in JSON patches; templates of Helm charts that are not in the tree, except for the
// values of the vLLM production stack and of llm-d's modelservice; templates of an
// ApplicationSet; nested quotes in scripts.
//
// Nothing here knows playbooks, runs or its callers.
package gitops
