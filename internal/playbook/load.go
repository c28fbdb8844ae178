package playbook

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// maxFiles limits a playbook directory.
const maxFiles = 10_000

// LoadDir loads every playbook file of a directory: *.yaml, without tests
// (*.test.yaml, *.world.yaml), dotfiles and subdirectories. Links may point anywhere
// inside the directory, as those of a ConfigMap mount do, but not outside. The
// error is a [Problems] if documents are invalid; it covers all files.
func LoadDir(dir string, kinds []Kind) (*Set, error) { return Library{Dir: dir}.Load(kinds) }

// Library names the playbooks of a service: those of a directory, and the
// shipped ones beneath them.
type Library struct {
	Dir     string   // of one's own playbooks; empty: there are none
	Shipped []File   // in force unless Dir has a playbook of the same name
	Disable Disabled // shipped playbooks that are not in force

	Autonomy Overrides // levels in place of those that the playbooks set
}

// Load loads the library as one set.
func (l Library) Load(kinds []Kind) (*Set, error) {
	var files []File
	if l.Dir != "" {
		var err error
		if files, err = ReadDir(l.Dir); err != nil {
			return nil, err
		}
	}
	return l.load(files, kinds)
}

// load loads the files of one's own and the shipped ones as one set.
func (l Library) load(own []File, kinds []Kind) (*Set, error) {
	c, err := newCompiler(kinds)
	if err != nil {
		return nil, fmt.Errorf("kinds of steps: %w", err)
	}
	all, err := c.parseAll(own)
	if err != nil {
		return nil, err
	}
	shipped, err := c.parseAll(l.Shipped)
	if err != nil {
		return nil, fmt.Errorf("shipped playbooks: %w", err)
	}
	mine := len(all)
	var names []string
	for _, p := range shipped {
		names = append(names, p.Name)
		replaced := slices.ContainsFunc(all[:mine], func(o *Playbook) bool { return o.Name == p.Name })
		if !replaced && !l.Disable.has(p.Name) {
			p.Shipped = true
			all = append(all, p)
		}
	}
	if err := l.Disable.unknown(names).Err(); err != nil {
		return nil, err
	}
	set, err := NewSet(all)
	if err != nil {
		return nil, err
	}
	return set.Overridden(l.Autonomy)
}

// Disabled lists shipped playbooks that a configuration leaves out.
type Disabled []DisabledName

// DisabledName is the name of one of them.
type DisabledName struct {
	Name string

	place Problem // of the entry, without a message
}

// DecodeYAML reads a node of responder.yaml: a list of names.
func (d *Disabled) DecodeYAML(doc *yamldoc.Document, n *yaml.Node, path string) {
	texts, nodes := doc.Texts(n, path)
	for i, name := range texts {
		*d = append(*d, DisabledName{name, Problem{File: doc.File, Line: doc.Line + nodes[i].Line, Column: nodes[i].Column, Path: path}})
	}
}

func (d Disabled) has(name string) bool {
	return slices.ContainsFunc(d, func(n DisabledName) bool { return n.Name == name })
}

// unknown returns the problems of names that no shipped playbook has. Where none
// ships, there is nothing to leave out.
func (d Disabled) unknown(shipped []string) Problems {
	var problems Problems
	for _, n := range d {
		if len(shipped) > 0 && !slices.Contains(shipped, n.Name) {
			p := n.place
			p.Message, p.Hint = fmt.Sprintf("no shipped playbook is named %q", yamldoc.Clip(n.Name)), yamldoc.DidYouMean(n.Name, shipped)
			problems = append(problems, p)
		}
	}
	return problems
}

// File is the content of a playbook file, up to one byte more than [Parse]
// accepts.
type File struct {
	Name string // with its directory, for messages
	Data []byte
}

// parseAll parses files. The error covers all of them.
func (c *compiler) parseAll(files []File) ([]*Playbook, error) {
	var all []*Playbook
	var problems Problems
	for _, f := range files {
		ps, err := c.parse(f.Name, f.Data)
		if err != nil {
			var own Problems
			if !errors.As(err, &own) {
				return nil, fmt.Errorf("load %s: %w", f.Name, err)
			}
			problems = append(problems, own...)
			continue
		}
		all = append(all, ps...)
	}
	return all, problems.Err()
}

// wanted reports whether a file of that name contains playbooks.
func wanted(name string) bool {
	test := strings.HasSuffix(name, ".test.yaml") || strings.HasSuffix(name, ".world.yaml")
	return strings.HasSuffix(name, ".yaml") && !test && !strings.HasPrefix(name, ".")
}

// ReadDir reads the files that [LoadDir] loads, by name. An empty directory is
// valid. The error names the file that cannot be read.
func ReadDir(dir string) ([]File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open playbook directory: %w", err)
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("list playbook directory %s: %w", dir, err)
	}
	var out []File
	for _, e := range entries {
		if !wanted(e.Name()) {
			continue
		}
		data, err := readFile(root, e.Name())
		if errors.Is(err, errDirectory) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read playbook %s: %w%s", filepath.Join(dir, e.Name()), err, linkAdvice(e))
		}
		if out = append(out, File{Name: filepath.Join(dir, e.Name()), Data: data}); len(out) > maxFiles {
			return nil, fmt.Errorf("playbook directory %s has more than %d files", dir, maxFiles)
		}
	}
	return out, nil
}

// linkAdvice returns a hint for a link that cannot be followed.
func linkAdvice(e fs.DirEntry) string {
	if e.Type()&fs.ModeSymlink == 0 {
		return ""
	}
	return "; a link must point to a file inside the directory: copy the file there"
}

var errDirectory = errors.New("is a directory")

// readFile reads a regular file below root, following links that stay below it.
// It reads one byte more than allowed, so that the parser reports the size.
func readFile(root *os.Root, name string) ([]byte, error) {
	info, err := root.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errDirectory
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, yamldoc.MaxFile+1))
}
