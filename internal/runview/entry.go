package runview

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/api"
)

// entryGist is what an entry of any kind may say about itself in a line.
type entryGist struct {
	State    string `json:"state"`
	To       string `json:"to"`
	Action   string `json:"action"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
	By       string `json:"by"`
	Playbook string `json:"playbook"`
	Run      string `json:"run"`
	Why      string `json:"why"`
	Result   string `json:"result"`
	Text     string `json:"text"`
	Problems string `json:"problems"`
	Receiver string `json:"receiver"`
	Scope    *struct {
		Service  string `json:"service"`
		Playbook string `json:"playbook"`
	} `json:"scope"`
	Alerts    []json.RawMessage `json:"alerts"`
	Playbooks map[string]string `json:"playbooks"`
	Source    string            `json:"source"`
	Decision  *struct {
		By      string `json:"by"`
		Gate    string `json:"gate"`
		Approve bool   `json:"approve"`
		Reason  string `json:"reason"`
	} `json:"decision"`
	Start *struct {
		Playbook string `json:"playbook"`
	} `json:"start"`
	Ending *struct {
		Outcome string `json:"outcome"`
		Message string `json:"message"`
	} `json:"ending"`
}

// EntryBy returns the person whom an entry names as the one who did it; empty: none.
func EntryBy(data json.RawMessage) string {
	var d struct {
		By       string `json:"by"`
		Decision *struct {
			By string `json:"by"`
		} `json:"decision"`
		Start *struct {
			By string `json:"by"`
		} `json:"start"`
	}
	var other *json.UnmarshalTypeError // a field that this kind uses otherwise
	if err := json.Unmarshal(data, &d); err != nil && !errors.As(err, &other) {
		return ""
	}
	switch {
	case d.Decision != nil && d.Decision.By != "":
		return d.Decision.By
	case d.Start != nil && d.Start.By != "":
		return d.Start.By
	default:
		return d.By
	}
}

// EntrySummary describes an entry in one line: the words that most payloads have.
func EntrySummary(data json.RawMessage) string {
	var d entryGist
	var other *json.UnmarshalTypeError // a field that this kind uses otherwise
	if err := json.Unmarshal(data, &d); err != nil && !errors.As(err, &other) {
		return ""
	}
	parts := []string{d.Playbook, d.State, d.Action, d.Run}
	if d.Scope != nil {
		parts = append(parts, api.PauseScope(d.Scope.Service, d.Scope.Playbook, false))
	}
	if len(d.Alerts) > 0 {
		parts = append(parts, Count(len(d.Alerts), "alert"), "for", d.Receiver)
	}
	parts = append(parts, slices.Sorted(maps.Keys(d.Playbooks))...)
	if d.Start != nil {
		parts = append(parts, d.Start.Playbook)
	}
	if c := d.Decision; c != nil {
		word := "" // without a question, approve means nothing: a cancel
		switch {
		case c.Gate != "" && c.Approve:
			word = "approved by"
		case c.Gate != "":
			word = "denied by"
		}
		parts = append(parts, word, c.By, c.Reason)
	}
	if d.Ending != nil {
		parts = append(parts, d.Ending.Outcome, d.Ending.Message)
	}
	if d.To != "" {
		parts = append(parts, "-> "+d.To)
	}
	parts = append(parts, d.Source, d.Result, d.By, d.Reason, d.Message, d.Why, d.Text, d.Problems)
	return strings.Join(strings.Fields(strings.Join(parts, " ")), " ")
}
