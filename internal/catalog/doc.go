// Package catalog holds the services: configured ones and those that the
// cluster's labels and annotations declare. It finds the service of an alert,
// and reports why there is none or more than one. An alert that names only a
// node belongs to the service with most GPUs there.
//
// The package knows nothing of playbooks or runs. A [Catalog] is safe for
// concurrent use. One goroutine ([Catalog.Run]) refreshes the discovered
// services and keeps the last good answer of the cluster when a refresh fails.
package catalog
