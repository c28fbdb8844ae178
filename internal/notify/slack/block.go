package slack

import (
	"encoding/json"
	"slices"

	"github.com/slack-go/slack"
)

// Limits of rendered messages, in characters. All but wholeMessage are
// published by Slack.
const (
	maxHeader = 150
	maxText   = 3000

	// wholeMessage bounds the text of all blocks together. Slack answers
	// msg_blocks_too_long somewhere between 11,000 and 13,300 characters,
	// depending on the number of blocks, and publishes no figure.
	wholeMessage = 9500
)

// Message is a rendered message: the notification text and the blocks.
type Message struct {
	text   string
	blocks []slack.Block
}

// MarshalJSON returns the message in the form of the Web API.
func (m Message) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Text   string        `json:"text"`
		Blocks []slack.Block `json:"blocks"`
	}{m.text, m.blocks})
}

// Modal is a rendered dialog.
type Modal struct {
	view slack.ModalViewRequest
}

// MarshalJSON returns the view in the form of the Web API.
func (m Modal) MarshalJSON() ([]byte, error) { return json.Marshal(m.view) }

// plain returns a text object without formatting. The text must already be
// escaped.
func plain(s string) *slack.TextBlockObject {
	return slack.NewTextBlockObject(slack.PlainTextType, nonEmpty(s), false, false)
}

// marked returns a text object with Slack's formatting. Verbatim keeps Slack
// from linking what looks like an address or a name.
func marked(s string) *slack.TextBlockObject {
	return slack.NewTextBlockObject(slack.MarkdownType, nonEmpty(s), false, true)
}

// nonEmpty replaces an empty text, which Slack refuses.
func nonEmpty(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}

func header(s string) slack.Block { return slack.NewHeaderBlock(plain(line(s, maxHeader))) }

func section(t *slack.TextBlockObject) slack.Block { return slack.NewSectionBlock(t, nil, nil) }

func small(t *slack.TextBlockObject) slack.Block { return slack.NewContextBlock("", t) }

// titled renders a title of ours above texts from outside. Without texts it
// returns nothing.
func titled(title string, texts []string, limit int) []slack.Block {
	if len(texts) == 0 {
		return nil
	}
	return []slack.Block{small(marked("*" + title + "*")), section(plain(lines(texts, limit)))}
}

// table lays out name and value pairs in two columns, ten to a section as Slack
// allows. Values must already be rendered.
func table(pairs [][2]string) []slack.Block {
	var blocks []slack.Block
	for ten := range slices.Chunk(pairs, 10) {
		var fields []*slack.TextBlockObject
		for _, p := range ten {
			if p[1] != "" {
				fields = append(fields, marked("*"+p[0]+"*\n"+p[1]))
			}
		}
		if len(fields) > 0 {
			blocks = append(blocks, slack.NewSectionBlock(nil, fields, nil))
		}
	}
	return blocks
}

// button returns a button that carries only the opaque identifier.
func button(kind Kind, words, id string, style slack.Style) *slack.ButtonBlockElement {
	return slack.NewButtonBlockElement(actionPrefix+string(kind), id, plain(words)).WithStyle(style)
}
