package dynamo

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// splice sets a field of a JSON object to a number, or takes it out, and leaves the
// rest of the text as it is.
func splice(text, key string, n *int) (string, error) {
	d := json.NewDecoder(strings.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') || !json.Valid([]byte(text)) {
		return "", errors.New("no JSON object")
	}
	open := int(d.InputOffset())
	out, times := "", 0
	for first := true; d.More(); first = false {
		begin := int(d.InputOffset())
		name, err := d.Token()
		if err != nil {
			return "", err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return "", err
		}
		end := int(d.InputOffset())
		if name != key {
			continue
		}
		times++
		rest, more := strings.CutPrefix(strings.TrimLeft(text[end:], " \t\r\n"), ",")
		switch {
		case n != nil:
			out = text[:end-len(value)] + strconv.Itoa(*n) + text[end:]
		case !first:
			out = text[:begin] + text[end:]
		case more: // the comma behind it goes
			out = text[:open] + strings.TrimPrefix(rest, " ")
		default:
			out = text[:open] + text[end:]
		}
	}
	switch {
	case times > 1:
		return "", fmt.Errorf("%s stands there more than once", key)
	case times == 1:
		return out, nil
	case n == nil:
		return text, nil
	}
	added := fmt.Sprintf("%q: %d", key, *n)
	if strings.TrimLeft(text[open:], " \t\r\n")[0] != '}' {
		added += ", "
	}
	return text[:open] + added + text[open:], nil
}
