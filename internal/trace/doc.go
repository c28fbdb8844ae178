// Package trace shows runs as OpenTelemetry traces: one trace for each run that
// has ended. The root span is the run; below it are the states that it visited,
// and below those each effect, each question to people and each hold.
//
// A trace is a projection of the journal: its spans are made from the events of a
// run, with their times, and its identifiers are derived from the run's. [ID] returns
// the identifier of a trace before it is sent. No run waits for a trace.
//
// [Exporter] follows the journal and sends the trace of each run that ends, over
// OTLP. Its position is kept in the journal's cell trace/next: what ends while
// the receiver or this service is down is sent later. The cell is written after
// the receiver took a trace, so a crash between the two sends that trace again,
// with the same identifiers.
//
// Spans hold names, numbers, reasons and who decided which way. Evidence, diffs,
// messages, comments of people and labels other than alertname are not in them.
//
// OpenTelemetry's SDK is imported by this package alone.
package trace
