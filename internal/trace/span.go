package trace

import (
	"cmp"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/inference-responder/responder/internal/fault"
)

// Span is one span of a trace.
type Span struct {
	ID     trace.SpanID
	Parent trace.SpanID // not valid: it is the root
	Name   string       // of few values: the kind of thing, never an identifier
	Start  time.Time
	End    time.Time // never before Start, nor outside the parent

	Attributes []attribute.KeyValue
	Events     []Event
	Links      []Link

	// Failed is why it ended in an error: a [fault.Reason], else the outcome of the
	// run. Empty: it did not.
	Failed string
}

// Event is a moment of a span.
type Event struct {
	Name       string
	At         time.Time
	Attributes []attribute.KeyValue
}

// Link leads from a run to another one's root span.
type Link struct {
	Trace    trace.TraceID
	Span     trace.SpanID
	Relation string // diverted_from or diverted_into
}

// set adds an attribute, in the place of an earlier one of the same name. An
// empty text adds nothing.
func (s *Span) set(name, value string) {
	if value != "" {
		s.put(attribute.String(name, value))
	}
}

func (s *Span) count(name string, n int) { s.put(attribute.Int(name, n)) }

func (s *Span) put(kv attribute.KeyValue) {
	for i := range s.Attributes {
		if s.Attributes[i].Key == kv.Key {
			s.Attributes[i] = kv
			return
		}
	}
	s.Attributes = append(s.Attributes, kv)
}

// fail marks the span as failed, for a reason if one is known.
func (s *Span) fail(reason fault.Reason, otherwise string) {
	s.Failed = cmp.Or(string(reason), otherwise)
}

// happened records a moment. Names and values come in pairs; empty values are left out.
func (s *Span) happened(name string, at time.Time, pairs ...string) {
	e := Event{Name: name, At: at}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			e.Attributes = append(e.Attributes, attribute.String(pairs[i], pairs[i+1]))
		}
	}
	s.Events = append(s.Events, e)
}
