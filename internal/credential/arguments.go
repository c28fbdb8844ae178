package credential

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// argumentsName is the name of a field that holds a command line as a list: command, args,
// extraArgs.
var argumentsName = regexp.MustCompile(`^(?:command|args|[A-Za-z]+Args)$`)

// hidesArgument reports whether an element of a command line is hidden that no flag names.
// That of a flag without a value is judged by the flag.
func hidesArgument(before, arg string) bool {
	if takesNext.MatchString(before) || before == "serve" && !Formed(arg) {
		return false // a model is named behind serve
	}
	arg = strings.TrimRight(strings.TrimSpace(arg), "=") // which pads base64
	return !strings.HasPrefix(arg, "-") && !strings.ContainsAny(arg, "= \t\n") && !nothing(arg) && !expands(arg) && !PlainArgument(arg)
}

// takesNext is a flag whose value may be the next argument: not -, -- or -1.
var takesNext = regexp.MustCompile(`^--?[A-Za-z][^=]*$`)

// arguments visits a list of a command line: what no flag names, and what an alias stands for.
func (s *spans) arguments(key, list *yaml.Node) {
	before := ""
	for _, item := range list.Content {
		s.visit(item)
		one := resolve(item)
		if one.Kind != yaml.ScalarNode {
			continue
		}
		isFlags := strings.HasPrefix(before, "-") && !plainWord(before, one.Value) // of an alias, which its line does not tell
		switch hides := hidesArgument(before, one.Value); {
		case item.Kind == yaml.AliasNode && (hides || isFlags):
			s.hideAnchor(one)
		case hides:
			s.values.add(one)
			if item.Line != key.Line { // else its line is judged word by word
				s.found = append(s.found, span{node: item, next: len(s.nodes)})
			}
		}
		before = one.Value
	}
}

// argumentList is a command line as a list on one line, argumentWord an element of it, and
// properties are the anchor and the tag before one.
var (
	properties   = regexp.MustCompile(`^(?:[&!]\S*\s+)+`)
	argumentList = regexp.MustCompile(`((?:^|[\s{,"'])(?:command|args|[A-Za-z]+Args)["']?\s*:\s*(?:[&!][^\s\[]*\s+)*\[)((?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\]])*)`)
	argumentWord = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']*'|(?:\$\{[^}]*\}|[^\s"',\[\]{}])(?:\$\{[^}]*\}|[^,\[\]{}])*`)
)

// listedArguments replaces the elements of command lines in lists on one line that no flag
// names, and that are not known to hold no credential.
func listedArguments(line string) string {
	return argumentList.ReplaceAllStringFunc(line, func(list string) string {
		m, before := argumentList.FindStringSubmatch(list), ""
		return m[1] + argumentWord.ReplaceAllStringFunc(m[2], func(word string) string {
			arg := bare(properties.ReplaceAllString(strings.TrimSpace(word), ""))
			isHidden := hidesArgument(before, arg) && !strings.Contains(arg, Redacted)
			before = arg
			if isHidden {
				return hidden(word)
			}
			return word
		})
	})
}
