// Package podresources asks the kubelet which pods hold which GPUs, through its
// pod-resources API (v1, List), and writes that into [gpu.Snapshot] values. Only
// the node agent uses it.
//
// The kubelet answers on a socket of the host that belongs to root. It may be
// gone for a while, or hang: a goroutine asks, with a limit, and who makes a
// snapshot looks at the last answer. Without a good answer the pods are unknown,
// which says nothing about the GPUs' health: any pod of the node may hold any of
// them then.
//
// NVIDIA's device plugin names devices by their UUID, GPU-… or MIG-…; one that
// is shared in time or by MPS stands there once for each share, as UUID::N. A
// GPU that is given out by another name (another plugin, or a dynamic resource
// claim) may be any, so nothing is known then.
package podresources
