package webhook

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzDoubled: of a JSON object a field is told if and only if it has it twice, however its
// letters are written and whatever its values hold. Its fields are counted by its commas.
func FuzzDoubled(f *testing.F) {
	for _, s := range []string{`{}`, `{"reason":"a","reason":"b"}`, `{"reason":"a","Reason":"b"}`, `{"r":"\",\"r\":1","s":[1,{"r":2,"r":3}]}`, `{"\u0072":1,"r":2}`, `{"k":1,"K":2}`, ` {"a" : {"a":[]} , "b":"}"} `} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, object string) {
		fields := map[string]any{}
		if !utf8.ValidString(object) || !strings.HasPrefix(strings.TrimSpace(object), "{") || json.Unmarshal([]byte(object), &fields) != nil {
			return
		}
		var names []string
		isDoubled := members(object) != len(fields)
		for name := range fields {
			isDoubled = isDoubled || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
			names = append(names, name)
		}
		if got := doubled([]byte(object)); (got != "") != isDoubled && (got != "" || !hasEmpty(fields)) {
			t.Errorf("%q has %q twice; it does: %t", object, got, isDoubled)
		}
	})
}

// hasEmpty reports whether a field has no name, of which nothing can be told.
func hasEmpty(fields map[string]any) bool {
	_, ok := fields[""]
	return ok
}

// members counts the members of a JSON object.
func members(object string) int {
	depth, commas, inText, empty := 0, 0, false, true
	for i := 0; i < len(object); i++ {
		c := object[i]
		switch {
		case inText && c == '\\':
			i++
		case c == '"':
			inText, empty = !inText, false
		case inText:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == ',' && depth == 1:
			commas++
		}
	}
	if empty {
		return 0
	}
	return commas + 1
}
