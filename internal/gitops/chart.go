package gitops

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/credential"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
	"github.com/inference-responder/responder/internal/gitops/helm"
)

// chart is a chart of the tree, rendered as it is deployed.
type chart struct {
	helm.Deployment
	of      *tree // the tree that has it
	target  Target
	request helm.Request
	files   map[string]string // rendered
	values  *yaml.Node        // that it is rendered with
	random  map[string]bool   // fields that differ from one rendering to the next
	lacks   string            // why the values were not checked against the chart's schema
}

// charts returns the charts of the tree that are deployed. It does not render them.
func (tr *tree) charts() ([]*chart, error) {
	found, err := tr.deployments()
	var out []*chart
	for _, d := range found {
		t := tr.target
		t.Path, t.ValueFiles, t.HelmRelease = "", nil, ""
		out = append(out, &chart{Deployment: d, of: tr, target: t, request: d.Request(tr.Tree, t.Namespace)})
	}
	return out, err
}

// deployments returns the deployments of the charts of the tree: of a target that a
// HelmRelease makes, the one of that.
func (tr *tree) deployments() ([]helm.Deployment, error) {
	if tr.target.HelmRelease == "" {
		asked := helm.Asked{Dir: tr.target.Path, Files: tr.target.ValueFiles, Release: tr.target.Release}
		return helm.Deployments(tr.Tree, asked, tr.target.workload())
	}
	r, err := tr.helmRelease()
	if err != nil || len(tr.target.ValueFiles) != 1 {
		return nil, err
	}
	d, ok, err := r.Deployment(tr.Tree, tr.target.ValueFiles[0], tr.target.Release)
	if err != nil || !ok {
		return nil, err
	}
	return []helm.Deployment{d}, nil
}

// render renders the chart. The release is the first one with which it makes the target.
func (c *chart) render() error {
	variant, err := c.Variant(c.of.Tree)
	if err != nil {
		return err
	}
	names := c.Releases(c.target.Name)
	variant.Release, variant.Show = names[0], true
	first, err := c.rendered(variant, variant)
	if err != nil {
		return err
	}
	if first[0].Error != "" {
		return c.invalid("cannot be rendered: " + reworded(first[0].Error))
	}
	c.take(first)
	if len(names) == 1 || c.makes(c.files) {
		return nil
	}
	var others []helm.Variant
	for _, name := range names[1:] {
		other := variant
		other.Release, other.Show = name, false
		others = append(others, other)
	}
	results, err := c.rendered(others...)
	if err != nil {
		return err
	}
	for i, r := range results {
		if r.Error != "" || !c.makes(r.Files) {
			continue
		}
		variant.Release = others[i].Release
		found, err := c.rendered(variant, variant)
		if err != nil {
			return err
		}
		c.Release = variant.Release
		c.take(found)
		return nil
	}
	return nil
}

// take takes over two renderings of the same.
func (c *chart) take(two []helm.Rendered) {
	if c.Release == "" {
		c.Release = c.Releases(c.target.Name)[0]
	}
	var shown yaml.Node
	if yaml.Unmarshal([]byte(two[0].Files[helm.ValuesFile]), &shown) == nil && len(shown.Content) == 1 {
		c.values = shown.Content[0]
	}
	for _, r := range two {
		delete(r.Files, helm.ValuesFile)
	}
	c.files, c.lacks, c.random = two[0].Files, two[0].Unchecked, map[string]bool{}
	again, err := c.changes(two[1].Files)
	if err != nil {
		return // what cannot be read is found again where it is compared
	}
	for _, r := range again {
		c.random[r.String()] = true
	}
}

func (c *chart) rendered(variants ...helm.Variant) ([]helm.Rendered, error) {
	req := c.request
	req.Variants = variants
	results, err := helm.Render(req)
	if f := new(fault.Error); errors.As(err, &f) {
		return nil, &fault.Error{Reason: f.Reason, Message: c.String() + " cannot be rendered: " + f.Message}
	}
	return results, err
}

func (c *chart) invalid(message string) error {
	return &fault.Error{Reason: fault.Invalid, Message: c.String() + " " + message}
}

var noise = regexp.MustCompile(`(?:execution error at|error calling \w+:|template: [^ ]+: executing "[^"]*" at <[^>]*>:) ?`)

// reworded returns Helm's error without the functions on the way.
func reworded(text string) string {
	text = strings.TrimSpace(noise.ReplaceAllString(strings.ReplaceAll(text, "\n", " "), ""))
	if r := []rune(text); len(r) > 300 {
		text = string(r[:300]) + "..."
	}
	return credential.Redact(text)
}

// tree returns rendered files as a tree in which the target is looked for.
func (c *chart) tree(files map[string]string) (*tree, error) {
	var out []File
	for p, text := range files {
		out = append(out, File{Path: path.Join(c.Dir, p), Data: []byte(text)})
	}
	return newTree(out, c.target)
}

// makes reports whether rendered files have the target.
func (c *chart) makes(files map[string]string) bool {
	tr, err := c.tree(files)
	if err != nil {
		return false
	}
	all, err := tr.objects()
	return err == nil && len(tr.candidates(all)) > 0
}

// readable returns an error for a rendered file that is no YAML.
func (c *chart) readable() error {
	for _, p := range slices.Sorted(keysOf(c.files, nil)) {
		if _, err := c.objects(p, c.files[p]); err != nil {
			return err
		}
	}
	return nil
}

// renderedChange is a field of a rendered object that differs.
type renderedChange struct {
	object *edit.Object // as it was; one that is new as it is
	fieldChange
}

// String names the field.
func (r renderedChange) String() string { return r.object.String() + " (" + r.path + ")" }

// changes returns what differs in other files that the chart renders, but for what
// differs every time.
func (c *chart) changes(files map[string]string) ([]renderedChange, error) {
	var out []renderedChange
	left := maxCompared
	for _, p := range slices.Sorted(keysOf(c.files, files)) {
		if c.files[p] == files[p] {
			continue
		}
		was, err := c.objects(p, c.files[p])
		if err != nil {
			return nil, err
		}
		is, err := c.objects(p, files[p])
		if err != nil {
			return nil, err
		}
		out = append(out, changedObjects(was, is, &left)...)
	}
	if left < 0 {
		return nil, c.invalid("renders too much to be compared")
	}
	return slices.DeleteFunc(out, func(r renderedChange) bool { return c.random[r.String()] }), nil
}

// changedObjects returns the fields of objects that differ. An object that comes or goes
// counts as one.
func changedObjects(was, is []*edit.Object, left *int) []renderedChange {
	var out []renderedChange
	same := func(o *edit.Object) func(*edit.Object) bool {
		return func(n *edit.Object) bool { return n.String() == o.String() }
	}
	for _, o := range was {
		i := slices.IndexFunc(is, same(o))
		if i < 0 {
			out = append(out, renderedChange{o, fieldChange{path: "is no longer made"}})
			continue
		}
		for _, f := range changesOf(o.Root, is[i].Root, "", left) {
			out = append(out, renderedChange{o, f})
		}
	}
	for _, o := range is {
		if !slices.ContainsFunc(was, same(o)) {
			out = append(out, renderedChange{o, fieldChange{path: "is new"}})
		}
	}
	return out
}

func keysOf(a, b map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range a {
			if !yield(k) {
				return
			}
		}
		for k := range b {
			if _, both := a[k]; !both && !yield(k) {
				return
			}
		}
	}
}

// objects returns the objects of a rendered file, but for tests, which are not deployed.
func (c *chart) objects(p, text string) ([]*edit.Object, error) {
	tr := edit.NewTree("")
	if err := tr.Add(path.Join(c.Dir, p), []byte(text)); err != nil {
		return nil, err
	}
	name := path.Join(c.Dir, p)
	objects, err := tr.Objects(name)
	if failures := tr.Failures(name); err == nil && len(failures) > 0 {
		err = failures[0]
	}
	if err != nil {
		return nil, c.invalid("renders " + p + ", which cannot be read: " + err.Error())
	}
	return slices.DeleteFunc(objects, func(o *edit.Object) bool {
		return strings.Contains(edit.Str(o.Root, "metadata", "annotations", "helm.sh/hook"), "test")
	}), nil
}

// effect tells what a change of the values does to the target.
type effect struct {
	changes []renderedChange // of the target or of what it alone reads
	foreign []renderedChange // of anything else
	several []renderedChange // of words in a text of which more than one changed
}

// effectOf sorts the changes of rendered files. It leaves out checksums of other files
// in the target's annotations.
func (c *chart) effectOf(files map[string]string) (effect, error) {
	all, err := c.changes(files)
	if err != nil || len(all) == 0 {
		return effect{}, err
	}
	tr, err := c.tree(files)
	if err != nil {
		return effect{}, err
	}
	objects, err := tr.objects()
	if err != nil {
		return effect{}, err
	}
	targets := tr.candidates(objects)
	var e effect
	for _, r := range all {
		own := slices.ContainsFunc(targets, func(t candidate) bool {
			return t.object.String() == r.object.String() || scales(r.object, t.object, t.component)
		})
		switch {
		case own && checksum.MatchString(r.path):
		case !own && (r.object.Kind != "ConfigMap" || len(targets) == 0 || len(c.readers(r, targets[0].object)) > 0):
			e.foreign = append(e.foreign, r)
		case words(r.from, r.to) > 1:
			e.several = append(e.several, r)
		default:
			e.changes = append(e.changes, r)
		}
	}
	return e, nil
}

var checksum = regexp.MustCompile(`(?i)annotations\..*(?:checksum|sha256|hash)`)

// readers returns the objects but the target that read a changed field of a ConfigMap.
func (c *chart) readers(r renderedChange, target *edit.Object) []string {
	var all []*edit.Object
	for p, text := range c.files {
		objects, err := c.objects(p, text)
		if err != nil {
			return []string{p}
		}
		all = append(all, objects...)
	}
	return readers(all, r.object, []string{r.path}, target)
}

// words returns how many words of a text differ: of two that are no texts one. A word
// with its value counts as one.
func words(from, to *yaml.Node) int {
	if !edit.IsText(from) || !edit.IsText(to) {
		return 1
	}
	a, b := middle(strings.Fields(from.Value), strings.Fields(to.Value))
	switch {
	case len(a) == 0 && len(b) <= 2, len(b) == 0 && len(a) <= 2:
		return 1
	}
	return max(len(a), len(b))
}

// middle returns two lists without what they have in common at their ends.
func middle(a, b []string) (x, y []string) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}

// shown describes a rendered change for people: only the words that differ.
func (r renderedChange) shown() string {
	text := func(n *yaml.Node) []string {
		switch {
		case edit.IsText(n):
			return strings.Fields(n.Value)
		case edit.IsList(n):
			var out []string
			for _, i := range n.Content {
				if out = append(out, i.Value); !edit.IsText(i) {
					return []string{strconv.Itoa(len(n.Content)) + " items"}
				}
			}
			return out
		}
		return nil
	}
	a, b := middle(text(r.from), text(r.to))
	or := func(words []string) string {
		if len(words) == 0 {
			return "(none)"
		}
		return edit.Clip(strings.Join(words, " "))
	}
	return fmt.Sprintf("%s %s: %s -> %s", r.object, r.path, or(a), or(b))
}
