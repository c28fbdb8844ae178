package slack

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// size returns the length of a text as Slack may count it: the larger of the
// known ways.
func size(s string) int {
	n := 0
	for _, r := range s {
		n += max(1, utf16.RuneLen(r))
	}
	return n
}

// visible removes what a reader would not see or what would reorder what they
// see: control characters, bidirectional overrides, zero-width and other format
// characters. Newlines stay.
func visible(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t', unicode.In(r, unicode.Zl, unicode.Zp):
			return ' '
		case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Variation_Selector, r):
			return -1
		}
		return r
	}, s)
}

// inert disables Slack's syntax in a text: mentions become words, links become
// text. It is applied to everything from outside, whatever the field.
func inert(s string) string {
	s = broadcasts.ReplaceAllString(s, "(at)$1")
	return strings.ReplaceAll(s, "://", "[:]//")
}

// broadcasts matches the words that notify a whole channel where Slack links
// names.
var broadcasts = regexp.MustCompile(`(?i)@(channel|here|everyone|group)\b`)

// entities escapes the three characters that Slack requires to be escaped.
var entities = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// line returns an outside text as one escaped line of at most limit characters.
func line(s string, limit int) string {
	s = strings.Join(strings.Fields(visible(s)), " ")
	return cut(inert(s), limit)
}

// paragraph returns an outside text of several lines, escaped, of at most limit
// characters.
func paragraph(s string, limit int) string {
	return cut(inert(strings.TrimSpace(visible(s))), limit)
}

// literal returns a text for a code block, where Slack interprets nothing:
// escaped and otherwise unchanged.
func literal(s string, limit int) string { return cut(exact(s), limit) }

// exact returns a value of a diff as lines. Invisible characters are marked and
// not removed: two values that differ only by them would look the same.
func exact(s string) string {
	s = strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && visible(string(r)) == "" {
			return utf8.RuneError
		}
		return r
	}, s)
	if trimmed := strings.Trim(visible(s), "\n"); trimmed != "" || s == "" {
		return trimmed
	}
	return string(utf8.RuneError) // nothing but newlines
}

// cut escapes a text and shortens it so that the escaped form fits; it never
// cuts inside an escape.
func cut(s string, limit int) string {
	whole := entities.Replace(s)
	if size(whole) <= limit {
		return whole
	}
	var b strings.Builder
	n := 0
	for _, r := range s {
		e := entities.Replace(string(r))
		if n+size(e) > limit-1 {
			break
		}
		n += size(e)
		b.WriteString(e)
	}
	return b.String() + "…"
}

// code returns an outside text as inline code, where nothing is formatted.
func code(s string, limit int) string {
	s = line(strings.ReplaceAll(s, "`", "'"), limit)
	if s == "" {
		return "(none)"
	}
	return "`" + s + "`"
}

// codes joins names as inline code and counts those that do not fit.
func codes(names []string, limit int) string {
	var b strings.Builder
	for i, n := range names {
		c := code(n, 64)
		if b.Len() > 0 && size(b.String())+size(c)+16 > limit {
			fmt.Fprintf(&b, " and %d more", len(names)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(c)
	}
	return b.String()
}

// reserve is kept free for the count of the lines that do not fit.
const reserve = 16

// lines joins outside texts, one bulleted line each, and counts those that do
// not fit into limit characters.
func lines(texts []string, limit int) string {
	const each = 280
	all := make([]string, len(texts))
	for i, t := range texts {
		all[i] = line(t, each)
	}
	return list(all, limit)
}

// list joins escaped texts, one bulleted line each.
func list(texts []string, limit int) string {
	var b strings.Builder
	n := 0
	for i, t := range texts {
		l := "• " + t
		if i > 0 {
			l = "\n" + l
		}
		if n+size(l)+reserve > limit && i > 0 {
			fmt.Fprintf(&b, "\n… %d more", len(texts)-i)
			break
		}
		n += size(l)
		b.WriteString(l)
	}
	return b.String()
}

// proof joins the conditions of a proof, one line each. Where they do not all
// fit, the long ones lose their middle, because the value they are compared
// with stands at the end.
func proof(texts []string, limit int) string {
	const dash, least = 3, 100
	all, room, long := make([]string, len(texts)), limit-reserve, len(texts)
	for i, t := range texts {
		all[i] = inert(strings.Join(strings.Fields(visible(t)), " "))
		room -= dash
	}
	fair := room / max(1, long)
	for _, t := range all {
		if n := size(entities.Replace(t)); n <= fair {
			room, long = room-n, long-1
		}
	}
	for i, t := range all {
		all[i] = middle(t, max(least, room/max(1, long)))
	}
	return list(all, limit)
}

// middle escapes a text and removes its middle if it does not fit.
func middle(s string, limit int) string {
	whole := entities.Replace(s)
	if size(whole) <= limit {
		return whole
	}
	runes, n := []rune(s), 0
	from := len(runes)
	for from > 0 {
		e := size(entities.Replace(string(runes[from-1])))
		if n+e > limit/3 {
			break
		}
		n, from = n+e, from-1
	}
	if i := slices.Index(runes[from:], ' '); i >= 0 && i < 12 { // begin with a word
		from += i
	}
	return cut(s, limit-n) + entities.Replace(string(runes[from:]))
}

// link returns one of our own links with our own words. If the address is not a
// plain http(s) one, it returns the words alone.
func link(address, words string) string {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		return words
	}
	s := entities.Replace(strings.NewReplacer("|", "%7C", "<", "%3C", ">", "%3E", `"`, "%22").Replace(u.String()))
	if size(s) > 300 {
		return words
	}
	return "<" + s + "|" + words + ">"
}

// when returns a time in the reader's own zone, with UTC as the fallback.
func when(t time.Time) string {
	return fmt.Sprintf("<!date^%d^{date_short_pretty} {time}|%s>", t.Unix(), t.UTC().Format("2006-01-02 15:04 UTC"))
}

// lasting returns a duration in its two largest units.
func lasting(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
	}
}
