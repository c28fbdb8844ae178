package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

const (
	maxTokenBytes   = 64 << 10
	commandDeadline = 5 * time.Minute // a person may have to log in
)

// token gets the bearer token; empty when none is configured. What a token
// command has to say to the person goes to stderr.
func (c Credentials) token(ctx context.Context, stderr io.Writer) (string, error) {
	switch {
	case c.TokenFile != "":
		return readSecret("token", c.TokenFile, "--token-file and $"+tokenVariable)
	case c.tokenCommand != "":
		return tokenOfCommand(ctx, c.tokenCommand, stderr)
	default:
		return "", nil
	}
}

// tokenOfCommand runs a program and takes what it prints. Nothing of its
// output is ever shown, since it may be the token; what it says to the person
// goes to stderr.
func tokenOfCommand(ctx context.Context, command string, stderr io.Writer) (string, error) {
	words := strings.Fields(command)
	if len(words) == 0 {
		return "", errors.New("get token: the token command is empty")
	}
	ctx, cancel := context.WithTimeout(ctx, commandDeadline)
	defer cancel()
	program := exec.CommandContext(ctx, words[0], words[1:]...)
	program.Stderr = stderr
	program.WaitDelay = time.Second
	var out bounded
	program.Stdout = &out
	err := program.Run()
	token := strings.TrimSpace(out.kept.String())
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("get token: %s did not end within %s, or was interrupted", words[0], commandDeadline)
	case err != nil:
		return "", fmt.Errorf("get token: %s: %w; --token-command and $%s name the program", words[0], err, commandVariable)
	case out.full:
		return "", fmt.Errorf("get token: %s printed more than %d bytes", words[0], maxTokenBytes)
	case token == "":
		return "", fmt.Errorf("get token: %s printed nothing", words[0])
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("get token: %s printed more than a token; it has to print nothing else on stdout", words[0])
	}
	return token, nil
}

// bounded keeps what is written to it as long as it is at most maxTokenBytes.
type bounded struct {
	kept bytes.Buffer
	full bool
}

// Write takes everything, so that the program is not stopped half-way.
func (b *bounded) Write(p []byte) (int, error) {
	if b.full = b.full || b.kept.Len()+len(p) > maxTokenBytes; !b.full {
		b.kept.Write(p) // never fails
	}
	return len(p), nil
}
