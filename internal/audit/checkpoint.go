package audit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// maxCheckpointEvery bounds Options.CheckpointEvery. The journal signs in the
// transaction that reaches the bound, so a verifier may hold every log to it:
// a longer unsigned stretch means that checkpoints were removed.
const maxCheckpointEvery = 1024

// maxNote bounds a checkpoint that is read from anywhere.
const maxNote = 4096

// errWrongPlace: a valid checkpoint stored under another size than its own.
var errWrongPlace = errors.New("it is over another number of entries")

// A checkpoint is the content of a signed note: the log named origin had this root
// when it had this many entries.
type checkpoint struct {
	origin string
	size   uint64
	root   tlog.Hash
}

// signCheckpoint returns the note over t:
//
//	<origin>
//	<size, decimal>
//	<root, base64>
//
//	— <origin> <signature>
func signCheckpoint(t *tree, signer note.Signer) ([]byte, error) {
	text := fmt.Sprintf("%s\n%d\n%s\n", signer.Name(), t.size, t.root())
	b, err := note.Sign(&note.Note{Text: text}, signer)
	if err != nil {
		return nil, fmt.Errorf("sign checkpoint: %w", err)
	}
	return b, nil
}

// openCheckpoint checks the signature with the one known key and parses the
// text. Origin and key name must agree.
func openCheckpoint(b []byte, key note.Verifier) (checkpoint, error) {
	if len(b) > maxNote {
		return checkpoint{}, errors.New("it is too long")
	}
	n, err := note.Open(b, note.VerifierList(key))
	if err != nil {
		var unverified *note.UnverifiedNoteError
		if errors.As(err, &unverified) {
			return checkpoint{}, fmt.Errorf("it is not signed by the key %s+%08x", key.Name(), key.KeyHash())
		}
		return checkpoint{}, err
	}
	c, err := parseCheckpoint(n.Text)
	if err != nil {
		return checkpoint{}, err
	}
	if c.origin != key.Name() {
		return checkpoint{}, fmt.Errorf("it is of the log %q, the key is for %q", c.origin, key.Name())
	}
	return c, nil
}

// parseCheckpoint parses the text of a note. Only the one form that
// signCheckpoint writes is accepted.
func parseCheckpoint(text string) (checkpoint, error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || lines[3] != "" || lines[0] == "" {
		return checkpoint{}, errors.New("it does not have three lines")
	}
	size, err := strconv.ParseUint(lines[1], 10, 62)
	if err != nil || strconv.FormatUint(size, 10) != lines[1] {
		return checkpoint{}, errors.New("its size is not a number")
	}
	root, err := tlog.ParseHash(lines[2])
	if err != nil || root.String() != lines[2] {
		return checkpoint{}, errors.New("its root is not a hash")
	}
	return checkpoint{origin: lines[0], size: size, root: root}, nil
}

// parseKey parses a verifier key as journal.pub holds it.
func parseKey(publicKey string) (note.Verifier, error) {
	v, err := note.NewVerifier(strings.TrimSpace(publicKey))
	if strings.HasPrefix(strings.TrimSpace(publicKey), "PRIVATE+KEY+") {
		return nil, fmt.Errorf("%w: this is the private key, with which anybody could sign another log: it belongs to the service alone; pass the journal.pub next to it", errKey)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: this is not a public key (%w); pass the journal.pub next to the journal", errKey, err)
	}
	return v, nil
}
