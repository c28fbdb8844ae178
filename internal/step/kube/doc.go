// Package kube holds the steps on live workloads: the checks kube.workload and
// kube.changes, and the levers kube.scale and kube.rollout_undo. A lever is refused
// where somebody else owns the field that it sets. Where Git owns the replicas,
// package step scales in Git instead.
package kube
