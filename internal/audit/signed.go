package audit

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/note"
)

// The last checkpoint is also kept outside the file, as journal.db.signed: whoever
// rewrites the file and has no key cannot write that one. A start compares the two,
// before anything is signed again. After its first line it has the subtree hashes of the
// signed tree, so that the comparison reads only the entries after it, and the note.
const (
	signedName = "signed"
	signedForm = "responder-signed/1\n"
)

// CheckpointSuffix is how the files that Publish writes end.
const CheckpointSuffix = ".checkpoint"

// A signedTree is a tree and the signed note over it.
type signedTree struct {
	tree tree
	note []byte
}

func (s *signedTree) encode() []byte {
	return append([]byte(signedForm+base64.StdEncoding.EncodeToString(s.tree.encode())+"\n"), s.note...)
}

// parseSigned is the inverse of encode. The note must be signed with the key, and be over
// the tree.
func parseSigned(b []byte, key note.Verifier) (*signedTree, error) {
	rest, ok := bytes.CutPrefix(b, []byte(signedForm))
	line, noted, ok2 := bytes.Cut(rest, []byte("\n"))
	if !ok || !ok2 {
		return nil, fmt.Errorf("it does not begin with %q", strings.TrimSpace(signedForm))
	}
	encoded, err := base64.StdEncoding.DecodeString(string(line))
	if err != nil {
		return nil, errTree
	}
	t, err := parseTree(encoded)
	if err != nil {
		return nil, err
	}
	c, err := openCheckpoint(noted, key)
	if err != nil {
		return nil, err
	}
	if c.size != t.size || c.root != t.root() {
		return nil, errors.New("its tree is not the one that was signed")
	}
	return &signedTree{t, noted}, nil
}

// readSigned reads what is kept beside the journal at path; nil when there is nothing.
func readSigned(path string, key note.Verifier) (*signedTree, error) {
	file := projectionPath(path, signedName)
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fileError(file, err)
	}
	s, err := parseSigned(b, key)
	if err != nil {
		return nil, corrupt(file, "%v; if 'responder audit verify' finds the journal intact, remove this file", err)
	}
	return s, nil
}

// A keeper keeps the last checkpoint outside the file. It lags behind the commits: only
// what is committed and synced is handed to it, so that what it has is never more than
// the file has.
type keeper struct {
	file string
	next chan *signedTree // capacity 1: the newest that is to be written
	done chan struct{}

	mu  sync.Mutex // guards err
	err error      // of the last write
}

func newKeeper(file string, err error) *keeper {
	k := &keeper{file: file, err: err, next: make(chan *signedTree, 1), done: make(chan struct{})}
	go func() {
		defer close(k.done)
		for s := range k.next {
			err := writeFile(k.file, s.encode(), 0o600)
			k.mu.Lock()
			k.err = err
			k.mu.Unlock()
		}
	}()
	return k
}

// keep hands a checkpoint over. The committer alone calls it.
func (k *keeper) keep(s *signedTree) {
	if k == nil {
		return
	}
	select {
	case <-k.next: // it is older
	default:
	}
	k.next <- s
}

// close waits until the last checkpoint is written.
func (k *keeper) close() error {
	if k == nil {
		return nil
	}
	close(k.next)
	<-k.done
	return k.err
}

// Kept returns why the last checkpoint could not be kept beside the file; nil when it is.
func (j *Journal) Kept() error {
	if j.keeper == nil {
		return nil
	}
	j.keeper.mu.Lock()
	defer j.keeper.mu.Unlock()
	return j.keeper.err
}

// beginKeeping writes what was proven, so that the first entry already follows a
// checkpoint outside the file, and starts the keeper. What is not synced is not kept: the
// file could have less. A journal that has entries opens on a full disk, too: by
// [Journal.Kept] the checkpoint is not kept yet.
func (j *Journal) beginKeeping(proven *signedTree) error {
	if j.o.NoSync {
		return nil
	}
	if proven.note == nil {
		b, err := signCheckpoint(&proven.tree, j.keys.signer)
		if err != nil {
			return err
		}
		proven.note = b
	}
	file, b := projectionPath(j.path, signedName), proven.encode()
	var full error
	if there, err := os.ReadFile(file); err != nil || !bytes.Equal(there, b) {
		if err := writeFile(file, b, 0o600); err != nil && isNoSpace(err) && proven.tree.size > 0 {
			full = err
		} else if err != nil {
			return err
		}
	}
	j.keeper = newKeeper(file, full)
	return nil
}

// prove compares the log with the checkpoints that nobody without the key can write: the
// one beside the file, those in the file after it, and the newest that was published. It
// returns the last signed tree. The stored subtree hashes are what the next checkpoint
// signs: they must continue the signed tree by the leaf hashes that follow.
func (j *Journal) prove(tx *bolt.Tx, stored *tree, key note.Verifier) (*signedTree, error) {
	last, err := readSigned(j.path, key)
	if err != nil {
		return nil, err
	}
	kept := last != nil
	if j.unkept = !kept && stored.size > 0; !kept {
		last = j.signedWhole(tx, stored, key)
	}
	if last.tree.size > stored.size {
		return nil, corrupt(j.path, "it has %d entries, and by %s %d were signed: it was cut back, or is an older copy; if you restored that copy on purpose, remove %s",
			stored.size, projectionPath(j.path, signedName), last.tree.size, projectionPath(j.path, signedName))
	}
	if last, err = j.follow(tx, last, stored, key); err != nil {
		return nil, err
	}
	unsigned := stored.size - last.tree.size
	if unsigned >= maxCheckpointEvery || !kept && !j.o.NoSync && last.tree.size == 0 && unsigned > 0 {
		return nil, corrupt(j.path, "its last %d entries are not signed, where at most %d may be and a checkpoint is kept beside the file: checkpoints were removed, and entries may have been rewritten",
			unsigned, maxCheckpointEvery-1)
	}
	if j.o.Published == "" {
		return last, nil
	}
	return last, j.continues(tx, key)
}

// signedWhole returns the stored tree when the file's own last checkpoint is over it, as
// after a clean stop, and else the empty tree, which all entries follow.
func (j *Journal) signedWhole(tx *bolt.Tx, stored *tree, key note.Verifier) *signedTree {
	b := bytes.Clone(tx.Bucket(bucketCheckpoints).Get(u64(stored.size)))
	if c, err := openCheckpoint(b, key); err == nil && c.size == stored.size && c.root == stored.root() {
		return &signedTree{stored.clone(), b}
	}
	return &signedTree{}
}

// follow grows a signed tree by the leaf hashes after it up to the stored tree, and
// checks the checkpoints on the way.
func (j *Journal) follow(tx *bolt.Tx, last *signedTree, stored *tree, key note.Verifier) (*signedTree, error) {
	t, first := last.tree.clone(), last.tree.size
	checkpoints := tx.Bucket(bucketCheckpoints)
	cur := tx.Bucket(bucketLog).Cursor()
	for k, v := cur.Seek(u64(first)); t.size < stored.size; k, v = cur.Next() {
		leaf, _, ok := splitEntry(v)
		if seq, ok2 := parseU64(k); !ok || !ok2 || seq != t.size {
			return nil, corrupt(j.path, "entry %d is missing", t.size)
		}
		t.add(leaf)
		b := checkpoints.Get(u64(t.size))
		if b == nil {
			continue
		}
		c, err := openCheckpoint(b, key)
		if err == nil && (c.size != t.size || c.root != t.root()) {
			err = errors.New("it was signed for other entries")
		}
		if err != nil {
			return nil, corrupt(j.path, "the checkpoint over %d entries is not valid: %v", t.size, err)
		}
		last = &signedTree{t.clone(), bytes.Clone(b)}
	}
	if t.root() != stored.root() {
		return nil, corrupt(j.path, "its entries do not continue the %d that were signed: it was rewritten, or another log was put in its place", first)
	}
	return last, nil
}

// continues compares the log with the newest checkpoint in the directory of published
// ones. A checkpoint that is published stays in the file, too.
func (j *Journal) continues(tx *bolt.Tx, key note.Verifier) error {
	file, published, err := newestPublished(j.o.Published, key)
	if err != nil || file == "" {
		return err
	}
	own, err := openCheckpoint(tx.Bucket(bucketCheckpoints).Get(u64(published.size)), key)
	if err != nil || own != published {
		return corrupt(j.path, "it does not continue the checkpoint over %d entries that was published as %s: it was cut back, rewritten, or is an older copy; "+
			"if you restored that copy on purpose, move the newer checkpoints away", published.size, file)
	}
	return nil
}

// newestPublished returns the valid checkpoint over the most entries in a directory.
func newestPublished(dir string, key note.Verifier) (file string, c checkpoint, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return "", c, fmt.Errorf("read the published checkpoints: %w; journal.checkpoints.dir must exist", err)
	}
	_, id, _ := strings.Cut(key.Name(), "/")
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), id+"-") || !strings.HasSuffix(f.Name(), CheckpointSuffix) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return "", c, fmt.Errorf("read the published checkpoints: %w", err)
		}
		if got, err := openCheckpoint(b, key); err == nil && (file == "" || got.size > c.size) {
			file, c = filepath.Join(dir, f.Name()), got
		}
	}
	return file, c, nil
}

// A Published is a checkpoint to publish.
type Published struct {
	Size uint64
	Note []byte // origin, size, root and signature, as audit verify --checkpoint reads it
}

// LastCheckpoint returns the last checkpoint that is stored; false: there is none.
func (j *Journal) LastCheckpoint() (p Published, ok bool, err error) {
	err = j.view(func(tx *bolt.Tx) error {
		k, v := tx.Bucket(bucketCheckpoints).Cursor().Last()
		if p.Size, ok = parseU64(k); ok {
			p.Note = bytes.Clone(v)
		}
		return nil
	})
	return p, ok, err
}

// Publish writes a checkpoint into a directory under a name of its own. One that is there
// is not written again.
func (j *Journal) Publish(dir string, p Published) error {
	_, id, _ := strings.Cut(j.Origin(), "/")
	file := filepath.Join(dir, fmt.Sprintf("%s-%012d%s", id, p.Size, CheckpointSuffix))
	if there, err := exists(file); there || err != nil {
		return err
	}
	return writeFile(file, p.Note, 0o644)
}
