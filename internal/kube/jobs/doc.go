// Package jobs holds the templates of Kubernetes Jobs that the platform team lets
// playbooks run: the list jobs of responder.yaml, and the manifest of each entry.
//
// From the bottom up:
//
//   - declaration.go is an entry of the list, with its checks;
//   - parameter.go checks the values of parameters;
//   - manifest.go reads a manifest, and guarded.go refuses what it may not ask for;
//   - fill.go makes the Job of a template and values.
//
// Invariants:
//
//   - A value stands whole: for the value of an environment variable, or for one
//     element of args that no shell or interpreter reads as a program. It never
//     becomes a part of a text, and never reaches another field.
//   - A Job has a deadline, is not repeated unless the manifest says so, and goes
//     away some time after its end.
//
// A [Set] is immutable and safe for concurrent use. Only [Open] reads files.
package jobs
