package slack

import (
	"fmt"
	"time"

	"github.com/slack-go/slack"
)

// Digest is one message in place of many: a burst of gates is shown as a list,
// not as one ping each.
type Digest struct {
	Title   string
	Link    string // the page of all open gates; empty: none
	Since   time.Time
	Entries []Entry // the most urgent first
}

// Entry is one gate of a digest.
type Entry struct {
	ID       string // opaque, as in [Approval]
	Service  string
	Title    string
	Risk     string
	Deadline time.Time
	Votes    string // "1 of 2 (ada)"
	State    State
	Link     string
}

// digestEntries is how many entries fit into Slack's 50 blocks and, at their
// longest, into a message.
const digestEntries = 20

// Message renders the list. Every open entry has a button that opens its
// details, where it can be decided.
func (d Digest) Message() Message {
	open := 0
	for _, e := range d.Entries {
		if e.State == Open {
			open++
		}
	}
	title := d.Title
	if title == "" {
		title = fmt.Sprintf("%d approvals needed", open)
	}
	blocks := []slack.Block{header(title)}
	intro := fmt.Sprintf("%d open of %d", open, len(d.Entries))
	if !d.Since.IsZero() {
		intro += " since " + when(d.Since)
	}
	blocks = append(blocks, small(marked(intro+". One list in place of one message each.")))
	for _, e := range d.Entries[:min(len(d.Entries), digestEntries)] {
		blocks = append(blocks, e.block())
	}
	if left := len(d.Entries) - digestEntries; left > 0 {
		blocks = append(blocks, small(marked(fmt.Sprintf("… %d more: %s.", left, link(d.Link, "see all of them on the page")))))
	} else if l := link(d.Link, "All open approvals"); d.Link != "" {
		blocks = append(blocks, small(marked(l)))
	}
	return Message{text: line(title, 300), blocks: blocks}
}

func (e Entry) block() slack.Block {
	s := code(e.Service, 60) + " " + code(e.Title, 120)
	second := line(string(e.State), 20)
	if e.Risk != "" {
		second += " · risk " + code(e.Risk, 20)
	}
	if e.Votes != "" {
		second += " · " + code(e.Votes, 60)
	}
	if e.State == Open && !e.Deadline.IsZero() {
		second += " · until " + when(e.Deadline)
	}
	// Twenty long addresses would fill the message. The button leads to the run
	// too.
	if l := link(e.Link, "run"); size(l) <= 140 && l != "run" {
		second += " · " + l
	}
	var accessory *slack.Accessory
	if e.State == Open {
		accessory = slack.NewAccessory(button(KindDetails, "Review", e.ID, ""))
	}
	return slack.NewSectionBlock(marked(s+"\n"+second), nil, accessory)
}
