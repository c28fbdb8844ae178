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

	sdk "go.opentelemetry.io/otel/sdk/resource"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
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

// sender posts traces as OTLP over HTTP through our own bounded client, which follows no
// redirect and has no secret in its errors. OpenTelemetry's own client reads its settings
// from the environment, too, and repeats the URL and the answer in errors.
type sender struct {
	server   *endpoint.Endpoint
	headers  string // file; empty: none
	resource *resource.Resource
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
	all := map[string]string{}
	for _, kv := range sdk.Environment().Attributes() {
		all[string(kv.Key)] = kv.Value.AsString()
	}
	maps.Copy(all, c.Attributes)
	all["service.name"] = c.ServiceName
	res := &resource.Resource{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		res.Attributes = append(res.Attributes, text(name, all[name]))
	}
	return &sender{server, c.HeadersFile, res}, nil
}

// send posts the spans of a trace. The error is a [*fault.Error].
func (s *sender) send(ctx context.Context, spans []span) error {
	for part := range slices.Chunk(spans, batch) {
		scope := &proto.ScopeSpans{Scope: &common.InstrumentationScope{Name: "github.com/inference-responder/responder"}}
		for _, sp := range part {
			scope.Spans = append(scope.Spans, sp.Span)
		}
		if err := s.post(ctx, &proto.ResourceSpans{Resource: s.resource, ScopeSpans: []*proto.ScopeSpans{scope}}); err != nil {
			return err
		}
	}
	return nil
}

func (s *sender) post(ctx context.Context, spans *proto.ResourceSpans) error {
	// TracesData and the request of the protocol are the same on the wire, and only
	// the request's package brings gRPC's gateway.
	body, err := protobuf.Marshal(&proto.TracesData{ResourceSpans: []*proto.ResourceSpans{spans}})
	if err != nil {
		return endpoint.Invalid("encode spans: %v", err)
	}
	h, err := headers(s.headers)
	if err != nil {
		return err
	}
	answer, err := s.server.Do(ctx, endpoint.Request{
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
			Message: fmt.Sprintf("%s at %s refused %d spans of a request that it took; see its log", receiverName, s.server.Where(), n),
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
