package slack

import (
	"fmt"
	"time"

	"github.com/slack-go/slack"
)

// Mark is the emoji that shows the meaning of a progress line at a glance.
type Mark string

// The marks, by Slack's names of emoji.
const (
	MarkStarted Mark = "arrow_forward"
	MarkDone    Mark = "white_check_mark"
	MarkFailed  Mark = "x"
	MarkUndone  Mark = "leftwards_arrow_with_hook"
	MarkHeld    Mark = "warning"
	MarkNote    Mark = "information_source"
)

// Progress is one line in a run's thread.
type Progress struct {
	Mark  Mark
	At    time.Time
	Text  string
	Lines []string // details; may be empty
	Link  string
}

// Message renders the line.
func (p Progress) Message() Message {
	head := ":" + line(string(p.Mark), 60) + ":"
	if p.Mark == "" {
		head = ":" + string(MarkNote) + ":"
	}
	if !p.At.IsZero() {
		head += " " + when(p.At)
	}
	if l := link(p.Link, "more"); p.Link != "" {
		head += " · " + l
	}
	blocks := []slack.Block{small(marked(head)), section(plain(line(p.Text, 1500)))}
	if len(p.Lines) > 0 {
		blocks = append(blocks, section(plain(lines(p.Lines, 2500))))
	}
	return Message{text: line(p.Text, 500), blocks: blocks}
}

// Notice is a message that asks nothing: a summary of a run, a reminder, an
// escalation, the answer to a click.
type Notice struct {
	Title string // empty: no header
	Text  string
	Lines []string
	Facts []Fact
	Link  string
	Words string // of the link; empty: "Open the run"
}

// Fact is a name and its value.
type Fact struct{ Name, Value string }

// maxFacts is how many facts fit into a message at their longest.
const maxFacts = 12

// Message renders the notice.
func (n Notice) Message() Message {
	var blocks []slack.Block
	if n.Title != "" {
		blocks = append(blocks, header(n.Title))
	}
	if n.Text != "" || n.Title == "" {
		blocks = append(blocks, section(plain(paragraph(n.Text, 2000))))
	}
	var pairs [][2]string
	for _, f := range n.Facts[:min(len(n.Facts), maxFacts)] {
		pairs = append(pairs, [2]string{code(f.Name, 60), code(f.Value, 200)})
	}
	blocks = append(blocks, table(pairs)...)
	if left := len(n.Facts) - maxFacts; left > 0 {
		blocks = append(blocks, small(marked(fmt.Sprintf("… %d more.", left))))
	}
	if len(n.Lines) > 0 {
		blocks = append(blocks, section(plain(lines(n.Lines, 2500))))
	}
	words := n.Words
	if words == "" {
		words = "Open the run"
	}
	if words = line(words, 60); n.Link != "" {
		blocks = append(blocks, small(marked(link(n.Link, words))))
	}
	text := n.Title
	if n.Text != "" && text != "" {
		text += ": "
	}
	return Message{text: nonEmpty(line(text+n.Text, 800)), blocks: blocks}
}
