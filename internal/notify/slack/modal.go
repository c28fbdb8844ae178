package slack

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/slack-go/slack"
)

const (
	actionPrefix = "responder."
	reasonBlock  = "reason"
	maxReason    = 1000 // characters of a reason
)

// Origin is where a dialog was asked for, so that what follows can be answered
// there. See [Click.Origin].
type Origin struct {
	Channel   string
	MessageTS string
}

// carried is the state that a dialog returns with its submission. Slack hides
// it from people. It holds no facts beyond the identifier, the page and where
// to answer.
type carried struct {
	ID      string `json:"id"`
	Channel string `json:"channel,omitempty"`
	TS      string `json:"ts,omitempty"`
	Page    int    `json:"page,omitempty"`
}

func (c carried) encode() string {
	b, err := json.Marshal(c)
	if err != nil {
		panic("slack: encode a dialog's state: " + err.Error()) // unreachable: strings and an int
	}
	return string(b)
}

// Deny asks for the reason of a denial.
type Deny struct {
	ID     string // opaque, as in [Approval]
	Title  string // what is denied
	Origin Origin
}

// Modal renders the dialog. Its submission is a [Click] of [KindDenySubmitted].
func (d Deny) Modal() Modal {
	return ask(KindDenySubmitted, "Deny", d.ID, d.Origin,
		"You deny: "+line(d.Title, 300)+"\nOne denial closes the question, even if others approved.",
		"Reason", "What speaks against this change?")
}

// BreakGlass asks for the reason of an approval by one person alone.
type BreakGlass struct {
	ID     string
	Title  string
	Origin Origin
}

// Modal renders the dialog. Its submission is a [Click] of
// [KindBreakGlassSubmitted].
func (g BreakGlass) Modal() Modal {
	return ask(KindBreakGlassSubmitted, "Break glass", g.ID, g.Origin,
		"You alone approve: "+line(g.Title, 300)+"\nThis bypasses the approvals that the policy requires. It is recorded and shown in the channel.",
		"Why can this not wait?", "What happens if nobody acts now?")
}

func ask(kind Kind, title, id string, from Origin, intro, label, hint string) Modal {
	input := slack.NewPlainTextInputBlockElement(plain(hint), actionPrefix+reasonBlock)
	input.Multiline, input.MinLength, input.MaxLength = true, 3, maxReason
	return Modal{view: slack.ModalViewRequest{
		Type: slack.VTModal, CallbackID: actionPrefix + string(kind),
		Title: plain(title), Submit: plain(title), Close: plain("Cancel"),
		PrivateMetadata: carried{ID: id, Channel: from.Channel, TS: from.MessageTS}.encode(),
		Blocks: slack.Blocks{BlockSet: []slack.Block{
			section(plain(intro)),
			slack.NewInputBlock(reasonBlock, plain(label), nil, input),
		}},
	}}
}

// Details is the whole plan with its evidence, in pages.
type Details struct {
	ID       string
	Title    string
	Link     string
	Plan     Plan
	Sections []Section // evidence, guards, verification, undo, history
	Decide   bool      // show the buttons of the gate, for an entry of a digest
	// Needs and OfferBreakGlass select the buttons, as in [Approval].
	Needs           []Need
	OfferBreakGlass bool
	Page            int // from 0; a page beyond the last shows the last
	Origin          Origin
}

// Section is a heading and its lines.
type Section struct {
	Title string
	Lines []string
}

// Modal renders one page. Its paging buttons are clicks of [KindDetails] with
// the requested page.
func (d Details) Modal() Modal {
	pages := d.pages()
	page := min(max(d.Page, 0), len(pages)-1)
	blocks := slices.Clone(pages[page])
	if page == 0 {
		blocks = append([]slack.Block{section(plain(line(d.Title, 300)))}, blocks...)
		if d.Decide {
			blocks = append(blocks, Approval{ID: d.ID, Plan: d.Plan, Needs: d.Needs, OfferBreakGlass: d.OfferBreakGlass}.buttons(false))
		}
	}
	if len(pages) > 1 {
		var turn []slack.BlockElement
		if page > 0 {
			turn = append(turn, button(kindPrevious, "Back", d.ID, ""))
		}
		if page < len(pages)-1 {
			turn = append(turn, button(kindNext, "Next", d.ID, ""))
		}
		blocks = append(blocks, small(marked(fmt.Sprintf("Page %d of %d", page+1, len(pages)))), slack.NewActionBlock("", turn...))
	}
	if d.Link != "" {
		blocks = append(blocks, small(marked(link(d.Link, "Open the run"))))
	}
	return Modal{view: slack.ModalViewRequest{
		Type: slack.VTModal, CallbackID: actionPrefix + string(KindDetails),
		Title: plain("Details"), Close: plain("Close"),
		PrivateMetadata: carried{ID: d.ID, Channel: d.Origin.Channel, TS: d.Origin.MessageTS, Page: page}.encode(),
		Blocks:          slack.Blocks{BlockSet: blocks},
	}}
}

const (
	pageText   = 9000 // characters of a page; see wholeMessage
	pageBlocks = 60   // of Slack's 100
	maxPages   = 50
)

// pages lays out everything. Only what exceeds maxPages is cut.
func (d Details) pages() [][]slack.Block {
	var all []slack.Block
	var sizes []int
	add := func(b slack.Block, n int) { all, sizes = append(all, b), append(sizes, n) }
	for _, s := range d.Sections {
		if len(s.Lines) == 0 {
			continue
		}
		add(small(marked("*"+line(s.Title, 100)+"*")), 110)
		for _, t := range pack(bulleted(s.Lines), maxText-100) {
			add(section(plain(t)), size(t))
		}
	}
	if len(d.Plan.Changes) > 0 {
		add(small(marked("*Plan* "+code(short(d.Plan.Digest), 24))), 40)
		for _, t := range pack(d.Plan.all(), maxText-100) {
			add(section(marked(fence(t))), size(t)+10)
		}
	}
	pages := [][]slack.Block{nil}
	n := 0
	for i, b := range all {
		last := len(pages) - 1
		if n > 0 && (n+sizes[i] > pageText || len(pages[last]) >= pageBlocks) {
			if len(pages) == maxPages {
				pages[last] = append(pages[last], small(marked("… more than Slack can show: see the page of the run.")))
				break
			}
			pages, n, last = append(pages, nil), 0, last+1
		}
		pages[last], n = append(pages[last], b), n+sizes[i]
	}
	return pages
}

func bulleted(texts []string) []string {
	var out []string
	for _, t := range texts {
		for i, l := range wrap(visible(t)) {
			if l = entities.Replace(inert(l)); i == 0 {
				l = "• " + l
			}
			out = append(out, l)
		}
	}
	return out
}

// all returns the whole diff, escaped, line by line. Long lines are wrapped,
// not cut.
func (p Plan) all() []string {
	var out []string
	add := func(prefix, s string) {
		for _, l := range wrap(s) {
			out = append(out, prefix+strings.ReplaceAll(entities.Replace(l), "```", "'''"))
		}
	}
	object := ""
	for _, c := range p.Changes {
		if c.Object != object {
			add("", oneLine(visible(c.Object)))
		}
		object = c.Object
		add("  ", oneLine(visible(c.Field)))
		if c.From != "" {
			add("- ", exact(c.From))
		}
		if c.To != "" {
			add("+ ", exact(c.To))
		}
	}
	return out
}

// wrap breaks a text into lines that fit into a section even if every character
// has to be escaped.
func wrap(s string) []string {
	const most = 400
	var out []string
	for l := range strings.Lines(s) {
		runes := []rune(strings.TrimRight(l, "\n"))
		for len(runes) > most {
			out = append(out, string(runes[:most]))
			runes = runes[most:]
		}
		out = append(out, string(runes))
	}
	return out
}

// pack joins lines into texts of at most limit characters.
func pack(ls []string, limit int) []string {
	var out []string
	var b strings.Builder
	n := 0
	for _, l := range ls {
		if n > 0 && n+size(l)+1 > limit {
			out, n = append(out, b.String()), 0
			b.Reset()
		}
		b.WriteString(l)
		b.WriteByte('\n')
		n += size(l) + 1
	}
	if n > 0 {
		out = append(out, b.String())
	}
	return out
}
