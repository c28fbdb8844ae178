// Command responder is the one binary of the project: the service, the
// simulated one, and the command line for people. It holds flags, environment,
// signals and wiring, and nothing else of the house.
//
// From the bottom up:
//
//   - main.go turns a process into a call of run, and an error into an exit code.
//   - root.go and commands.go are the tree of commands; each command is one
//     file named after it, and prints data through output.go.
//   - config.go is responder.yaml, read by strict.go.
//   - world.go is what differs between a cluster and the sandbox: cluster.go
//     makes one from a configuration, sandbox.go the other.
//   - service.go builds journal, playbooks, executor and receiver around a
//     world; they start and stop together. serve and demo run it over HTTP,
//     dry-run feeds it one notification and forbids it every change.
//   - policy*.go check, test and explain the rules over all playbooks; they need
//     no running service.
//   - adapters.go is how the receiver reaches journal and executor; pages.go is
//     how the page does, in the words of render_*.
//   - channels*.go, feed.go and silencer.go tell other systems; slack*.go puts
//     the desk between runs and Slack.
//   - projection.go and metrics.go turn the journal into metrics.
//   - client.go is how the commands for people ask a running service; render_*
//     turn runs and events into text.
package main
