package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/inference-responder/responder/internal/runview"
)

// answer is what a person, or --yes, says to an open question.
type answer struct {
	approve bool
	reason  string
}

// answerer asks a person. Lines are read in the background, so that a question
// can be withdrawn while somebody thinks.
type answerer struct {
	screen *screen
	lines  <-chan string // closed at the end of the input
}

// errNoAnswer is the end of the input while a question is open.
var errNoAnswer = errors.New("the input ended without an answer; --yes answers by itself")

func newAnswerer(s *screen, in io.Reader) *answerer {
	lines := make(chan string)
	go func() {
		defer close(lines)
		scan := bufio.NewScanner(in)
		for scan.Scan() {
			lines <- scan.Text()
		}
	}()
	return &answerer{screen: s, lines: lines}
}

// ask asks for the answer to the question shown last. It waits for the answer,
// the end of ctx or of the input.
func (a *answerer) ask(ctx context.Context) (answer, error) {
	for {
		a.screen.write(fmt.Sprintf("%*sApprove it? [y]es, [n]o: ", detailIndent, ""))
		line, err := a.line(ctx)
		if err != nil {
			a.screen.raw("")
			return answer{}, err
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return answer{approve: true, reason: "approved in the demo"}, nil
		case "n", "no":
			return answer{reason: "denied in the demo"}, nil
		case "":
		default:
			a.screen.detail(plain, "%q is neither yes nor no.", runview.Cut(line, 20))
		}
	}
}

func (a *answerer) line(ctx context.Context) (string, error) {
	select {
	case line, ok := <-a.lines:
		if !ok {
			return "", errNoAnswer
		}
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
