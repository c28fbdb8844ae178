// Package podresources asks the kubelet which pods hold which GPUs, through its
// pod-resources API (v1, List), and adds them to [gpu.Snapshot] values. Only the
// node agent uses it.
//
// The kubelet answers on a socket of the host that belongs to root. It may be gone
// for a while, or hang. One goroutine asks, with a limit, and snapshots use the
// last answer. Without a good answer the pods are unknown. That does not affect
// the GPUs' health: any pod of the node may then hold any of them.
//
// NVIDIA's device plugin names devices by their UUID, GPU-… or MIG-…. A device
// that is shared in time or by MPS appears once per share, as UUID::N. A GPU that
// is allocated under another name (another plugin, or a dynamic resource claim)
// may be any GPU, so the pods are unknown then.
package podresources
