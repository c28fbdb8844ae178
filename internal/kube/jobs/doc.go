// Package jobs holds the templates of Kubernetes Jobs that the platform team lets
// playbooks run: the list jobs of responder.yaml, and the manifest of each entry.
//
// From the bottom up:
//
//   - declaration.go is an entry of the list, with its checks;
//   - parameter.go checks the values of parameters;
//   - manifest.go reads a manifest, guarded.go refuses what it may not ask for, and
//     program.go refuses places in which a value would be read as a program;
//   - fill.go makes the Job of a template and values.
//
// Invariants:
//
//   - A value stands whole: for the value of an environment variable, or for one
//     element of args. Neither Responder nor the kubelet makes it a part of a text,
//     and it never reaches another field.
//   - Where the manifest names a shell, an interpreter or a wrapper that is known, a
//     value comes after a fixed program. What a program of the image does with its
//     arguments and variables is for the author of the template.
//   - A Job has a deadline, is not repeated unless the manifest says so, and goes
//     away some time after its end.
//
// A [Set] is immutable and safe for concurrent use. Only [Open] reads files.
package jobs
