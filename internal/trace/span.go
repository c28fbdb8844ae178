package trace

import (
	"cmp"
	"strings"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	proto "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/inference-responder/responder/internal/fault"
)

const (
	spanFlags  = 1 | uint32(proto.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK) // the flags of spans and links
	mostText   = 256                                                               // characters of a value
	mostEvents = 256                                                               // of a span; of more, the oldest are dropped
)

// span adds to a span of OTLP. No span ends before it starts, nor outside its parent.
type span struct{ *proto.Span }

// set adds an attribute, or replaces the one of that name. An empty text adds
// nothing.
func (s span) set(name, value string) {
	if value != "" {
		s.put(text(name, value))
	}
}

func (s span) count(name string, n int) {
	s.put(&common.KeyValue{Key: name, Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: int64(n)}}})
}

func (s span) put(kv *common.KeyValue) {
	for i := range s.Attributes {
		if s.Attributes[i].GetKey() == kv.GetKey() {
			s.Attributes[i] = kv
			return
		}
	}
	s.Attributes = append(s.Attributes, kv)
}

// fail sets the span's status to Error. Its message is the reason, else the given text.
func (s span) fail(reason fault.Reason, otherwise string) {
	s.Status = &proto.Status{Code: proto.Status_STATUS_CODE_ERROR, Message: cmp.Or(string(reason), otherwise)}
}

// link adds a link to the root span of another run, which is diverted_from or
// diverted_into.
func (s span) link(run, relation string) {
	s.Links = append(s.Links, &proto.Span_Link{
		TraceId: traceOf(run), SpanId: spanOf(run, rootKey), Flags: spanFlags, Attributes: []*common.KeyValue{text("responder.relation", relation)},
	})
}

// happened adds an event. Its attributes come as pairs of names and values; empty
// values are left out.
func (s span) happened(name string, at time.Time, pairs ...string) {
	e := &proto.Span_Event{Name: name, TimeUnixNano: nanos(at)}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			e.Attributes = append(e.Attributes, text(pairs[i], pairs[i+1]))
		}
	}
	if s.Events = append(s.Events, e); len(s.Events) > mostEvents {
		s.Events = s.Events[1:]
		s.DroppedEventsCount++
	}
}

// text returns an attribute whose value is cut to mostText.
func text(name, value string) *common.KeyValue {
	r := []rune(strings.ToValidUTF8(value, "\uFFFD"))
	return &common.KeyValue{Key: name, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: string(r[:min(len(r), mostText)])}}}
}

func nanos(t time.Time) uint64 { return uint64(max(0, t.UnixNano())) } //nolint:gosec // not negative
