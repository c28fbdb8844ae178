// Package demo plays one incident from alert to verified fix: the cluster is
// simulated, the receiver, the playbooks, the executor and the journal are the
// real ones.
package demo
