package kube

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"

	"github.com/inference-responder/responder/internal/credential"
)

// redactor replaces secrets. It numbers different values in the order of their
// appearance. A changed secret thus still shows in a diff of two templates that
// went through the same redactor, while the value stays hidden. A hash could be
// guessed.
type redactor struct {
	seen map[string]int
}

// value returns a value, redacted if its name or form marks it as secret.
func (r *redactor) value(name, v string) string {
	switch {
	case v == "":
		return "(empty)"
	case credential.Hides(name, v):
		return r.number(v)
	default:
		return r.text(v, shown(v))
	}
}

// shown returns a text of a template without credentials. One of several lines, with an
// object, or one that holds a Secret, is a manifest, or a file that is read like one.
func shown(v string) string {
	lines := strings.Split(v, "\n")
	if len(lines) > 1 || strings.Contains(v, "{") || credential.InSecret(lines)[0] {
		v = credential.RedactManifest(v)
	}
	return credential.Redact(v)
}

// number stands for a value of which nothing is shown.
func (r *redactor) number(v string) string {
	if r.seen == nil {
		r.seen = map[string]int{}
	}
	if _, ok := r.seen[v]; !ok {
		r.seen[v] = len(r.seen) + 1
	}
	return fmt.Sprintf("(redacted #%d)", r.seen[v])
}

// text returns what is shown of a value. Where that is not all, the whole has a number,
// so that a change of what is hidden still shows.
func (r *redactor) text(v, shown string) string {
	if v == shown {
		return short(v)
	}
	return short(shown) + " " + r.number(v)
}

// variable returns the literal value of an environment variable. What is not known to
// hold no credential is hidden.
func (r *redactor) variable(name, v string) string {
	if v != "" && !credential.Plain(name, v) {
		return r.number(v)
	}
	return r.value(name, v)
}

// flag returns the value of a command-line flag: of an engine's own, or a common one.
func (r *redactor) flag(name, v string) string {
	switch {
	case shellLine.MatchString(name) && strings.ContainsAny(v, " \n"):
		return r.argument(v)
	case v != "" && !credential.PlainFlag(name, v):
		return r.number(v)
	}
	return r.value(name, v)
}

// shellLine is the flag of a shell before its line: -c, -ec.
var shellLine = regexp.MustCompile(`^-[a-z]*c$`)

// argument returns an argument that no flag takes: a command, a model, a shell's line.
func (r *redactor) argument(v string) string {
	switch {
	case v == "":
		return "(empty)"
	case strings.ContainsAny(strings.TrimSpace(v), " \t\n"):
		return r.text(v, credential.RedactScript(v))
	case credential.PlainArgument(v):
		return short(v)
	}
	if name, value, _ := strings.Cut(v, "="); strings.Trim(value, "=") != "" { // else it pads base64
		return name + "=" + r.variable(name, value)
	}
	return r.number(v)
}

// fields hides, in an object of the API, the values of variables, headers and command
// lines.
func (r *redactor) fields(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = r.fields(v[i])
		}
	case map[string]any:
		name, named := v["name"].(string)
		for key, field := range v {
			text, isText := field.(string)
			list, isList := field.([]any)
			switch {
			case key == "value" && named && isText:
				v[key] = r.variable(name, text)
			case (key == "command" || key == "args") && isList:
				out := map[string]string{}
				words := make([]string, len(list))
				for i := range list {
					words[i], _ = list[i].(string)
				}
				r.flags(out, key, words)
				v[key] = out
			case key == "volumeAttributes", key == "options" && v["driver"] != nil:
				v[key] = r.options(field)
			case isText:
				v[key] = r.text(text, shown(text)) // by its form alone: secretName is a name
			default:
				v[key] = r.fields(field)
			}
		}
	}
	return v
}

// options hides the options of a storage driver, which are anything, except numbers and
// switches.
func (r *redactor) options(v any) any {
	all, ok := v.(map[string]any)
	if !ok {
		return r.fields(v)
	}
	for name, value := range all {
		if text, ok := value.(string); ok {
			all[name] = r.variable(name, text)
		}
	}
	return all
}

// short shortens a value for evidence and plans. Two values that differ only after
// the cut still differ.
func short(s string) string {
	const most = 300
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s... (%d bytes, sha256:%.6x)", strings.ToValidUTF8(s[:most], ""), len(s), sha256.Sum256([]byte(s)))
}
