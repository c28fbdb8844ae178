// Package helm reads the values of Helm charts and knows where the charts of the
// vLLM production stack and of llm-d's modelservice keep the flags and replicas of
// a workload.
//
// [Values] merges value files as Helm does, and reads the values that kustomizations and
// Argo CD applications hold. Each value still belongs to the file it is written in.
// Templates are not edited: [IsTemplate] tells which files they are.
//
// [Deployments] finds the charts of a tree and what they are deployed with, [Render]
// renders them in a process of its own, and [Deployment.Candidates] returns the values
// that may decide a variable.
package helm
