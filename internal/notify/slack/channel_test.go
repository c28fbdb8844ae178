package slack

import (
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/notify"
	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
)

// A message that belongs to no run, such as a weekly report, is there once, also when the
// service ended before it could record that Slack took it. It leads to the first page.
func TestNoticeOfNoRunIsPostedOnce(t *testing.T) {
	s, c := workspace(t, slacktest.Options{})
	n := notify.Notice{Key: "report/weekly/2026-11-23T08:00:00Z", Text: "Responder weekly\nNo incident. <!channel>", At: time.Now()}
	for range 2 { // two services, one after the other
		told := (&Workspace{Client: c}).NoticeChannel(ChannelConfig{Channel: channel}, "https://responder.example")
		if err := told.Tell(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	all := s.Messages(channel)
	if len(all) != 1 {
		t.Fatalf("%d messages", len(all))
	}
	texts := strings.Join(slacktest.Texts(all[0].Blocks), "\n")
	if !strings.Contains(texts, "Responder weekly\nNo incident.") || !strings.Contains(texts, "<https://responder.example|Open Responder>") || strings.Contains(texts, "<!channel>") {
		t.Errorf("it is\n%s", texts)
	}
	n.Key = "report/weekly/2026-11-30T08:00:00Z"
	if err := (&Workspace{Client: c}).NoticeChannel(ChannelConfig{Channel: channel}, "").Tell(t.Context(), n); err != nil || len(s.Messages(channel)) != 2 {
		t.Errorf("the next report is not there: %v", err)
	}
}
