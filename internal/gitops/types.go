package gitops

import "time"

// Source is where a service's manifests are kept.
type Source struct {
	Repository string // URL without credentials: https, ssh or file
	Branch     string // empty: the remote's default branch
	Path       string // directory or file below the repository's root, slash-separated; empty: all of it

	// Values are Helm value files that it is built of too, from the repository's root. Of
	// a HelmRelease of Flux it is the directory of its chart.
	Values []string
}

// Target names the workload that a variable belongs to, as the cluster knows it.
type Target struct {
	Kind      string // Deployment, StatefulSet, ...
	Namespace string
	Name      string
	Container string // the engine's container; empty: the only one that sets the flag, or that runs an engine
	Component string // of a graph or a set: decode, prefill, leader, worker, a service's name; empty: that of Workload, else the only one
	Workload  string // name of the workload that a controller makes of the object; empty: it is the object itself, or not known

	// Path is the source's path: the kustomization, chart or directory that is
	// deployed. What is built elsewhere in the tree does not count, but is not
	// changed along either. Empty: everything in the tree counts.
	Path       string
	ValueFiles []string // of the Helm source, in order, from the repository's root; empty: the only ones below Path
	Release    string   // of the Helm source; empty: not known

	// HelmRelease is that of Flux that makes the target, namespace/name: its manifest holds
	// the values, and ValueFiles is the directory of its chart, if the repository has it.
	// Empty: none does. Listed says that Flux lists the target as made by it.
	HelmRelease string
	Listed      bool

	// Written are the documents that the HelmRelease is built of, as FILE:NAME with the name
	// that it has there. A reading of the tree fills it in.
	Written []string
}

// Variable is the one thing that an edit changes: a flag of the engine, or the
// number of replicas (or the bound of the autoscaler that owns it).
type Variable struct {
	Flag     string // without leading dashes, as the engine documents it: max-num-seqs; in capitals: an environment variable
	Switch   bool   // the flag has no --no- form: being there is true, and false is to remove it
	Replicas bool   // Flag is then empty
	Bound    string // of an autoscaler that owns the replicas: "min" (or empty) or "max"
}

// File is one file of the tree at a commit.
type File struct {
	Path string // slash-separated, from the repository's root
	Data []byte
}

// Place is where a variable is written, or would be added.
type Place struct {
	File      string // path from the repository's root
	Document  int    // of the YAML stream, from 0
	Line      int    // of the value, from 1
	Column    int    // in bytes, from 1
	Object    string // kind namespace/name of the manifest, or the role of the file: "helm values", "kustomize patch"
	Kind      string // of the object that is made of it; empty: a chart decides
	Name      string
	Path      string // for people: spec.template.spec.containers[vllm].args[--max-num-seqs]
	Form      string // how it is written: "--flag=value", "--flag value", "boolean", "shell", "env", "config", "field", "values"
	Container string // that the variable belongs to; empty: none
	Engine    string // that the container runs: vllm, sglang, trtllm, ...; empty: not known
	Value     string // as written, unquoted; "true"/"false" for booleans; of a missing one what is rendered without it, or empty
	Missing   bool   // not set yet: Set adds it there, in the list's own style
	Unknown   string // of a missing one: why it may be set all the same; empty: it certainly is not
	Why       string // why this place takes effect, in words
}

// Edit is a change of one or more files that is one variable.
type Edit struct {
	Place Place
	From  string   // empty: it was not set
	To    string   // empty: it was taken away
	More  []Change // further assignments of [SetAll], in their order
	Files []File   // new contents of the files that change
	Old   []File   // what stood in them, in the same order

	// Rendered describes what changes in what a Helm chart renders.
	Rendered []string // of the target, one field each

	// Unbuilt tells why the kustomization or chart, or a part of it, could not be built
	// and compared. Empty: it was, or there is none.
	Unbuilt string
}

// Change is one assignment that an edit makes.
type Change struct {
	Place Place
	From  string // empty: it was not set
	To    string
}

// Person wrote or committed something.
type Person struct {
	Name  string
	Email string
}

// Commit is one commit of a branch.
type Commit struct {
	SHA      string // 40 hexadecimal digits
	Parents  []string
	Author   Person
	At       time.Time // committer's time
	Subject  string
	Trailers map[string]string // the last one of a name counts; whoever pushes can write them
	Ours     bool              // it is by Responder, as the caller knows; set by no package of gitops
	Files    []string          // paths that changed against the first parent
	Reverts  []string          // commits that its message says it reverts
}

// Trailers of our commits. The effect is the idempotency key of the write: a
// commit that carries it is the write, whoever's answer was lost.
const (
	TrailerRun    = "Responder-Run"
	TrailerState  = "Responder-State"
	TrailerPlan   = "Responder-Plan"
	TrailerEffect = "Responder-Effect"
	TrailerDrift  = "Responder-Beside" // which part of the drift in the plan still existed; for a caller that lost the receipt
)
