package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

// compactBatch is how many bytes Compact copies in one transaction.
const compactBatch = 8 << 20

// Compact rewrites the file of a journal that no service has open, without its free
// pages, and returns its size before and after. The copy has another name until it was
// compared with the original; a crash leaves one of them whole. With a Checker the file
// is first examined in a child process.
func Compact(ctx context.Context, path string, check Checker) (before, after int64, err error) {
	if _, before, err = readHeader(path); err != nil {
		return 0, 0, err
	}
	if check != nil {
		if err := check(ctx, path); err != nil {
			return 0, 0, fmt.Errorf("check before compacting: %w", err)
		}
	}
	src, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout, FreelistType: bolt.FreelistMapType, NoStatistics: true})
	if err != nil {
		return 0, 0, openError(path, err)
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	if err := src.View(func(tx *bolt.Tx) error {
		_, err := readMeta(tx, path)
		return err
	}); err != nil {
		return 0, 0, err
	}
	temp := path + ".compact"
	if err := compactInto(temp, src); err != nil {
		return 0, 0, fmt.Errorf("compact journal: %w; %s is as it was", errors.Join(err, os.Remove(temp)), path)
	}
	// From here on the file is not as its last clean stop left it, until the new one is
	// in its place.
	if err := errors.Join(removeMarker(path), os.Rename(temp, path), SyncDir(filepath.Dir(path))); err != nil {
		return 0, 0, fmt.Errorf("compact journal: %w", err)
	}
	if _, after, err = readHeader(path); err != nil {
		return 0, 0, err
	}
	return before, after, writeMarker(path)
}

// compactInto copies a database into a new file, syncs it and compares the two.
func compactInto(path string, src *bolt.DB) (err error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dst, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout, FreelistType: bolt.FreelistMapType, NoSync: true, NoStatistics: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if err := bolt.Compact(dst, src, compactBatch); err != nil {
		return err
	}
	if err := dst.Sync(); err != nil {
		return err
	}
	return src.View(func(a *bolt.Tx) error {
		return dst.View(func(b *bolt.Tx) error { return sameContent(a, b) })
	})
}

// sameContent compares the buckets of two journals.
func sameContent(a, b *bolt.Tx) error {
	for _, name := range allBuckets() {
		left, right := a.Bucket(name).Cursor(), b.Bucket(name).Cursor()
		k, v := left.First()
		for l, w := right.First(); k != nil || l != nil; l, w = right.Next() {
			if !bytes.Equal(k, l) || !bytes.Equal(v, w) {
				return fmt.Errorf("the copy differs in bucket %s at %x", name, k)
			}
			k, v = left.Next()
		}
	}
	return nil
}
