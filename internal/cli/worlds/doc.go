// Package worlds plays scenario files: a simulated fleet, something that goes wrong in
// it, and what the playbooks have to make of it. The rules that fire the alert, the
// receiver, the executor, the checks and the levers are the real ones; the cluster and
// its Prometheus are package sandbox's.
//
// scenario.go reads a file, play.go plays it, report.go tells what the runs did, judge.go
// compares that with what the file wants.
//
// A whole service runs in the bubble of [testing/synctest]: its time stands still while
// anybody works, and jumps to the next timer when all wait. So hours take seconds, and
// the same file and seed have the same result on every machine. Nothing in the bubble
// may wait for something outside of it.
package worlds
