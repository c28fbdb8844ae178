package proposal

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/credential"
	"github.com/inference-responder/responder/internal/gitops"
)

// touches lists field by field how two versions of files differ, as far as they
// concern the target. A file that cannot be read as YAML is one field. Values
// whose names look secret, and those of Secrets, are shown as redacted.
func touches(before, after []gitops.File, t gitops.Target) []gitops.Touch {
	old := byPath(before)
	all := maps.Clone(old)
	maps.Copy(all, byPath(after))
	now := byPath(after)
	var out []gitops.Touch
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if bytes.Equal(old[path], now[path]) {
			continue
		}
		out = append(out, touchesOf(path, flatten(path, old[path], t), flatten(path, now[path], t))...)
	}
	return out
}

func byPath(files []gitops.File) map[string][]byte {
	out := map[string][]byte{}
	for _, f := range files {
		out[f.Path] = f.Data
	}
	return out
}

// field is one scalar of a file.
type field struct {
	variable string
	value    string
	line     int
	bare     bool // a line of a file that says nothing of what it is, but for its name
	secret   bool // it is of a Secret, whatever it is called
}

func touchesOf(file string, old, now map[string]field) []gitops.Touch {
	all := maps.Clone(old)
	maps.Copy(all, now)
	var out []gitops.Touch
	for _, path := range slices.Sorted(maps.Keys(all)) {
		a, was := old[path]
		b, is := now[path]
		if was == is && a.value == b.value {
			continue
		}
		t := gitops.Touch{
			Variable: all[path].variable, File: file, Line: all[path].line, Path: path,
			From: shown(a.value), To: shown(b.value),
		}
		if a.secret || b.secret || secret(t.Variable) || secret(path) || all[path].bare && secret(file) {
			t.From, t.To = redacted(t.From), redacted(t.To)
		}
		out = append(out, t)
	}
	return out
}

// secret reports whether a variable, or a part of a path, is named like a
// credential.
func secret(path string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]:/# ", r) }), credential.Named)
}

// hiddenIn returns the nodes of a document whose values are shown as redacted.
func hiddenIn(doc *yaml.Node) map[*yaml.Node]bool {
	all := credential.Secrets(doc)
	maps.Copy(all, credential.Literals(doc))
	return all
}

// shown is a value without credentials, which are found in the whole of it, and
// cut then.
func shown(v string) string {
	out := credential.RedactManifest(v)
	if len(out) > maxShown {
		out = strings.ToValidUTF8(out[:maxShown], "") + "..." + digest([]byte(v))
	}
	return out
}

func redacted(v string) string {
	if v == "" {
		return ""
	}
	return credential.Redacted
}

const (
	maxDepth  = 64
	maxFields = 50_000
	maxShown  = 200 // bytes of a value
)

// wholeFile names the one field of a file that cannot be read as YAML.
const wholeFile = "(the whole file)"

// flatten returns the scalars of a file by their paths.
func flatten(file string, data []byte, t gitops.Target) map[string]field {
	f := &flat{fields: map[string]field{}}
	if len(data) == 0 {
		return f.fields
	}
	if f.lines(string(data), "", 1) && !f.odd {
		for path, one := range f.fields {
			one.bare = true
			f.fields[path] = one
		}
		return f.fields
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	whole := map[string]field{wholeFile: {variable: wholeFile, value: digest(data), line: 1}}
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		switch {
		case f.odd, err != nil && !errors.Is(err, io.EOF):
			return whole
		case err != nil:
			return f.fields
		case len(doc.Content) > 0 && doc.Content[0].Kind == yaml.ScalarNode && doc.Content[0].ShortTag() != "!!null":
			return whole // text, which may be anything
		}
		if len(doc.Content) == 0 || others(file, doc.Content[0], t) {
			continue
		}
		f.secrets, f.values = hiddenIn(&doc), nil
		if kind := scalarAt(doc.Content[0], "kind"); t.Name != "" && (kind == "" || kind == helmRelease) {
			f.values = &t
		}
		f.walk(doc.Content[0], f.document(doc.Content[0]), 0)
	}
}

// flat is a file being flattened.
type flat struct {
	fields  map[string]field
	secrets map[*yaml.Node]bool // the nodes that are of a Secret
	values  *gitops.Target      // whose values the document may hold; nil: it holds none
	secret  bool                // what is being set is of one
	odd     bool                // it is no plain YAML, a template perhaps, or too large: only the whole of it can be compared
}

var lineOf = regexp.MustCompile(`^\s*([A-Za-z_][A-Za-z0-9_.-]*)=(.*)$`)

// lines takes a text of KEY=value lines in, such as the file of a generator, each
// line by its key. It reports whether the text is one.
func (f *flat) lines(text, path string, line int) bool {
	type pair struct {
		key, value string
		line       int
	}
	var pairs []pair
	for l := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		l = strings.TrimRight(l, "\r\n")
		m := lineOf.FindStringSubmatch(l)
		switch trimmed := strings.TrimSpace(l); {
		case m != nil:
			pairs = append(pairs, pair{m[1], m[2], line})
		case trimmed != "" && trimmed[0] != '#':
			return false
		}
		line++
	}
	if len(pairs) > maxFields {
		f.odd = true
	}
	outer := f.secret
	defer func() { f.secret = outer }()
	for _, p := range pairs[:min(len(pairs), maxFields)] {
		f.secret = outer || p.value != "" && !credential.Plain(p.key, p.value)
		f.set(path+p.key, path+p.key, p.value, p.line)
	}
	return len(pairs) > 0
}

// document names a document of a file.
func (f *flat) document(n *yaml.Node) string {
	kind, name := scalarAt(n, "kind"), scalarAt(n, "metadata", "name")
	if kind == "" || name == "" {
		return ""
	}
	return kind + " " + name + ": "
}

// workloads are the kinds of which a directory may hold several: changes of
// others than the target's do not concern it.
var workloads = []string{
	"Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "InferenceService", "LLMInferenceService", "DynamoGraphDeployment",
	"LeaderWorkerSet", "HorizontalPodAutoscaler", "ScaledObject",
}

// others reports whether a document is certainly not the target's. Names count
// by what they have in common: kustomize and operators add to them.
func others(file string, n *yaml.Node, t gitops.Target) bool {
	kind, namespace, name := scalarAt(n, "kind"), scalarAt(n, "metadata", "namespace"), scalarAt(n, "metadata", "name")
	scales := scalarAt(n, "spec", "scaleTargetRef", "name")
	if scales != "" {
		name = scales
	}
	in, release, ofHelm := strings.Cut(t.HelmRelease, "/")
	switch {
	case t.Name == "" || name == "":
		return false
	case kind == helmRelease && t.Kind == helmRelease:
		return name != t.Name
	case kind == helmRelease: // its values are of what it makes alone, so no name but its own counts
		return !slices.Contains(t.Written, file+":"+name) && (name != release || namespace != "" && namespace != in)
	case ofHelm && slices.Contains([]string{"ConfigMap", "Secret"}, kind):
		return namespace != "" && namespace != in && namespace != t.Namespace
	case ofHelm:
		return slices.Contains(workloads, kind) && scales != t.Name
	}
	return slices.Contains(workloads, kind) && !strings.Contains(t.Name, name)
}

const helmRelease = "HelmRelease"

// apart reports whether a part of Helm values is certainly not the target's: another model
// of the vLLM production stack, or the other section of llm-d's modelservice.
func apart(t gitops.Target, list, item string) bool {
	switch list {
	case "modelSpec":
		end := modelOf.FindString(t.Name)
		serves := strings.HasSuffix(t.Name, "-"+item+end)
		if t.HelmRelease != "" && t.Release != "" {
			serves = t.Name == t.Release+"-"+item+end
		}
		return item != "" && end != "" && !serves
	case "decode", "prefill":
		other := map[string]string{"decode": "prefill", "prefill": "decode"}[list]
		return t.Component == other || t.Component == "" && strings.HasSuffix(t.Name, "-"+other)
	}
	return false
}

// linked reports whether a part shares something with another one by an anchor.
func linked(n *yaml.Node) bool {
	return n.Anchor != "" || n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, linked)
}

// modelOf matches the names that the production stack gives what it makes of a model.
var modelOf = regexp.MustCompile(`-(?:deployment-vllm|lws)$`)

func scalarAt(n *yaml.Node, path ...string) string {
	for _, key := range path {
		if n.Kind != yaml.MappingNode {
			return ""
		}
		i := 0
		for ; i+1 < len(n.Content) && n.Content[i].Value != key; i += 2 {
		}
		if i+1 >= len(n.Content) {
			return ""
		}
		n = n.Content[i+1]
	}
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

func (f *flat) set(path, variable, value string, line int) {
	for n := 2; ; n++ {
		if _, taken := f.fields[path]; !taken {
			break
		}
		path, _, _ = strings.Cut(path, " #")
		path += " #" + string(rune('0'+min(n, 9)))
		if n > 9 {
			return // as good as told: the others differ already
		}
	}
	f.fields[path] = field{variable: variable, value: value, line: line, secret: f.secret}
}

func (f *flat) walk(n *yaml.Node, path string, depth int) {
	if depth > maxDepth || len(f.fields) > maxFields {
		f.odd = true
		return
	}
	outer := f.secret
	defer func() { f.secret = outer }()
	f.secret = outer || f.secrets[n] || n.Kind == yaml.ScalarNode && credential.WithoutKeys(n.Value) != n.Value
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			f.odd = f.odd || n.Content[i].Kind != yaml.ScalarNode
			if f.values != nil && n.Content[i+1].Kind == yaml.MappingNode && !linked(n.Content[i+1]) && apart(*f.values, n.Content[i].Value, "") {
				continue
			}
			f.walk(n.Content[i+1], join(path, n.Content[i].Value), depth+1)
		}
	case yaml.SequenceNode:
		if words := commandLine(n); words != nil {
			f.secret = f.secret || slices.ContainsFunc(n.Content, holdsSecret)
			f.flags(words, path)
			return
		}
		for i, c := range n.Content {
			if f.values != nil && strings.HasSuffix(path, "modelSpec") && !linked(c) && apart(*f.values, "modelSpec", scalarAt(c, "name")) {
				continue
			}
			f.walk(c, path+"["+itemName(c, i)+"]", depth+1)
		}
	case yaml.AliasNode:
		f.set(path, variable(path), "*"+n.Value, n.Line)
	case yaml.ScalarNode:
		f.scalar(n, path, depth)
	}
}

// holdsSecret reports whether a scalar is a text with something of a Secret.
func holdsSecret(n *yaml.Node) bool {
	return slices.Contains(credential.InSecret(strings.Split(n.Value, "\n")), true)
}

func join(path, key string) string {
	if path == "" || strings.HasSuffix(path, ": ") {
		return path + key
	}
	if strings.ContainsAny(key, "./[] ") {
		return path + "[" + key + "]"
	}
	return path + "." + key
}

// itemName names an item of a list: by its name, else by its place.
func itemName(n *yaml.Node, i int) string {
	for _, key := range []string{"name", "path", "containerPort"} {
		if v := scalarAt(n, key); v != "" {
			return v
		}
	}
	return itoa(i)
}
