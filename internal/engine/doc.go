// Package engine knows the serving engines: which flags vLLM and SGLang have,
// what values they take, what they trade, and which of them a run never
// changes. It reads nothing and asks nobody: it is a table and the arithmetic
// over it.
//
// An [Engine] is what a service of the catalog says it runs. It takes the flags
// of one or more programs: a [Program] has a table. vLLM and SGLang are programs;
// Dynamo starts either of them and takes their flags beside its own, and KServe
// starts vLLM. Of a service whose engine is not known, [Unstated] is the engine:
// all programs, so that what none of them takes is refused all the same.
//
// # What a run never changes
//
// A run proves a change by latency, errors and traffic, on the pods that there
// are. So it may change how much is admitted, batched, cached and kept, and
// nothing of which such a proof says nothing: [Fixed] names the reasons, and each
// flag that has one is refused, whatever a playbook says. That a flag is not in
// the table is no reason to take it for harmless: it is changed only where it
// stands already, or where somebody has said so.
//
// # Where the table comes from
//
// The sources of the versions that [Program.Source] names; a flag says the file
// that bounds it. Engines refuse unknown flags (argparse exits with 2) and bad
// values (pydantic raises), and then no pod becomes ready: what is refused here
// is what would fail there, found before anything is committed. Another version
// may know more flags, or fewer: [Flag.Note] says what moved.
//
// Nothing here knows playbooks, manifests, runs or its callers.
package engine
