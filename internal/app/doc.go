// Package app builds the service from its configuration, starts its parts and
// stops them together.
//
// A [World] is what a service watches and acts on: package cluster makes one from a
// configuration, [OpenSandbox] a simulated one. [New] builds the journal, the
// playbooks, the executor and the receiver around a world; [Service.Run] runs them
// until one fails or the context ends. The adapters between the parts are here,
// because no part knows another's types: the receiver's view of the executor
// (adapters.go), the channels of the configuration (channels.go), Slack
// (slack.go), metrics (projection.go, metrics.go) and the page (pages.go).
//
// Only the command line imports it.
package app
