// Command responder is the one binary of the project: the service, the
// simulated one, and the command line for people. This directory holds main
// alone, which turns a process into a call of [cli.Run].
//
// From the bottom up:
//
//   - internal/playbook is the language: alerts, services, playbooks, conditions.
//   - internal/audit is the journal. Everything else is computed from it.
//   - internal/{kube,gitops,engine,slo,gpu} are the outside world, one subject
//     each. They know nothing of playbooks and runs.
//   - internal/step is the contract of checks and levers, with one file for each
//     in the packages below it. step/kinds is the one map from names to code.
//   - internal/executor/machine decides what a run does next. It is pure.
//     internal/policy is the rules over all playbooks. internal/rehearsal gives
//     the machine canned results, for tests of playbooks.
//   - internal/executor is the loop that owns all runs. executor/dispatch admits
//     notifications and decides which alerts start runs, executor/guard answers
//     whether a lever may be applied now, executor/ladder keeps the track record
//     of levers.
//   - internal/api is what /api/v1 and -o json answer; internal/runview turns runs
//     and events into words, tables and pictures, for the command line, the page,
//     Slack and the demo alike.
//   - internal/webhook takes alerts and serves the API, internal/web is the page.
//   - internal/notify decides who is told and follows the journal for it. Each
//     channel is a package below it: slack, pagerduty, webhook. slack/approvals
//     shows runs in Slack and accepts decisions there; alertmanager sets silences;
//     report decides when reports of a day or a week fall due.
//   - internal/catalog knows the services, internal/sandbox simulates a cluster.
//   - internal/config turns responder.yaml into checked options.
//   - internal/app builds the service from those options, starts its parts and
//     stops them together. [app.World] is what differs between a cluster and the
//     sandbox.
//   - internal/cli is the tree of commands, one file each. It alone knows flags
//     and environment. internal/cli/client asks a running service,
//     internal/cli/demo plays an incident, internal/cli/dryrun walks an alert,
//     internal/cli/doctor asks everything that an incident would.
//
// Who may import whom is the table of imports_test.go.
package main
