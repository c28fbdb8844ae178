package command

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// word is one word of a shell script.
type word struct {
	text     string // without quotes; expansions stay as written
	from, to []int  // bytes of the script that each byte of text is written as
	begin    int
	end      int
	command  int  // number of the simple command it belongs to
	expands  bool // holds $..., $(...) or `...`
	bare     bool // an expansion outside quotes: the shell splits it into words
	redirect bool // the target of a redirection
}

// words is a script that was split into words.
type words struct {
	src      string
	words    []word
	command  int             // number of the last command
	comments [][2]int        // where the comments are
	assigned map[string]bool // variables that the script sets
	constant map[string]int  // where the script sets a variable, always and before the rest: begin of the word
	reads    map[string]bool // of those, the ones that something else than an assignment sets
	piped    int             // pipes up to here are checked
}

// maxScript limits the bytes of one script.
const maxScript = 64 << 10

// maxBrackets limits how deep a script is nested: the parser is recursive.
const maxBrackets = 1000

// split splits a script as bash does. It returns an error where it cannot
// be sure what the shell would run; nothing is edited then.
func split(script string) (*words, error) {
	switch {
	case len(script) > maxScript:
		return nil, fmt.Errorf("it has more than %d KiB", maxScript>>10)
	case strings.ContainsAny(script, "\x00\r"):
		return nil, errors.New("it has a carriage return or a zero byte")
	case strings.HasSuffix(script, `\`):
		return nil, errors.New("it ends with a backslash")
	case strings.Count(script, "(")+strings.Count(script, "{")+strings.Count(script, "`") > maxBrackets:
		return nil, fmt.Errorf("it has more than %d brackets", maxBrackets)
	}
	s := &words{src: script, command: -1, assigned: map[string]bool{}, constant: map[string]int{}, reads: map[string]bool{}}
	file, err := s.parse()
	if err != nil {
		return nil, err
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		ok, e := s.visit(n)
		err = cmp.Or(err, e)
		return ok
	})
	if err != nil {
		return nil, err
	}
	s.constants(file)
	slices.SortStableFunc(s.words, func(a, b word) int { return cmp.Compare(a.begin, b.begin) })
	slices.SortFunc(s.comments, func(a, b [2]int) int { return cmp.Compare(a[0], b[0]) })
	return s, nil
}

// constants records the variables that the script sets once, at its top level.
// What it sources or evaluates may set them again.
func (s *words) constants(file *syntax.File) {
	if slices.ContainsFunc(s.words, func(w word) bool { return w.text == "source" || w.text == "." || w.text == "eval" }) {
		return
	}
	times := map[string]int{}
	syntax.Walk(file, func(n syntax.Node) bool {
		if a, ok := n.(*syntax.Assign); ok && a.Name != nil && !a.Naked {
			times[a.Name.Value]++
		}
		return true
	})
	set := func(assigns []*syntax.Assign) {
		for _, a := range assigns {
			if a.Name != nil && a.Value != nil && a.Array == nil && a.Index == nil && !a.Append && times[a.Name.Value] == 1 && !s.reads[a.Name.Value] {
				s.constant[a.Name.Value] = offset(a.Pos())
			}
		}
	}
	var stmt func(n *syntax.Stmt)
	stmt = func(n *syntax.Stmt) {
		if n.Background || n.Negated || n.Coprocess {
			return
		}
		switch c := n.Cmd.(type) {
		case *syntax.CallExpr:
			if len(c.Args) == 0 {
				set(c.Assigns)
			}
		case *syntax.DeclClause:
			set(c.Args)
		case *syntax.BinaryCmd:
			if c.Op == syntax.AndStmt {
				stmt(c.X)
				stmt(c.Y)
			}
		}
	}
	for _, n := range file.Stmts {
		stmt(n)
	}
}

// parse parses the script. The parser takes a line for continued when a comment
// ends with a backslash, which no shell does: such a backslash is blanked first.
func (s *words) parse() (*syntax.File, error) {
	const most = 100
	for range most {
		file, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(s.src), "")
		if e := (syntax.ParseError{}); errors.As(err, &e) {
			return nil, fmt.Errorf("line %d: %s", e.Pos.Line(), e.Text)
		} else if err != nil {
			return nil, err
		}
		src := []byte(s.src)
		syntax.Walk(file, func(n syntax.Node) bool {
			if c, ok := n.(*syntax.Comment); ok && src[offset(c.End())-1] == '\n' {
				src[offset(c.End())-2] = ' '
			}
			return true
		})
		if string(src) == s.src {
			return file, nil
		}
		s.src = string(src)
	}
	return nil, fmt.Errorf("it has more than %d comments that end with a backslash", most)
}

// withoutComments returns the script's text without its comments.
func (s *words) withoutComments(text string) string {
	var b strings.Builder
	from := 0
	for _, to := range s.comments {
		b.WriteString(text[from:to[0]])
		from = to[1]
	}
	b.WriteString(text[from:])
	return b.String()
}

// visit records what a node of the script has. It reports whether to visit the
// nodes below it: never those of a word, so that what $(...) runs stays as written.
func (s *words) visit(n syntax.Node) (below bool, err error) {
	switch n := n.(type) {
	case *syntax.Comment:
		s.comments = append(s.comments, [2]int{offset(n.Pos()), offset(n.End())})
	case *syntax.Stmt:
		return true, heredoc(n)
	case *syntax.BinaryCmd:
		if pipe := n.Op == syntax.Pipe || n.Op == syntax.PipeAll; !pipe || offset(n.End()) <= s.piped {
			return true, nil
		}
		s.piped = offset(n.X.End()) // once for all of a|b|c
		return true, piped(n)
	case *syntax.CallExpr:
		s.command++
		s.call(n)
	case *syntax.DeclClause:
		s.command++
		s.literal(s.open(n.Variant, false), n.Variant, false)
		for _, a := range n.Args {
			s.assign(a)
		}
	case *syntax.WordIter:
		s.command++
		s.assigned[n.Name.Value], s.reads[n.Name.Value] = true, true
		for _, w := range n.Items {
			s.word(w, false)
		}
	case *syntax.ArithmCmd, *syntax.LetClause, *syntax.CStyleLoop:
		s.command++
		s.arithmetic(n)
	case *syntax.CaseItem, *syntax.TestClause:
		s.command++
		return true, nil
	case *syntax.Redirect:
		s.word(n.Word, true)
	case *syntax.Word:
		s.word(n, false)
	default:
		return true, nil
	}
	return false, nil
}

// heredoc refuses a here-document that is not written as it is: a program that
// reads it may run it.
func heredoc(n *syntax.Stmt) error {
	for _, r := range n.Redirs {
		if r.Op != syntax.Hdoc && r.Op != syntax.DashHdoc && r.Op != syntax.WordHdoc {
			continue
		}
		call, ok := n.Cmd.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 || !slices.Contains([]string{"cat", "tee"}, path.Base(call.Args[0].Lit())) {
			return errors.New("a program other than cat and tee reads a here-document (<<), and may run it")
		}
	}
	return nil
}

// piped refuses a here-document that goes on to another program.
func piped(n *syntax.BinaryCmd) (err error) {
	syntax.Walk(n.X, func(n syntax.Node) bool {
		if r, ok := n.(*syntax.Redirect); ok && (r.Hdoc != nil || r.Op == syntax.WordHdoc) {
			err = errors.New("a here-document (<<) is piped to another program, which may run it")
		}
		return true
	})
	return err
}

// setters are commands that set the variables they name.
var setters = []string{"read", "unset", "mapfile", "readarray", "printf", "getopts"}

// call records the words of a simple command.
func (s *words) call(n *syntax.CallExpr) {
	for _, a := range n.Assigns {
		s.assign(a)
	}
	sets := false
	for _, w := range n.Args {
		s.word(w, false)
		text := s.words[len(s.words)-1].text
		if sets {
			s.assigned[text], s.reads[text] = true, true
		}
		sets = sets || slices.Contains(setters, text)
	}
}

// assign records an assignment as one word. What the manifest says of a variable
// that the script sets may count no more. NAME=${NAME:-default} keeps it.
func (s *words) assign(n *syntax.Assign) {
	w := s.open(n, false)
	switch {
	case n.Array != nil:
		w.end = offset(n.Array.Pos())
		s.bytes(w, w.begin, w.end)
		s.array(n.Array)
	case n.Index != nil:
		s.raw(w, n, true)
	case n.Value != nil:
		s.bytes(w, w.begin, offset(n.Value.Pos()))
		s.parts(w, n.Value.Parts, false)
	default:
		s.bytes(w, w.begin, w.end)
	}
	if n.Name != nil && !n.Naked {
		s.assigned[n.Name.Value] = s.assigned[n.Name.Value] || n.Append || !keeps(n)
	}
}

// array records the elements of an array as a command of their own: they may be
// the arguments of one.
func (s *words) array(n *syntax.ArrayExpr) {
	s.command++
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Comment:
			s.comments = append(s.comments, [2]int{offset(n.Pos()), offset(n.End())})
		case *syntax.Word:
			s.word(n, false)
			return false
		}
		return true
	})
	s.command++
}

// keeps reports whether a variable that is set stays as it is when it is set.
func keeps(n *syntax.Assign) bool {
	if n.Value == nil || len(n.Value.Parts) != 1 {
		return false
	}
	part := n.Value.Parts[0]
	if q, ok := part.(*syntax.DblQuoted); ok && len(q.Parts) == 1 {
		part = q.Parts[0]
	}
	p, ok := part.(*syntax.ParamExp)
	if !ok || p.Param == nil || p.Param.Value != n.Name.Value || p.Excl || p.Length || p.Width || p.Index != nil || p.Slice != nil || p.Repl != nil || p.Names != 0 {
		return false
	}
	return p.Exp == nil || p.Exp.Op == syntax.DefaultUnset || p.Exp.Op == syntax.DefaultUnsetOrNull
}

// arithmetic takes every variable that a calculation names for one that it sets.
func (s *words) arithmetic(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		if w, ok := n.(*syntax.Word); ok && w.Lit() != "" {
			s.assigned[w.Lit()], s.reads[w.Lit()] = true, true
		}
		return true
	})
}

func offset(p syntax.Pos) int { return int(p.Offset()) }

// open begins a word at a node.
func (s *words) open(n syntax.Node, redirect bool) *word {
	s.words = append(s.words, word{begin: offset(n.Pos()), end: offset(n.End()), command: max(s.command, 0), redirect: redirect})
	return &s.words[len(s.words)-1]
}

func (s *words) word(n *syntax.Word, redirect bool) {
	s.parts(s.open(n, redirect), n.Parts, false)
}

func (s *words) parts(w *word, parts []syntax.WordPart, quoted bool) {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			s.literal(w, p, quoted)
		case *syntax.SglQuoted:
			if p.Dollar {
				s.raw(w, p, false) // $'...' has escapes of its own
			} else {
				s.bytes(w, offset(p.Left)+1, offset(p.Right))
			}
		case *syntax.DblQuoted:
			if p.Dollar {
				s.raw(w, p, false) // $"..." is translated
			} else {
				s.parts(w, p.Parts, true)
			}
		default:
			s.raw(w, p, !quoted)
		}
	}
}

// raw adds what the shell expands, as it is written.
func (s *words) raw(w *word, n syntax.Node, bare bool) {
	w.expands, w.bare = true, w.bare || bare
	s.bytes(w, offset(n.Pos()), offset(n.End()))
}

func (s *words) bytes(w *word, from, to int) {
	for i := from; i < to; i++ {
		w.add(s.src[i], i, 1)
	}
}

// literal adds text in which a backslash escapes.
func (s *words) literal(w *word, n *syntax.Lit, quoted bool) {
	for i, end := offset(n.Pos()), offset(n.End()); i < end; i++ {
		switch c := s.src[i]; {
		case c != '\\' || i+1 == len(s.src):
			w.add(c, i, 1)
		case s.src[i+1] == '\n':
			i++ // the line goes on; the node may end before the line does
		case i+1 == end:
			w.add(c, i, 1)
		case !quoted || strings.IndexByte("$`\"\\", s.src[i+1]) >= 0:
			w.add(s.src[i+1], i, 2)
			i++
		default:
			w.add(c, i, 1)
		}
	}
}

// add appends a byte that is written as size bytes at pos.
func (w *word) add(c byte, pos, size int) {
	w.text += string([]byte{c})
	w.from = append(w.from, pos)
	w.to = append(w.to, pos+size)
}

func nameByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// harmless reports whether a text is one word that means itself in a shell.
func harmless(s string) bool {
	for i := range len(s) {
		if c := s[i]; !nameByte(c) && strings.IndexByte(".,:/@%+=-", c) < 0 {
			return false
		}
	}
	return s != ""
}
