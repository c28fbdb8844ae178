package trace

import (
	"cmp"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/inference-responder/responder/internal/fault"
)

// span is one span of a trace.
type span struct {
	ID     trace.SpanID
	Parent trace.SpanID // not valid: it is the root
	Name   string       // one of few, never an identifier
	Start  time.Time
	End    time.Time // never before Start, nor outside the parent

	Attributes []attribute.KeyValue
	Events     []event
	Links      []link

	// Failed is why the span has the status Error: a [fault.Reason], else the outcome of
	// the run. Empty: it has not.
	Failed string
}

// event is a moment of a span.
type event struct {
	Name       string
	At         time.Time
	Attributes []attribute.KeyValue
}

// link leads to the root span of another run.
type link struct {
	Run      string
	Relation string // diverted_from or diverted_into
}

// set adds an attribute, or replaces the one of that name. An empty text adds
// nothing.
func (s *span) set(name, value string) {
	if value != "" {
		s.put(attribute.String(name, value))
	}
}

func (s *span) count(name string, n int) { s.put(attribute.Int(name, n)) }

func (s *span) put(kv attribute.KeyValue) {
	for i := range s.Attributes {
		if s.Attributes[i].Key == kv.Key {
			s.Attributes[i] = kv
			return
		}
	}
	s.Attributes = append(s.Attributes, kv)
}

// fail marks the span as failed, for a reason if one is known.
func (s *span) fail(reason fault.Reason, otherwise string) {
	s.Failed = cmp.Or(string(reason), otherwise)
}

// happened adds an event. Its attributes come as pairs of names and values; empty
// values are left out.
func (s *span) happened(name string, at time.Time, pairs ...string) {
	e := event{Name: name, At: at}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			e.Attributes = append(e.Attributes, attribute.String(pairs[i], pairs[i+1]))
		}
	}
	s.Events = append(s.Events, e)
}
