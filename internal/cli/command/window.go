package command

import (
	"io"
	"math"
	"os"
	"strconv"

	"golang.org/x/term"

	"github.com/inference-responder/responder/internal/runview"
)

// window is a file, and how wide tables on it may be.
type window struct {
	*os.File
	columns int
}

// Columns implements runview.Window.
func (w window) Columns() int { return w.columns }

// NewWindow returns the file as a writer that tables fit: as wide as the variable
// COLUMNS says, else as its terminal. A file or a pipe has no bound: what is
// searched or kept must be whole.
func NewWindow(f *os.File, getenv func(string) string) runview.Window {
	return window{f, columns(f, getenv)}
}

// IsTerminal reports whether a person may be at the other end of an input.
func IsTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func columns(f *os.File, getenv func(string) string) int {
	if n, err := strconv.Atoi(getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if !term.IsTerminal(int(f.Fd())) {
		return math.MaxInt
	}
	if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
		return n
	}
	return runview.Width
}
