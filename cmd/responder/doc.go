// Command responder is the one binary of the project: the service, the
// simulated one, and the command line for people. This directory holds main
// alone, which turns a process into a call of [cli.Run].
//
// From the bottom up:
//
//   - internal/cli is the tree of commands, one file each. It alone knows flags
//     and environment. internal/cli/client asks a running service,
//     internal/cli/demo plays an incident, internal/cli/dryrun walks an alert.
//   - internal/config turns responder.yaml into checked options.
//   - internal/app builds the service from those options, starts its parts and
//     stops them together. [app.World] is what differs between a cluster and the
//     sandbox.
//   - internal/notify passes messages to channels, one package each below it, and
//     follows the journal for them. internal/notify/slack/approvals shows runs in
//     Slack and accepts decisions there.
//   - internal/runview turns runs and events into words, tables and pictures, for
//     the command line, the page, Slack and the demo alike.
//
// Who may import whom is the table of imports_test.go.
package main
