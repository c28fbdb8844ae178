// Package service holds the steps on a service as a whole, whoever owns its parts:
// the check service.changes, which asks the cluster and Git what changed and weighs
// it against the load, and the lever service.rollback, which goes back through the
// owner of the pod template.
package service
