package outbound

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// maxSecret is the largest file that [ReadSecret] reads, in bytes.
const maxSecret = 64 << 10

// ReadSecret returns the content of a credential's file without the space
// around it. Errors name the file, never its content.
func ReadSecret(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	text := strings.TrimSpace(string(b))
	switch {
	case err != nil:
		return "", err
	case len(b) > maxSecret:
		return "", fmt.Errorf("%s has more than %d bytes", file, maxSecret)
	case text == "":
		return "", fmt.Errorf("%s is empty", file)
	}
	return text, nil
}

// ReadToken is [ReadSecret] for a token or a key that goes into a header: one
// word of plain characters, in a regular file, because a pipe could block a
// request.
func ReadToken(file string) (string, error) {
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", file)
	}
	token, err := ReadSecret(file)
	if err == nil && strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("%s holds more than one word of plain characters", file)
	}
	return token, err
}
