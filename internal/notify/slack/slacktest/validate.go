package slacktest

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
)

// Slack's published limits, and two that it does not publish.
const (
	maxMessageBlocks = 50
	maxViewBlocks    = 100
	maxText          = 40000 // Slack cuts a longer text; here it is refused

	// maxWhole limits the text of all blocks of a message. Slack answers
	// msg_blocks_too_long, observed between 11,341 and 13,297 characters.
	maxWhole = 11000
	// maxViewWhole limits the size of a view. Slack answers view_too_large at
	// 250 KB.
	maxViewWhole = 250 << 10
)

// ValidateMessage returns what Slack would refuse about a message, each with a
// pointer to the place. An empty result means that Slack accepts it. An entry
// "code:WORD" is the error that Slack answers in place of invalid_blocks.
func ValidateMessage(text string, blocks []byte) []string {
	v := &validator{surface: "message", blockIDs: map[string]bool{}}
	if length(text) > maxText {
		v.add("/text", "must be less than %d characters", maxText+1)
	}
	if len(blocks) > 0 {
		var list []any
		if json.Unmarshal(blocks, &list) != nil {
			return []string{"code:invalid_blocks_format"}
		}
		v.blocks("/blocks", list, maxMessageBlocks)
	}
	if v.whole > maxWhole {
		v.problems = append(v.problems, "code:msg_blocks_too_long", fmt.Sprintf("the blocks hold %d characters", v.whole))
	}
	return v.problems
}

// ValidateView returns what Slack would refuse about a dialog.
func ValidateView(raw []byte) []string {
	v := &validator{surface: "modal", blockIDs: map[string]bool{}}
	var m map[string]any
	if json.Unmarshal(raw, &m) != nil {
		return []string{"[ERROR] must be an object"}
	}
	if len(raw) > maxViewWhole {
		v.add("/view", "view_too_large")
	}
	v.only("/view", m, "type", "title", "blocks", "close", "submit", "private_metadata", "callback_id", "clear_on_close", "notify_on_close", "external_id")
	if m["type"] != "modal" {
		v.add("/view/type", "must be modal")
	}
	v.text("/view/title", m["title"], 24, "plain_text")
	hasInput := false
	list, _ := m["blocks"].([]any)
	for _, b := range list {
		if o, ok := b.(map[string]any); ok && o["type"] == "input" {
			hasInput = true
		}
	}
	for _, name := range []string{"close", "submit"} {
		if m[name] != nil {
			v.text("/view/"+name, m[name], 24, "plain_text")
		} else if name == "submit" && hasInput {
			v.add("/view/submit", "is required with an input block")
		}
	}
	v.str("/view/private_metadata", m["private_metadata"], 3000)
	v.str("/view/callback_id", m["callback_id"], 255)
	v.blocks("/view/blocks", list, maxViewBlocks)
	return v.problems
}

type validator struct {
	surface  string
	problems []string
	blockIDs map[string]bool
	whole    int
}

func (v *validator) add(at, format string, a ...any) {
	v.problems = append(v.problems, fmt.Sprintf("[ERROR] "+format+" [json-pointer:%s]", append(a, at)...))
}

func (v *validator) blocks(at string, list []any, most int) {
	if len(list) > most {
		v.add(at, "no more than %d items allowed", most)
	}
	for i, b := range list {
		here := fmt.Sprintf("%s/%d", at, i)
		o, ok := b.(map[string]any)
		if !ok {
			v.add(here, "must be an object")
			continue
		}
		if id, _ := o["block_id"].(string); id != "" {
			if v.blockIDs[id] {
				v.add(here, "block_id %q already exists", id)
			}
			v.blockIDs[id] = true
			v.str(here+"/block_id", id, 255)
		}
		v.block(here, o)
	}
}

func (v *validator) block(at string, o map[string]any) {
	switch o["type"] {
	case "divider":
		v.only(at, o, "type", "block_id")
	case "header":
		v.only(at, o, "type", "block_id", "text", "level")
		v.text(at+"/text", o["text"], 150, "plain_text")
	case "section":
		v.section(at, o)
	case "context":
		v.only(at, o, "type", "block_id", "elements")
		for i, e := range v.list(at+"/elements", o["elements"], 10) {
			v.text(fmt.Sprintf("%s/elements/%d", at, i), e, 3000, "plain_text", "mrkdwn")
		}
	case "actions":
		v.only(at, o, "type", "block_id", "elements")
		ids := map[string]bool{}
		for i, e := range v.list(at+"/elements", o["elements"], 25) {
			v.element(fmt.Sprintf("%s/elements/%d", at, i), e, ids)
		}
	case "input":
		v.input(at, o)
	default:
		v.add(at, "unsupported type: %v", o["type"])
	}
}

func (v *validator) section(at string, o map[string]any) {
	v.only(at, o, "type", "block_id", "text", "fields", "accessory", "expand")
	if o["text"] == nil && o["fields"] == nil {
		v.add(at, "needs text or fields")
	}
	if o["text"] != nil {
		v.text(at+"/text", o["text"], 3000, "plain_text", "mrkdwn")
	}
	if o["fields"] != nil {
		for i, f := range v.list(at+"/fields", o["fields"], 10) {
			v.text(fmt.Sprintf("%s/fields/%d", at, i), f, 2000, "plain_text", "mrkdwn")
		}
	}
	if o["accessory"] != nil {
		v.element(at+"/accessory", o["accessory"], map[string]bool{})
	}
}

func (v *validator) input(at string, o map[string]any) {
	if v.surface != "modal" {
		v.add(at, "input blocks belong in a modal")
	}
	v.only(at, o, "type", "block_id", "label", "element", "hint", "optional", "dispatch_action")
	v.text(at+"/label", o["label"], 2000, "plain_text")
	if o["hint"] != nil {
		v.text(at+"/hint", o["hint"], 2000, "plain_text")
	}
	v.element(at+"/element", o["element"], map[string]bool{})
}

func (v *validator) element(at string, e any, ids map[string]bool) {
	o, ok := e.(map[string]any)
	if !ok {
		v.add(at, "must be an object")
		return
	}
	id, _ := o["action_id"].(string)
	if id != "" && ids[id] {
		v.add(at+"/action_id", "action_id %q already exists", id)
	}
	ids[id] = true
	v.str(at+"/action_id", o["action_id"], 255)
	switch o["type"] {
	case "button":
		v.only(at, o, "type", "text", "action_id", "url", "value", "style", "confirm", "accessibility_label")
		v.text(at+"/text", o["text"], 75, "plain_text")
		v.str(at+"/value", o["value"], 2000)
		v.str(at+"/url", o["url"], 3000)
		if style := o["style"]; style != nil && style != "primary" && style != "danger" {
			v.add(at+"/style", "must be primary or danger")
		}
	case "plain_text_input":
		v.only(at, o, "type", "action_id", "placeholder", "initial_value", "multiline", "min_length", "max_length", "focus_on_load")
		if o["placeholder"] != nil {
			v.text(at+"/placeholder", o["placeholder"], 150, "plain_text")
		}
		for _, name := range []string{"min_length", "max_length"} {
			if n, ok := o[name].(float64); ok && n > 3000 {
				v.add(at+"/"+name, "must be at most 3000")
			}
		}
	default:
		v.add(at, "unsupported element type: %v", o["type"])
	}
}

// text checks a text object of one of the given types.
func (v *validator) text(at string, t any, most int, types ...string) {
	o, ok := t.(map[string]any)
	if !ok {
		v.add(at, "must be a text object")
		return
	}
	v.only(at, o, "type", "text", "emoji", "verbatim")
	kind, _ := o["type"].(string)
	if !slices.Contains(types, kind) {
		v.add(at+"/type", "must be one of %v", types)
	}
	if kind == "mrkdwn" && o["emoji"] != nil {
		v.add(at+"/emoji", "is of plain_text only")
	}
	if kind == "plain_text" && o["verbatim"] != nil {
		v.add(at+"/verbatim", "is of mrkdwn only")
	}
	s, _ := o["text"].(string)
	switch n := length(s); {
	case n < 1:
		v.add(at+"/text", "must be more than 0 characters")
	case n > most:
		v.add(at+"/text", "must be less than %d characters", most+1)
	default:
		v.whole += n
	}
	if kind == "mrkdwn" {
		v.sequences(at, s)
	}
}

// sequence matches what Slack interprets between < and >.
var sequence = regexp.MustCompile(`<([^<>]*)>`)

// sequences refuses angle brackets that are not a sequence of Slack's: Slack
// would show them as text, so somebody forgot to escape.
func (v *validator) sequences(at, s string) {
	for _, m := range sequence.FindAllStringSubmatch(s, -1) {
		if !strings.HasPrefix(m[1], "!") && !strings.HasPrefix(m[1], "@") && !strings.HasPrefix(m[1], "#") && !strings.Contains(m[1], ":") {
			v.add(at, "an unescaped < or >")
		}
	}
	if rest := sequence.ReplaceAllString(s, ""); strings.ContainsAny(rest, "<>") {
		v.add(at, "an unescaped < or >")
	}
}

func (v *validator) list(at string, l any, most int) []any {
	list, _ := l.([]any)
	if len(list) < 1 {
		v.add(at, "no fewer than 1 items allowed")
	}
	if len(list) > most {
		v.add(at, "no more than %d items allowed", most)
	}
	return list
}

func (v *validator) str(at string, s any, most int) {
	if t, _ := s.(string); length(t) > most {
		v.add(at, "must be less than %d characters", most+1)
	}
}

// only refuses members that Slack does not know.
func (v *validator) only(at string, o map[string]any, names ...string) {
	for name := range o {
		if !slices.Contains(names, name) {
			v.add(at, "invalid additional property: %s", name)
		}
	}
}

// length counts as Slack may: the larger of code points and UTF-16 units.
func length(s string) int { return len(utf16.Encode([]rune(s))) }

// mention matches what notifies or links in a text with formatting.
var mention = regexp.MustCompile(`<(![a-z]+(\^[^>|]*)?|@[UW][^>|]*|#C[^>|]*|[a-z]+:[^>|]*)(\|[^>]*)?>`)

// Mentions returns everything in a message that would notify somebody or link
// somewhere: "!channel", "@U123", "https://...". Dates are omitted.
func (m Message) Mentions() []string {
	var out []string
	for _, s := range append([]string{m.Text}, Texts(m.Blocks)...) {
		for _, found := range mention.FindAllStringSubmatch(s, -1) {
			if !strings.HasPrefix(found[1], "!date^") {
				out = append(out, found[1])
			}
		}
	}
	return out
}

// Texts returns every text of a message's blocks or of a view, escaped as it is
// sent.
func Texts(raw []byte) []string {
	var tree any
	if json.Unmarshal(raw, &tree) != nil {
		return nil
	}
	var out []string
	var walk func(any)
	walk = func(n any) {
		switch x := n.(type) {
		case []any:
			for _, e := range x {
				walk(e)
			}
		case map[string]any:
			if s, ok := x["text"].(string); ok {
				out = append(out, s)
			}
			for _, name := range slices.Sorted(maps.Keys(x)) {
				walk(x[name])
			}
		}
	}
	walk(tree)
	return out
}
