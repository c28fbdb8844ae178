package slack

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
)

// TestKnownSignature is the example of Slack's documentation.
func TestKnownSignature(t *testing.T) {
	body := "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
	h := http.Header{}
	h.Set("X-Slack-Request-Timestamp", "1531420618")
	h.Set("X-Slack-Signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503")
	secret := NewSecret("8f742231b10e8888abcd99yyyzzz85a5")
	at := time.Unix(1531420618, 0)
	for _, age := range []time.Duration{-window, 0, window} {
		s, err := signatureOf(h, at.Add(age))
		if err != nil || !s.at.Equal(at) {
			t.Fatalf("%s: %v", age, err)
		}
		if _, err := s.verify(secret, []byte(body)); err != nil {
			t.Errorf("%s: %v", age, err)
		}
		if _, err := s.verify(secret, []byte(body+"&")); because(err) != BadSignature {
			t.Errorf("a changed body: %v", err)
		}
		if _, err := s.verify(Secret{}, []byte(body)); because(err) != BadSignature {
			t.Errorf("without a secret: %v", err)
		}
	}
}

func TestSeen(t *testing.T) {
	s := seen[string]{max: 2}
	at := epoch()
	check := func(key string, now time.Time, first, full bool) {
		t.Helper()
		if f, l := s.first(key, now.Add(window), now); f != first || l != full {
			t.Errorf("%s: first %t, full %t", key, f, l)
		}
	}
	check("a", at, true, false)
	check("a", at, false, false)
	check("b", at, true, false)
	check("c", at, false, true) // full: unknown, rather than forgetting one
	check("a", at.Add(window), true, false)
	check("c", at.Add(window), true, false)
	s.forget("c")
	check("c", at.Add(window), true, false)
}

// FuzzInteraction: whatever a body holds, nothing panics, and what is accepted
// is well-formed.
func FuzzInteraction(f *testing.F) {
	const button = `{"type":"block_actions","api_app_id":"A0APP00001","team":{"id":"T0TEAM0001"},"user":{"id":"U0ADA00001"},"container":{"message_ts":"1.2","channel_id":"C0ONCALL01"},"actions":[{"action_id":"responder.approve","type":"button","value":"g_3f9a2b7c","action_ts":"1777892400.1"}]}`
	const dialog = `{"type":"view_submission","user":{"id":"U0ADA00001"},"view":{"id":"V1","callback_id":"responder.deny-submitted","private_metadata":"{\"id\":\"g_3f9a2b7c\"}","state":{"values":{"reason":{"responder.reason":{"value":"because"}}}}}}`
	for _, p := range []string{button, dialog, `{"type":"view_closed"}`, `{}`, `[]`, `null`, `{"a":1,"A":2}`, strings.Repeat(`{"a":`, 100)} {
		f.Add([]byte("payload=" + url.QueryEscape(p)))
	}
	f.Add([]byte("payload=x;payload=y&%zz"))
	h := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	kinds := []Kind{KindApprove, KindDeny, KindReplan, KindDetails, KindBreakGlass, KindDenySubmitted, KindBreakGlassSubmitted}
	f.Fuzz(func(t *testing.T, body []byte) {
		raw, err := form(h, body)
		if err != nil {
			if because(err) != Malformed {
				t.Errorf("form: %v", err)
			}
			return
		}
		_, c, err := parse(raw)
		if err != nil {
			if because(err) == "" && !errors.Is(err, errNothing) && !errors.Is(err, errNoReason) {
				t.Errorf("an error of no kind: %v", err)
			}
			return
		}
		if !slices.Contains(kinds, c.Kind) || !opaque.MatchString(c.ID) || !slackID.MatchString(c.UserID) || c.Page < 0 || c.Page > maxPages {
			t.Errorf("taken: %+v", c)
		}
		submitted := c.Kind == KindDenySubmitted || c.Kind == KindBreakGlassSubmitted
		if submitted != (c.Reason != "") || c.Reason != visible(c.Reason) {
			t.Errorf("%s with reason %q", c.Kind, c.Reason)
		}
	})
}

// FuzzText: no text escapes its context.
func FuzzText(f *testing.F) {
	f.Add(hostile, 40)
	f.Add("a&b<c>d", 5)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(1, limit%4000)
		for _, got := range []string{line(s, limit), paragraph(s, limit), literal(s, limit)} {
			if strings.ContainsAny(got, "<>\x00\x1b\r\u202e") || size(got) > limit {
				t.Errorf("%q of at most %d gives %q", s, limit, got)
			}
		}
		m := Notice{Title: s, Text: s, Lines: []string{s}}.Message()
		if p := slacktest.ValidateMessage(m.text, blocksOf(t, m)); p != nil {
			t.Error(p)
		}
	})
}

// FuzzSignatureOf: no header is too odd, and one that is taken has one number within five
// minutes and one signature of the right length.
func FuzzSignatureOf(f *testing.F) {
	now := time.Unix(1531420618, 0)
	f.Add("1531420618", "v0="+strings.Repeat("ab", 32), "")
	f.Add("-9223372036854775808", "v0=", "x")
	f.Add("9223372036854775807", "v1="+strings.Repeat("ab", 32), "")
	f.Fuzz(func(t *testing.T, stamp, signature, second string) {
		h := http.Header{"X-Slack-Request-Timestamp": {stamp}, "X-Slack-Signature": {signature}}
		if second != "" {
			h.Add("X-Slack-Signature", second)
		}
		if _, err := signatureOf(h, now); err != nil {
			return
		}
		seconds, err := strconv.ParseInt(stamp, 10, 64)
		if age := now.Sub(time.Unix(seconds, 0)).Abs(); err != nil || age > 5*time.Minute || len(signature) != 67 || second != "" {
			t.Errorf("%q with %q, %q is taken", stamp, signature, second)
		}
	})
}
