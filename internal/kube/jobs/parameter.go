package jobs

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/inference-responder/responder/internal/setting"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// The types of parameters.
const (
	typeString = "string"
	typeInt    = "int"
)

const (
	mostLength    = 1024
	defaultLength = 253
)

// Parameter is a value that a playbook gives to a template.
type Parameter struct {
	Name      string   `yaml:"name" doc:"Unique in the template: lower-case letters, digits and _. The manifest has ${NAME} where the value stands."`
	Type      string   `yaml:"type" enum:"string,int" doc:"Empty: string."`
	Enum      []string `yaml:"enum" doc:"Of a string: the allowed values."`
	Pattern   string   `yaml:"pattern" doc:"Of a string: regular expression (RE2) that the whole value matches. Empty, without enum: letters, digits and ._:/@=+,- with a letter or digit first."`
	MaxLength int      `yaml:"max_length" doc:"Of a string: most characters, at most 1024. 0: 253."`
	Min       *int     `yaml:"min" doc:"Of an int: least value."`
	Max       *int     `yaml:"max" doc:"Of an int: greatest value."`
	Default   string   `yaml:"default" doc:"Value where the playbook gives none. Empty: it has to give one."`
}

var (
	parameterForm  = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)
	defaultPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@=+,-]*$`)
)

// whole compiles a pattern for whole values. By itself it must be one, so that it cannot
// leave the group around it.
func whole(pattern string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, err
	}
	return regexp.Compile(`^(?:` + pattern + `)$`)
}

// check reports what is wrong with the declaration.
func (p Parameter) check(at string, bad setting.Report) {
	if !parameterForm.MatchString(p.Name) {
		bad(at+".name", "lower-case letters, digits and _, with a letter first, e.g. model", "%q does not name a parameter", p.Name)
	}
	number := p.Type == typeInt
	for field, set := range map[string]bool{"enum": len(p.Enum) > 0, "pattern": p.Pattern != "", "max_length": p.MaxLength != 0} {
		if number && set {
			bad(at+"."+field, "", "is of a string, and the parameter is an int")
		}
	}
	for field, set := range map[string]bool{"min": p.Min != nil, "max": p.Max != nil} {
		if !number && set {
			bad(at+"."+field, "write type: int", "is of an int, and the parameter is a string")
		}
	}
	if p.Min != nil && p.Max != nil && *p.Min > *p.Max {
		bad(at+".max", "", "is less than min")
	}
	if p.MaxLength < 0 || p.MaxLength > mostLength {
		bad(at+".max_length", "", "must be between 1 and %d", mostLength)
	}
	if len(p.Enum) > 0 && p.Pattern != "" {
		bad(at+".pattern", "keep one", "enum and pattern exclude each other")
	}
	if _, err := whole(p.Pattern); err != nil {
		bad(at+".pattern", "", "is no regular expression: %v", err)
		return
	}
	for i, v := range p.Enum {
		if err := p.text(v); err != nil {
			bad(fmt.Sprintf("%s.enum[%d]", at, i), "", "%v", err)
		}
	}
	if p.Default == "" {
		return
	}
	if _, err := p.value(p.Default); err != nil {
		bad(at+".default", "", "%v", err)
	}
}

// value returns a value as the container gets it.
func (p Parameter) value(v string) (string, error) {
	if p.Type == typeInt {
		return p.number(v)
	}
	return v, p.text(v)
}

func (p Parameter) number(v string) (string, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	switch {
	case err != nil:
		return "", fmt.Errorf("parameter %s: want a whole number, got %q", p.Name, yamldoc.Clip(v))
	case p.Min == nil && n < 0:
		return "", fmt.Errorf("parameter %s: %d is negative, and it has no min", p.Name, n) // it would be read as a flag
	}
	if p.Min != nil && n < int64(*p.Min) {
		return "", fmt.Errorf("parameter %s: %d is less than %d", p.Name, n, *p.Min)
	}
	if p.Max != nil && n > int64(*p.Max) {
		return "", fmt.Errorf("parameter %s: %d is more than %d", p.Name, n, *p.Max)
	}
	return strconv.FormatInt(n, 10), nil
}

// unseen reports whether people do not see a character where they read a plan.
func unseen(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// text checks a string. Whatever the pattern allows, a value is one line of text, has no
// $, which the kubelet would expand to another variable, and is no flag.
func (p Parameter) text(v string) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("parameter %s: %s", p.Name, fmt.Sprintf(format, args...))
	}
	most := p.MaxLength
	if most == 0 {
		most = defaultLength
	}
	switch {
	case v == "":
		return refuse("is empty")
	case !utf8.ValidString(v) || strings.ContainsFunc(v, unseen):
		return refuse("has characters that are no text of one line")
	case utf8.RuneCountInString(v) > most:
		return refuse("has more than %d characters", most)
	case strings.ContainsRune(v, '$'):
		return refuse("%q has a $, which would be expanded in the container", yamldoc.Clip(v))
	case v[0] == '-':
		return refuse("%q begins with a dash, as a flag does", yamldoc.Clip(v))
	case len(p.Enum) > 0 && !slices.Contains(p.Enum, v):
		return refuse("%q is none of %s", yamldoc.Clip(v), strings.Join(p.Enum, ", "))
	case len(p.Enum) > 0:
		return nil
	case p.Pattern == "" && !defaultPattern.MatchString(v):
		return refuse("%q has other characters than letters, digits and ._:/@=+,-", yamldoc.Clip(v))
	case p.Pattern == "":
		return nil
	}
	form, err := whole(p.Pattern)
	if err != nil {
		return refuse("its pattern is no regular expression: %v", err)
	}
	if !form.MatchString(v) {
		return refuse("%q does not match %s", yamldoc.Clip(v), p.Pattern)
	}
	return nil
}
