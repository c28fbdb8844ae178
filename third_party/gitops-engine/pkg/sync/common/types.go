// Package common has the words for sync operations and their results.
package common

// AnnotationDeletionApproved marks a resource whose deletion a person approved.
const AnnotationDeletionApproved = "argocd.argoproj.io/deletion-approved"

// OperationPhase is how far an operation is.
type OperationPhase string

// The phases, from Argo CD's API.
const (
	OperationRunning     OperationPhase = "Running"
	OperationTerminating OperationPhase = "Terminating"
	OperationFailed      OperationPhase = "Failed"
	OperationError       OperationPhase = "Error"
	OperationSucceeded   OperationPhase = "Succeeded"
)

// Completed reports whether the operation is over, well or not.
func (p OperationPhase) Completed() bool {
	return p == OperationFailed || p == OperationError || p == OperationSucceeded
}

// Running reports whether the operation runs.
func (p OperationPhase) Running() bool { return p == OperationRunning }

// Successful reports whether the operation is over, and well.
func (p OperationPhase) Successful() bool { return p == OperationSucceeded }

// Failed reports whether the operation failed.
func (p OperationPhase) Failed() bool { return p == OperationFailed }

// ResultCode is what became of one resource in a sync.
type ResultCode string

// The codes, from Argo CD's API.
const (
	ResultCodeSynced       ResultCode = "Synced"
	ResultCodeSyncFailed   ResultCode = "SyncFailed"
	ResultCodePruned       ResultCode = "Pruned"
	ResultCodePruneSkipped ResultCode = "PruneSkipped"
)

// SyncPhase is a phase of a sync: PreSync, Sync, PostSync, SyncFail.
type SyncPhase string

// HookType is the phase that a hook runs in, or Skip.
type HookType string
