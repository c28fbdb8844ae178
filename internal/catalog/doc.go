// Package catalog knows the services: the configured ones and those that the
// cluster's own labels and annotations declare. It answers which service an
// alert is about, and says why when there is none or more than one. An alert that names
// only a node is about the service with most GPUs there.
//
// It knows nothing of playbooks or runs. A [Catalog] is safe for concurrent
// use; one goroutine ([Catalog.Run]) refreshes what was discovered and keeps
// the last good answer of the cluster when a refresh fails.
package catalog
