package trace

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	proto "go.opentelemetry.io/proto/otlp/trace/v1"
	protobuf "google.golang.org/protobuf/proto"
)

// TestSpanLimits: labels of alerts come from outside; whatever they hold, a trace can be
// sent and stays small.
func TestSpanLimits(t *testing.T) {
	s := span{&proto.Span{}}
	s.set(attrAlert, "\xff"+strings.Repeat("é", 1000))
	for range mostEvents + 2 {
		s.happened("decision.ignored", time.Unix(1, 0), attrBy, "user:ada")
	}
	s.link("r-2", "diverted_into")
	value := s.Attributes[0].GetValue().GetStringValue()
	if len([]rune(value)) != mostText || len(s.Events) != mostEvents || s.DroppedEventsCount != 2 || hex.EncodeToString(s.Links[0].TraceId) != ID("r-2") {
		t.Errorf("it is %v", s)
	}
	if _, err := protobuf.Marshal(s.Span); err != nil {
		t.Error(err)
	}
}
