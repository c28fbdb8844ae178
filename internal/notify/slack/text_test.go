package slack

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
)

// TestHostileText: no text from outside mentions, links, formats or hides.
func TestHostileText(t *testing.T) {
	for name, m := range map[string]json.Marshaler{
		"approval": hostileApproval().Message(),
		"digest":   Digest{Title: hostile, Link: "javascript:alert(1)", Entries: []Entry{{ID: "g_00000001", Service: hostile, Title: hostile, Risk: hostile, Votes: hostile, State: State(hostile)}}}.Message(),
		"progress": Progress{Mark: hostile, Text: hostile, Lines: []string{hostile}, Link: "https://user:pass@evil.example"}.Message(),
		"notice":   Notice{Title: hostile, Text: hostile, Lines: []string{hostile}, Facts: []Fact{{hostile, hostile}}, Words: hostile}.Message(),
	} {
		t.Run(name, func(t *testing.T) {
			raw := encoded(t, m)
			accepted(t, raw)
			var sent slacktest.Message
			if err := json.Unmarshal(raw, &sent); err != nil {
				t.Fatal(err)
			}
			for _, mention := range sent.Mentions() {
				if !strings.HasPrefix(mention, "https://responder.example/") {
					t.Errorf("mentions or links %q", mention)
				}
			}
			for _, s := range append(slacktest.Texts(sent.Blocks), sent.Text) {
				if strings.ContainsAny(s, "\u202E\u2066\x1b") {
					t.Errorf("an invisible character is left in %q", s)
				}
				if !strings.Contains(s, "```\n") && strings.Contains(strings.ToLower(s), "@here") {
					t.Errorf("a broadcast is left in %q", s)
				}
			}
		})
	}
}

// TestFence: a value cannot end the code block of the diff.
func TestFence(t *testing.T) {
	text, _, _ := fit([]Change{{Field: "a", From: "```", To: "x\n```\n<!channel>"}}, planText, 220)
	if strings.Contains(text, "```") || strings.Contains(text, "<") {
		t.Errorf("the diff leaves its block:\n%s", text)
	}
}

// TestLimits: Slack accepts every message, whatever its input.
func TestLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.StringN(0, 40, -1),
			rapid.Custom(func(t *rapid.T) string {
				return strings.Repeat(rapid.SampledFrom([]string{"<", "&", "a", "\n", "`", "😀", "日", "@here ", "http://x ", "\u202e", "\xff"}).Draw(t, "piece"),
					rapid.SampledFrom([]int{0, 1, 30, 300, 3500}).Draw(t, "times"))
			}))
		texts := rapid.SliceOfN(text, 0, 12)
		s := func() string { return text.Draw(t, "text") }
		l := func() []string { return texts.Draw(t, "texts") }
		a := approval()
		a.Title, a.Link, a.Service, a.Environment, a.Alert, a.Playbook, a.Step = s(), "https://responder.example/"+s(), s(), s(), s(), s(), s()
		a.Evidence, a.Guards, a.Verification, a.Undo, a.Notes = l(), l(), l(), l(), l()
		a.Capacity, a.Risk, a.Expiry = s(), s(), s()
		a.Budget = &Budget{Left: rapid.Float64().Draw(t, "left"), Burn: rapid.Float64().Draw(t, "burn"), RunsOut: epoch()}
		a.Plan.Summary, a.Plan.Digest, a.Plan.Changes = s(), s(), nil
		for range rapid.IntRange(0, 12).Draw(t, "changes") {
			a.Plan.Changes = append(a.Plan.Changes, Change{Object: s(), Field: s(), From: s(), To: s()})
		}
		a.Needs = []Need{{Rule: s(), From: l(), By: l()}, {Rule: s(), From: l(), By: l(), Strong: true}}
		accepted(t, encodedRapid(t, a.Message()))
		a.Outcome = &Outcome{Who: l(), At: epoch(), Why: s(), Channel: s(), BreakGlass: true}
		a.State = State(s())
		accepted(t, encodedRapid(t, a.Message()))

		d := Details{ID: a.ID, Title: s(), Plan: a.Plan, Link: a.Link, Decide: true, Sections: []Section{{s(), l()}, {s(), l()}}}
		for page := range len(d.pages()) {
			d.Page = page
			accepted(t, encodedRapid(t, d.Modal()))
		}
		accepted(t, encodedRapid(t, Deny{ID: a.ID, Title: s()}.Modal()))
		accepted(t, encodedRapid(t, Progress{Mark: Mark(s()), Text: s(), Lines: l(), Link: a.Link}.Message()))
		n := Notice{Title: s(), Text: s(), Lines: l(), Words: s(), Link: a.Link}
		digest := Digest{Title: s(), Link: a.Link}
		for range 22 {
			x := s()
			n.Facts = append(n.Facts, Fact{x, x})
			digest.Entries = append(digest.Entries, Entry{ID: a.ID, Service: x, Title: x, Risk: x, Votes: x, State: Open, Deadline: epoch(), Link: a.Link})
		}
		accepted(t, encodedRapid(t, n.Message()))
		accepted(t, encodedRapid(t, digest.Message()))
	})
}

func encodedRapid(t *rapid.T, m any) []byte {
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDiffHidesNothing: a value that changes only by invisible characters is
// not shown as unchanged, and a value of nothing else is not shown as empty.
func TestDiffHidesNothing(t *testing.T) {
	p := Plan{Changes: []Change{{Field: "a", From: "x", To: "x\u200b"}, {Field: "b", From: "y", To: "\n"}}}
	short, _, _ := fit(p.Changes, planText, 220)
	for _, got := range []string{short, strings.Join(p.all(), "\n") + "\n"} {
		if !strings.Contains(got, "- x\n+ x\ufffd\n") || !strings.Contains(got, "- y\n+ \ufffd\n") {
			t.Errorf("%q", got)
		}
	}
}

// TestProofEndsReadably: a long query keeps what its value is compared with,
// and what comes after it.
func TestProofEndsReadably(t *testing.T) {
	query := func(op string) string {
		return "sum by (model_name) (rate(" + strings.Repeat("vllm:metric_total & ", 40) + "[5m])) " + op
	}
	for _, texts := range [][]string{
		{query("< 0.01"), "it holds for 5m, within 15m; missing data never counts"},
		{query("< 0.01"), query(">= 2.5"), "it holds for 5m, within 15m; missing data never counts"},
	} {
		got := proof(texts, 450)
		if size(got) > 450 {
			t.Errorf("%d characters", size(got))
		}
		ls := strings.Split(got, "\n")
		if len(ls) != len(texts) {
			t.Fatalf("%q", got)
		}
		for i, l := range ls {
			_, end, _ := strings.Cut(texts[i], "[5m]")
			if !strings.HasPrefix(l, "• "+texts[i][:20]) || !strings.HasSuffix(l, entities.Replace(end)) {
				t.Errorf("%q does not begin and end as %q", l, texts[i])
			}
		}
	}
	if got, want := proof([]string{"a < 1", "b > 2"}, 450), "• a &lt; 1\n• b &gt; 2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestLongPlan: a plan that does not fit is cut with a count, and the details
// show all of it.
func TestLongPlan(t *testing.T) {
	a := approval()
	a.Plan = longPlan(200)
	texts := strings.Join(slacktest.Texts(blocksOf(t, a.Message())), "\n")
	shown := strings.Count(texts, "SETTING_")
	if want := fmt.Sprintf("… %d more fields", 200-shown); shown == 0 || !strings.Contains(texts, want) {
		t.Errorf("%d fields are shown and %q is not said", shown, want)
	}
	d := Details{ID: a.ID, Title: a.Title, Plan: a.Plan}
	var all strings.Builder
	for page := range d.pages() {
		d.Page = page
		all.WriteString(strings.Join(slacktest.Texts(blocksOf(t, d.Modal())), "\n"))
	}
	for i := range 200 {
		if !strings.Contains(all.String(), fmt.Sprintf("SETTING_%03d", i)) {
			t.Errorf("field %d is nowhere in the details", i)
		}
	}
}

func blocksOf(t testing.TB, m any) []byte {
	var b struct {
		Blocks json.RawMessage `json:"blocks"`
	}
	if err := json.Unmarshal(encoded(t, m), &b); err != nil {
		t.Fatal(err)
	}
	return b.Blocks
}

func TestSecretShowsNowhere(t *testing.T) {
	const value = "xoxb-very-secret"
	s := NewSecret(value)
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("client", "token", s, "options", Options{Secrets: Secrets{Token: s, AppToken: s, SigningSecret: s}})
	j, err := json.Marshal(map[string]Secret{"token": s})
	if err != nil || strings.Contains(string(j), value) {
		t.Error("an encoder shows it")
	}
	for _, text := range []string{log.String(), fmt.Sprint(s), fmt.Sprintf("%+v %#v %s %q %x", s, s, s, s, s), fmt.Sprintf("%+v", Options{Secrets: Secrets{Token: s}})} {
		if strings.Contains(text, value) || strings.Contains(text, fmt.Sprintf("%x", value)) {
			t.Errorf("the secret shows: %s", text)
		}
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{lasting(42 * time.Second), "42 s"},
		{lasting(14 * time.Minute), "14 min"},
		{lasting(100 * time.Minute), "1 h 40 min"},
		{lasting(50 * time.Hour), "2 d 2 h"},
		{lasting(-time.Minute), "0 s"},
		{cut("a<b", 4), "a…"},
		{cut("a<b", 6), "a&lt;b"},
		{line("see http://evil.example/x", 100), "see http[:]//evil.example/x"},
		{line("@HERE @channels", 100), "(at)HERE @channels"},
		{link("https://x/y?a=1&b=2", "run"), "<https://x/y?a=1&amp;b=2|run>"},
		{link("javascript:alert(1)", "run"), "run"},
		{link("https://x/"+strings.Repeat("y", 400), "run"), "run"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	if got := lines(slices.Repeat([]string{strings.Repeat("x", 100)}, 20), 500); !strings.HasSuffix(got, "… 16 more") || size(got) > 500 {
		t.Errorf("lines do not say what is left out: %q", got)
	}
}
