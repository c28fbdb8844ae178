// Package engine describes the serving engines: which flags vLLM and SGLang
// have, what values they take, what they trade, which of them a run never
// changes, and in which series an engine exports the indicators of objectives
// ([Engine.Series]). It is a table and arithmetic over it, without I/O.
//
// An [Engine] is what a service of the catalog declares to run. It takes the
// flags of one or more programs. Each [Program] has a table. vLLM and SGLang
// are programs. Dynamo starts either of them and takes their flags besides its
// own. KServe starts vLLM. For a service with an unknown engine, [Unstated] is
// the engine: all programs, so that a flag that none of them takes is refused.
//
// # What a run never changes
//
// A run proves a change by latency, errors and traffic, on the existing pods.
// So it may change how much is admitted, batched, cached and kept. It must not
// change what such a proof does not cover: [Fixed] names the reasons, and a
// flag with a reason is refused, whatever a playbook says. A flag that is not
// in the table may be harmful: it is changed only where it is already set, or
// where a person has declared it.
//
// # Where the table comes from
//
// The sources are of the versions that [Program.Source] names; each flag names
// the file that limits it. Engines refuse unknown flags (argparse exits with 2)
// and invalid values (pydantic raises), and then no pod becomes ready. The
// table refuses the same before anything is committed. Another version may have
// more flags, or fewer: [Flag.Note] describes what changed.
//
// The package knows nothing of playbooks, manifests, runs or its callers.
package engine
