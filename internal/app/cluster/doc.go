// Package cluster opens the world of a configuration: its Kubernetes API, its Prometheus,
// its node agents, its Git repositories with their forges, and what deploys from them.
// [Open] returns them as an [app.World], and connects to nothing.
//
// The clients of Argo CD, go-git and the forges are linked here and nowhere below, so that
// whoever runs the service around a simulated world does without them.
package cluster
