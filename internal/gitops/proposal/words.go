package proposal

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/credential"
)

func itoa(i int) string { return strconv.Itoa(i) }

// digest stands for a value that is not shown.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:6])
}

// word is one word of a command line.
type word struct {
	text string
	line int
}

// commandLine returns the words of a list that is one: scalars, of which one is a
// flag. Nil: it is not.
func commandLine(n *yaml.Node) []word {
	var words []word
	flags := false
	for _, c := range n.Content {
		if c.Kind != yaml.ScalarNode {
			return nil
		}
		inner := shellWords(c)
		flags = flags || slices.ContainsFunc(inner, func(w word) bool { return isFlag(w.text) })
		words = append(words, inner...)
	}
	if !flags {
		return nil
	}
	return words
}

var flagWord = regexp.MustCompile(`^--?[A-Za-z][A-Za-z0-9._-]*(=|$)`)

func isFlag(s string) bool { return flagWord.MatchString(s) }

// shellWords splits an item that holds a whole line of shell; any other item is
// one word. Quotes are removed, nothing is expanded.
func shellWords(n *yaml.Node) []word {
	if !strings.Contains(n.Value, " --") && !strings.Contains(n.Value, "\n--") {
		return []word{{n.Value, n.Line}}
	}
	var out []word
	var b strings.Builder
	quote, line := rune(0), n.Line
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		line++
	}
	end := func() {
		if b.Len() > 0 {
			out = append(out, word{b.String(), line})
			b.Reset()
		}
	}
	for _, r := range n.Value {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			b.WriteRune(r)
		case r == '\'' || r == '"':
			quote = r
		case unicode.IsSpace(r):
			end()
		default:
			b.WriteRune(r)
		}
		if r == '\n' && n.Style&yaml.LiteralStyle != 0 {
			line++
		}
	}
	end()
	return out
}

// flags records a command line flag by flag. The spelling of a flag does not
// count: dashes and underscores are the same, and --no-x is x set to false.
func (f *flat) flags(words []word, path string) {
	position := 0
	outer := f.secret
	defer func() { f.secret = outer }()
	for i := 0; i < len(words); i++ {
		w := words[i]
		if !isFlag(w.text) {
			if w.text == `\` {
				continue
			}
			f.secret = outer || !credential.PlainArgument(w.text)
			f.set(path+"["+itoa(position)+"]", path+"["+itoa(position)+"]", w.text, w.line)
			position++
			continue
		}
		name, value, inline := strings.Cut(w.text, "=")
		name = "--" + strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
		switch {
		case inline:
		case i+1 < len(words) && !isFlag(words[i+1].text) && words[i+1].text != `\`:
			i++
			value, w.line = words[i].text, words[i].line
		default:
			value = "true"
			if bare, no := strings.CutPrefix(name, "--no-"); no {
				name, value = "--"+bare, "false"
			}
		}
		f.secret = outer || !credential.PlainFlag(name, value)
		f.set(path+"["+name+"]", name, value, w.line)
	}
}

// scalar records a scalar: the files that a ConfigMap holds and the lines of
// shell are looked into.
func (f *flat) scalar(n *yaml.Node, path string, depth int) {
	if words := shellWords(n); len(words) > 1 {
		f.secret = f.secret || holdsSecret(n)
		f.flags(words, path)
		return
	}
	if strings.Contains(n.Value, "\n") {
		line := n.Line
		if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			line++
		}
		if f.lines(n.Value, path+": ", line) {
			return
		}
		var doc yaml.Node
		if yaml.Unmarshal([]byte(n.Value), &doc) == nil && len(doc.Content) == 1 && doc.Content[0].Kind == yaml.MappingNode {
			inner := &flat{fields: map[string]field{}, secrets: hiddenIn(&doc), secret: f.secret}
			inner.walk(doc.Content[0], "", depth+1)
			for p, v := range inner.fields {
				name := v.variable
				if name == p && !strings.ContainsAny(p, ".[") {
					name = "--" + strings.ReplaceAll(p, "_", "-") // an engine's configuration file
				}
				f.secret = v.secret
				f.set(path+": "+p, name, v.value, n.Line+v.line)
			}
			return
		}
	}
	f.set(path, variable(path), n.Value, n.Line)
}

// Fields that people know by a name.
var (
	replicaFields = []string{"replicas", "replicaCount", "minReplicas", "minReplicaCount", "maxReplicas", "maxReplicaCount"}
	imageFields   = []string{"image", "newTag", "newName", "digest", "tag"}
	modelFields   = []string{"storageUri", "modelURL", "modelUri"}
)

// variable names a field as people do: the number of replicas, the image, a
// flag that a chart makes of one of its values, else by its path.
func variable(path string) string {
	last := path[strings.LastIndexAny(path, ".: ")+1:]
	switch {
	case slices.Contains(replicaFields, last):
		return "replicas"
	case last == "tag" && !strings.Contains(path, "image"):
	case slices.Contains(imageFields, last), strings.Contains(path, ".image.") && last == "repository":
		return "image"
	case slices.Contains(modelFields, last):
		return "model"
	case strings.Contains(path, "vllmConfig."):
		return "--" + kebab(last)
	}
	return path
}

// kebab writes maxNumSeqs as max-num-seqs.
func kebab(s string) string {
	var b strings.Builder
	for i, r := range s {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
