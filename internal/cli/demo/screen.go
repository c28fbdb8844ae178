package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/inference-responder/responder/internal/runview"
	"golang.org/x/term"
)

// screen is where the demo shows itself: lines of at most tableWidth columns,
// with the world's time at the left of what begins something. Colour, and
// characters beyond ASCII, only on a terminal that wants them.
type screen struct {
	w     io.Writer
	color bool
	ascii bool
	err   error
}

// style is how a line looks where there is colour: the number of ANSI's SGR.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

// detailIndent is the column where everything but the time begins.
const detailIndent = 10

func newScreen(w io.Writer, getenv func(string) string) *screen {
	f, ok := w.(interface{ Fd() uintptr })
	tty := ok && term.IsTerminal(int(f.Fd()))
	fancy := tty && getenv("TERM") != "dumb" && getenv("NO_COLOR") == ""
	return &screen{w: w, color: fancy, ascii: !fancy}
}

// at writes a line that begins something at a moment of the world.
func (s *screen) at(t time.Time, st style, format string, args ...any) {
	s.block(t.UTC().Format(time.TimeOnly)+"  ", st, fmt.Sprintf(format, args...))
}

// detail writes lines that belong to the one above.
func (s *screen) detail(st style, format string, args ...any) {
	s.block(strings.Repeat(" ", detailIndent), st, fmt.Sprintf(format, args...))
}

// title writes a heading after an empty line.
func (s *screen) title(format string, args ...any) {
	s.write("\n" + s.paint(bold, runview.Printable(fmt.Sprintf(format, args...))) + "\n")
}

// block writes text after a head, wrapped and aligned behind it.
func (s *screen) block(head string, st style, text string) {
	width := runview.Width - utf8.RuneCountInString(head)
	for _, line := range runview.Wrap(runview.Printable(text), width) {
		s.write(head + s.paint(st, line) + "\n")
		head = strings.Repeat(" ", utf8.RuneCountInString(head))
	}
}

// raw writes lines as they are.
func (s *screen) raw(lines ...string) {
	for _, l := range lines {
		s.write(l + "\n")
	}
}

func (s *screen) paint(st style, text string) string {
	if !s.color || st == plain || text == "" {
		return text
	}
	return "\x1b[" + string(st) + "m" + text + "\x1b[0m"
}

func (s *screen) write(text string) {
	if s.err == nil {
		_, s.err = io.WriteString(s.w, text)
	}
}
