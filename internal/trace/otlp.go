package trace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"unicode"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	proto "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/outbound/endpoint"
)

const (
	receiverName = "receiver of traces" // for messages
	batch        = 512                  // spans of one request
	maxHeaders   = 16 << 10             // bytes of the file of headers
)

// sender turns spans into OTLP with the SDK and posts them. One goroutine uses it.
type sender struct {
	ids      *ids
	recorder *recorder
	provider *sdk.TracerProvider
	otlp     *otlptrace.Exporter
}

// newSender reads the files that the configuration names, and connects nowhere.
func newSender(c Config) (*sender, error) {
	server, err := endpoint.New(receiverName, c.Endpoint, c.CAFile, 0)
	if err != nil {
		return nil, err
	}
	if _, err := headers(c.HeadersFile); err != nil {
		return nil, err
	}
	res := []attribute.KeyValue{attribute.String("service.name", c.ServiceName)}
	for _, name := range slices.Sorted(maps.Keys(c.Attributes)) {
		res = append(res, attribute.String(name, c.Attributes[name]))
	}
	s := &sender{ids: &ids{}, recorder: &recorder{}}
	s.provider = sdk.NewTracerProvider(
		sdk.WithResource(resource.NewSchemaless(res...)),
		sdk.WithIDGenerator(s.ids),
		sdk.WithSampler(sdk.AlwaysSample()),
		sdk.WithSpanProcessor(s.recorder),
		sdk.WithRawSpanLimits(sdk.SpanLimits{
			AttributeValueLengthLimit: 256, AttributeCountLimit: 64, EventCountLimit: 256, LinkCountLimit: 16,
			AttributePerEventCountLimit: 16, AttributePerLinkCountLimit: 16,
		}),
	)
	s.otlp = otlptrace.NewUnstarted(client{server, c.HeadersFile})
	return s, nil
}

// send posts the trace of a run. The error wraps a [*fault.Error].
func (s *sender) send(ctx context.Context, run string, spans []span) error {
	ended := s.record(ctx, run, spans)
	for part := range slices.Chunk(ended, batch) {
		if err := s.otlp.ExportSpans(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// record makes the SDK's spans.
func (s *sender) record(ctx context.Context, run string, spans []span) []sdk.ReadOnlySpan {
	tracer := s.provider.Tracer("github.com/inference-responder/responder")
	s.ids.trace = traceOf(run)
	for _, sp := range spans {
		s.ids.span = sp.ID
		parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: s.ids.trace, SpanID: sp.Parent, TraceFlags: trace.FlagsSampled})
		options := []trace.SpanStartOption{trace.WithTimestamp(sp.Start), trace.WithAttributes(sp.Attributes...)}
		for _, l := range sp.Links {
			options = append(options, trace.WithLinks(trace.Link{
				SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceOf(l.Run), SpanID: spanOf(l.Run, rootKey), TraceFlags: trace.FlagsSampled}),
				Attributes:  []attribute.KeyValue{attribute.String(attrRelation, l.Relation)},
			}))
		}
		_, span := tracer.Start(trace.ContextWithSpanContext(ctx, parent), sp.Name, options...)
		for _, e := range sp.Events {
			span.AddEvent(e.Name, trace.WithTimestamp(e.At), trace.WithAttributes(e.Attributes...))
		}
		if sp.Failed != "" {
			span.SetStatus(codes.Error, sp.Failed)
		}
		span.End(trace.WithTimestamp(sp.End))
	}
	return s.recorder.take()
}

// ids is the SDK's source of identifiers: those of the span that is recorded.
type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

// NewIDs implements [sdk.IDGenerator].
func (i *ids) NewIDs(context.Context) (trace.TraceID, trace.SpanID) { return i.trace, i.span }

// NewSpanID implements [sdk.IDGenerator].
func (i *ids) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return i.span }

// recorder keeps the spans that ended.
type recorder struct{ ended []sdk.ReadOnlySpan }

func (r *recorder) take() []sdk.ReadOnlySpan {
	ended := r.ended
	r.ended = nil
	return ended
}

// OnStart implements [sdk.SpanProcessor].
func (*recorder) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements [sdk.SpanProcessor].
func (r *recorder) OnEnd(s sdk.ReadOnlySpan) { r.ended = append(r.ended, s) }

// Shutdown implements [sdk.SpanProcessor].
func (*recorder) Shutdown(context.Context) error { return nil }

// ForceFlush implements [sdk.SpanProcessor].
func (*recorder) ForceFlush(context.Context) error { return nil }

// client posts OTLP over HTTP through our own bounded client, which follows no
// redirect and has no secret in its errors. OpenTelemetry's own client reads its
// settings from the environment, too, and repeats the URL and the answer in errors.
type client struct {
	server  *endpoint.Endpoint
	headers string // file; empty: none
}

// Start implements [otlptrace.Client].
func (client) Start(context.Context) error { return nil }

// Stop implements [otlptrace.Client].
func (client) Stop(context.Context) error { return nil }

// UploadTraces implements [otlptrace.Client].
func (c client) UploadTraces(ctx context.Context, spans []*proto.ResourceSpans) error {
	// TracesData and the request of the protocol are the same on the wire, and only
	// the request's package brings gRPC's gateway.
	body, err := protobuf.Marshal(&proto.TracesData{ResourceSpans: spans})
	if err != nil {
		return endpoint.Invalid("encode spans: %v", err)
	}
	h, err := headers(c.headers)
	if err != nil {
		return err
	}
	answer, err := c.server.Do(ctx, endpoint.Request{
		Method: http.MethodPost, ContentType: "application/x-protobuf", Body: body, Header: h, Secrets: secrets(h), MaxAnswer: endpoint.MaxAnswer,
	})
	if errors.As(err, new(endpoint.Accepted)) {
		return nil // it took the spans, and only its answer cannot be read
	}
	if err != nil {
		return err
	}
	if n := rejected(answer); n > 0 {
		return &fault.Error{
			Reason: fault.Invalid, Status: http.StatusOK,
			Message: fmt.Sprintf("%s at %s refused %d spans of a request that it took; see its log", receiverName, c.server.Where(), n),
		}
	}
	return nil
}

// secrets are the values of headers, and what follows the scheme of a credential.
func secrets(h map[string]string) []string {
	var all []string
	for _, v := range h {
		all = append(all, v)
		if _, secret, ok := strings.Cut(v, " "); ok && secret != "" {
			all = append(all, secret)
		}
	}
	return all
}

// rejected returns how many spans an answer (ExportTraceServiceResponse) refuses:
// field 1 of its field 1. An answer that cannot be read refuses none.
func rejected(answer []byte) int64 {
	n, _ := protowire.ConsumeVarint(field(field(answer, protowire.BytesType), protowire.VarintType))
	return int64(min(n, 1<<31)) //nolint:gosec // bounded
}

// field returns the value of field 1 of a message; nil: it has none of that type.
func field(message []byte, t protowire.Type) []byte {
	for len(message) > 0 {
		num, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil
		}
		size := protowire.ConsumeFieldValue(num, typ, message[n:])
		if size < 0 {
			return nil
		}
		value := message[n : n+size]
		message = message[n+size:]
		if num != 1 || typ != t {
			continue
		}
		if t == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		return value
	}
	return nil
}

// headers reads the file of headers. An error names the line, not what it says.
func headers(file string) (map[string]string, error) {
	if file == "" {
		return nil, nil
	}
	unread := func(err error) error {
		return &fault.Error{Reason: fault.Forbidden, Message: "the file of headers cannot be read", Err: err}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, unread(err)
	}
	if len(data) > maxHeaders {
		return nil, unread(fmt.Errorf("%s has more than %d bytes", file, maxHeaders))
	}
	out := map[string]string{}
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); !ok || !headerName(name) || value == "" || strings.ContainsFunc(value, unicode.IsControl) {
			return nil, unread(fmt.Errorf("%s:%d: not a header; write NAME: VALUE", file, i+1))
		}
		out[name] = value
	}
	if len(out) == 0 {
		return nil, unread(fmt.Errorf("%s has no header; write NAME: VALUE, or leave headers_file out", file))
	}
	return out, nil
}

func headerName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}
