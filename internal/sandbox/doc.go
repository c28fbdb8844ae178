// Package sandbox is a simulated inference cluster for demos, rehearsals and
// tests: Deployments with revisions and rolling updates, pods that take time to
// load their model, nodes, and engines that serve single requests as package
// physics says: with the options of their pod template, under the load that their
// service gets. Undoing a bad rollout, adding replicas or changing an option repairs
// the service objective for the reason it does in production, or does not.
//
// A [World] stands behind the interfaces of package step: it answers PromQL with
// Prometheus' own engine over the series a Prometheus would have scraped every
// 15 seconds, reads and changes workloads under the API server's preconditions,
// and evaluates the burn-rate rules, whose state becomes Alertmanager's webhook
// body.
//
// A service may be in Git ([World.Git]): levers commit to a repository in memory, with
// the editor of real ones, and a simulated Argo CD deploys what they committed.
//
// Its engines answer requests for completions, too ([World.RoundTrip]): with the same
// tokens each time, or with others where a release or a replica is wrong.
//
// Time is the [Clock]'s. The world is advanced lazily: whoever asks first lets
// the time up to now pass, in steps of fixed length and at fixed moments, so that
// what the series hold does not depend on who asked when. Everything that looks
// random is a hash of the scenario's seed and the time since the world began.
package sandbox
