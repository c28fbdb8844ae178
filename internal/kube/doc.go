// Package kube reads Kubernetes workloads, what happened to them and who owns
// their fields, and changes them under preconditions.
//
// Only [Client.Scale] and [Client.Undo] write workloads, each in one request that also
// records who changed what ([EffectManager]; the annotations [AnnotationRun] and
// [AnnotationEffect]), on condition that the object is still the one, and the
// generation, the change was planned on. Everything that cannot be read is an
// error that names the missing permission; no answer is ever partial.
//
// The package knows nothing of playbooks or runs. Package step calls it.
package kube
