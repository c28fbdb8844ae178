// Package diff stands in for the engine's.
package diff

// KubeApplier applies resources on a cluster. A client has none.
type KubeApplier interface{}
