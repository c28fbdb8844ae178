package edit

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/inference-responder/responder/internal/fault"
)

// checkFile returns an error for a file that cannot be read or edited safely.
func checkFile(path string, data []byte) error {
	if len(data) > maxFile {
		return &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf("%s: has %d bytes; a manifest has at most %d: split it", path, len(data), maxFile)}
	}
	if bytes.HasPrefix(data, []byte("version https://git-lfs.github.com/spec/")) {
		return InvalidAt(path, 1, 1, "is a Git LFS pointer: the manifest itself is not in the repository")
	}
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return InvalidAt(path, 1, 1, "is not UTF-8 text")
	}
	line := 1
	for text := range bytes.Lines(data) {
		switch {
		case bytes.HasPrefix(text, []byte("<<<<<<< ")), bytes.HasPrefix(text, []byte(">>>>>>> ")),
			bytes.HasPrefix(text, []byte("||||||| ")), string(bytes.TrimRight(text, "\r\n")) == "=======":
			return InvalidAt(path, line, 1, "has the marker of an unresolved merge conflict: resolve it first")
		}
		if text = bytes.TrimRight(text, "\n"); bytes.IndexByte(bytes.TrimSuffix(text, []byte("\r")), '\r') >= 0 {
			return InvalidAt(path, line, 1+bytes.IndexByte(text, '\r'), "has a carriage return inside a line")
		}
		line++
	}
	// YAML 1.1 breaks lines at these characters; editors and Git do not.
	for _, separator := range []string{"\u0085", "\u2028", "\u2029"} {
		if i := bytes.Index(data, []byte(separator)); i >= 0 {
			return InvalidAt(path, 1+bytes.Count(data[:i], []byte("\n")), 1, fmt.Sprintf("has the character %+q, which only YAML takes for a line break: remove it", separator))
		}
	}
	return checkEncrypted(path, data)
}

// checkEncrypted returns an error for a file that SOPS wrote. Its checksum covers
// every value, so editing a value that is not encrypted breaks the file too.
func checkEncrypted(path string, data []byte) error {
	if !bytes.Contains(data, []byte("sops")) && !bytes.Contains(data, []byte("ENC[AES256_GCM,")) {
		return nil
	}
	line := 1
	for text := range bytes.Lines(data) {
		s := strings.TrimRight(string(text), "\r\n ")
		if s == "sops:" || strings.Contains(s, "ENC[AES256_GCM,") || strings.HasPrefix(strings.TrimSpace(s), `"sops": {`) {
			return InvalidAt(path, line, 1, "is encrypted with SOPS: change it with sops")
		}
		line++
	}
	return nil
}
