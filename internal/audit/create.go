package audit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/note"
)

// Names of the key files beside the journal.
const (
	KeyFile       = "journal.key"
	PublicKeyFile = "journal.pub"
)

// format names the layout of buckets and records this package writes.
const format = "responder-journal/2"

// The buckets, and the keys of the meta bucket.
var (
	bucketMeta        = []byte("meta")
	bucketLog         = []byte("log")
	bucketIndex       = []byte("index")
	bucketCheckpoints = []byte("checkpoints")
	bucketCells       = []byte("cells")

	keyFormat  = []byte("format")
	keyOrigin  = []byte("origin")
	keyPublic  = []byte("key")
	keyCreated = []byte("created")

	// keyTree is the one key of the log that is no seq: the greatest there is,
	// so that the tree lies in the page that every append writes anyway.
	keyTree = u64(math.MaxUint64)
)

// allBuckets returns the names of a journal's buckets, in the order of creation.
func allBuckets() [][]byte {
	return [][]byte{bucketMeta, bucketLog, bucketIndex, bucketCheckpoints, bucketCells}
}

// A keyPair is a journal's identity: notes are signed under the origin's name.
type keyPair struct {
	signer note.Signer
	public string // verifier key, as in journal.pub
}

// newFile returns the name under which a journal is built before it is renamed.
func newFile(path string) string { return path + ".new" }

// create makes a new, empty journal with new keys.
//
// The order makes every crash resumable: the database is complete under
// another name before the keys are written, and takes its name last. Whoever
// finds the other name and matching keys finishes by renaming.
func create(path, keyPath string, fail failpoint) error {
	dir := filepath.Dir(path)
	var id [4]byte
	if _, err := rand.Read(id[:]); err != nil {
		return fmt.Errorf("create journal: %w", err)
	}
	private, public, err := note.GenerateKey(rand.Reader, "responder/"+hex.EncodeToString(id[:]))
	if err != nil {
		return fmt.Errorf("create journal: generate key: %w", err)
	}
	if err := createDB(newFile(path), public); err != nil {
		return err
	}
	if err := fail("create-database"); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, PublicKeyFile), []byte(public+"\n"), 0o644); err != nil {
		return err
	}
	if err := writeFile(keyPath, []byte(private+"\n"), 0o600); err != nil {
		return err
	}
	if err := fail("create-keys"); err != nil {
		return err
	}
	return finishCreate(path)
}

// finishCreate renames a complete new file to its final name.
func finishCreate(path string) error {
	if err := os.Rename(newFile(path), path); err != nil {
		return fileError(path, err)
	}
	return SyncDir(filepath.Dir(path))
}

// createDB writes an empty database that names its key. What an earlier,
// crashed attempt left under this name is overwritten: it never had keys.
func createDB(path, public string) (err error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fileError(path, err)
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout, NoFreelistSync: true, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return openError(path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	origin, _, _ := strings.Cut(public, "+")
	empty := tree{}
	return db.Update(func(tx *bolt.Tx) error {
		for _, name := range allBuckets() {
			if _, err := tx.CreateBucket(name); err != nil {
				return fmt.Errorf("create journal: %w", err)
			}
		}
		meta := tx.Bucket(bucketMeta)
		for _, kv := range [][2][]byte{
			{keyFormat, []byte(format)},
			{keyOrigin, []byte(origin)},
			{keyPublic, []byte(public)},
			{keyCreated, []byte(time.Now().UTC().Format(time.RFC3339Nano))},
		} {
			if err := meta.Put(kv[0], kv[1]); err != nil {
				return fmt.Errorf("create journal: %w", err)
			}
		}
		if err := tx.Bucket(bucketLog).Put(keyTree, empty.encode()); err != nil {
			return fmt.Errorf("create journal: %w", err)
		}
		return nil
	})
}

// prepare makes sure that there is a file at path, creating the journal if
// there is no trace of an earlier one.
func prepare(path, keyPath string, fail failpoint) error {
	info, err := os.Stat(path)
	if err == nil {
		if !info.Mode().IsRegular() {
			return foreign(path, "it is a %s, not a file", kindOf(info.Mode()))
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fileError(path, err)
	}
	hasKey, err := exists(keyPath)
	if err != nil {
		return fileError(keyPath, err)
	}
	if !hasKey {
		return create(path, keyPath, fail)
	}
	hasNew, err := exists(newFile(path))
	if err != nil {
		return fileError(path, err)
	}
	if !hasNew {
		return fmt.Errorf("%w: %s exists but %s does not: the log was removed; restore it, "+
			"or move %s and %s away as well to start a new log",
			errKey, keyPath, path, keyPath, PublicKeyFile)
	}
	return finishCreate(path)
}

// exists reports whether there is something at path.
func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// loadKeys reads the key files and holds them against the key that the
// journal itself names.
func loadKeys(path, keyPath, public string) (keyPair, note.Verifier, error) {
	advice := "restore the key files that belong to the log, or move all of the journal's files away to start a new log"
	info, err := os.Stat(keyPath)
	if errors.Is(err, fs.ErrNotExist) {
		return keyPair{}, nil, fmt.Errorf("%w: %s is missing; %s", errKey, keyPath, advice)
	} else if err != nil {
		return keyPair{}, nil, fileError(keyPath, err)
	}
	// The group is let off: Kubernetes' fsGroup opens volumes to it.
	if info.Mode().Perm()&0o007 != 0 {
		return keyPair{}, nil, fmt.Errorf("%w: %s is open to every user (mode %04o); chmod it to 0600", errKey, keyPath, info.Mode().Perm())
	}
	private, err := os.ReadFile(keyPath)
	if err != nil {
		return keyPair{}, nil, fileError(keyPath, err)
	}
	signer, err := note.NewSigner(strings.TrimSpace(string(private)))
	if err != nil {
		return keyPair{}, nil, fmt.Errorf("%w: %s does not hold a private key; %s", errKey, keyPath, advice)
	}
	verifier, err := parseKey(public)
	if err != nil {
		return keyPair{}, nil, corrupt(path, "the key it names does not parse")
	}
	if !pairs(signer, verifier) {
		return keyPair{}, nil, fmt.Errorf("%w: %s holds another key than %s was signed with; %s", errKey, keyPath, path, advice)
	}
	return keyPair{signer: signer, public: public}, verifier, restorePublic(filepath.Join(filepath.Dir(path), PublicKeyFile), public)
}

// restorePublic checks the public half, and writes it if it is missing: the
// journal itself holds a copy.
func restorePublic(path, public string) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return writeFile(path, []byte(public+"\n"), 0o644)
	} else if err != nil {
		return fileError(path, err)
	}
	if strings.TrimSpace(string(b)) != public {
		return fmt.Errorf("%w: %s holds another key than the log names; remove it to have it written again", errKey, path)
	}
	return nil
}

// CheckKey reports whether a private key is that of the journal's file at path, which no
// service may have open.
func CheckKey(path, private string) (err error) {
	r, err := OpenReader(context.Background(), path, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	signer, err := note.NewSigner(strings.TrimSpace(private))
	if err != nil {
		return fmt.Errorf("%w: it is not a private key", errKey)
	}
	verifier, err := parseKey(r.public)
	if err != nil {
		return corrupt(path, "the key it names does not parse")
	}
	if !pairs(signer, verifier) {
		return fmt.Errorf("%w: it is another key than the journal was signed with", errKey)
	}
	return nil
}

// pairs reports whether two keys belong together. The key hash covers name and public key,
// but only 32 bits of them: a trial signature settles it.
func pairs(signer note.Signer, verifier note.Verifier) bool {
	sig, err := signer.Sign([]byte(format))
	return err == nil && signer.Name() == verifier.Name() && verifier.Verify([]byte(format), sig)
}
