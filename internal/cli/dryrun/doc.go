// Package dryrun walks alerts through the service's own receiver, playbooks,
// guards and levers around a world that refuses every change, and reports what
// the service would do.
package dryrun
