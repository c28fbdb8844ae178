package audit

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/klauspost/compress/s2"
)

// projectionForm is the first word of a projection's file.
const projectionForm = "responder-projection/1"

// projectionPath is the file of a projection, beside the journal.
func projectionPath(path, name string) string { return path + "." + name }

// SaveProjection replaces what a reader has folded from the log so far, kept so that
// its next start reads only what follows. It is never the truth: the reader must fold
// the log whole when there is none, and must hold against the log what it gets back.
// A crash leaves the old one or the new one.
func (j *Journal) SaveProjection(name string, b []byte) error {
	if err := checkName("projection", name, maxKind); err != nil {
		return err
	}
	packed := s2.EncodeSnappy(nil, b)
	sum := sha256.Sum256(packed)
	out := fmt.Appendf(nil, "%s %s %x\n", projectionForm, j.Origin(), sum)
	if err := writeFile(projectionPath(j.path, name), append(out, packed...), 0o600); err != nil {
		return fmt.Errorf("save projection %s: %w", name, err)
	}
	return nil
}

// Projection returns what SaveProjection stored last; nil when there is nothing, when
// it was damaged, or when it belongs to another journal.
func (j *Journal) Projection(name string) ([]byte, error) {
	b, err := os.ReadFile(projectionPath(j.path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read projection %s: %w", name, err)
	}
	head, packed, _ := bytes.Cut(b, []byte("\n"))
	sum := sha256.Sum256(packed)
	if string(head) != fmt.Sprintf("%s %s %x", projectionForm, j.Origin(), sum) {
		return nil, nil
	}
	out, err := s2.Decode(nil, packed)
	if err != nil {
		return nil, nil //nolint:nilerr // it is not whole: the reader folds the log
	}
	return out, nil
}
