//go:build e2e

// Package rig starts the real servers the end-to-end tests run against, on this
// machine and without containers: a Kubernetes control plane with KWOK nodes,
// Prometheus, a pair of Alertmanagers, Argo CD, a git server, and the responder
// itself.
//
// Only the accelerators are simulated. A [Fleet] watches the pods of a real
// Deployment and serves the metrics their engines would have, so that a rollout,
// an undo or a change of replicas shows in Prometheus as it would in a cluster:
// what repairs the workload repairs the SLO.
//
// Every server listens on a loopback port chosen at start, keeps its files and
// its log in a directory of the test, and is stopped by its process id. The
// directory of a failed test is kept and named in the test's output. The
// control plane is expensive (6 to 15 s) and so is Argo CD, so the tests of a
// package share one of each: see [Main], [Shared], [SharedArgoCD],
// [ControlPlane.Namespace] and [ArgoCD.Application]. A test that needs a shared
// server to be away has its clients come in by a [Proxy] of its own.
//
// The binaries come from build.sh and packages.sh next to this file.
package rig
