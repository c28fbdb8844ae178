package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// bbolt's file format, as far as a file can be judged before bbolt maps it:
// two meta pages, each a 16-byte page header and 64 bytes of meta in the
// machine's byte order. They are read with plain reads first. Without that, a
// file that lost its tail would end the process with SIGBUS, and nobody would be
// told that it is cut off, is no journal, or is older than its last clean stop.
const (
	boltMagic    = 0xED0CDAED
	boltVersion  = 2
	pageHeader   = 16
	metaSize     = 64
	minPageSize  = 1 << 10
	maxPageSize  = 1 << 16
	metaChecksum = 56 // offset of the checksum in the meta
	noFreeList   = 1<<64 - 1
)

// A boltMeta is a valid meta page of a bbolt file.
type boltMeta struct {
	pageSize uint32
	root     uint64 // page of the root bucket
	free     uint64 // page of the list of free pages, noFreeList when none is stored
	pages    uint64 // high water mark: pages in use
	txid     uint64
}

// metaState is the reason why there is no boltMeta.
type metaState int

const (
	metaValid metaState = iota
	metaAbsent
	metaVersion
	metaDamaged
)

// parseMeta parses and checks the bytes of one meta page.
func parseMeta(b []byte) (boltMeta, metaState) {
	if len(b) < pageHeader+metaSize {
		return boltMeta{}, metaAbsent
	}
	b = b[pageHeader : pageHeader+metaSize]
	e := binary.NativeEndian
	if e.Uint32(b) != boltMagic {
		return boltMeta{}, metaAbsent
	}
	if e.Uint32(b[4:]) != boltVersion {
		return boltMeta{}, metaVersion
	}
	sum := fnv.New64a()
	sum.Write(b[:metaChecksum])
	if sum.Sum64() != e.Uint64(b[metaChecksum:]) {
		return boltMeta{}, metaDamaged
	}
	m := boltMeta{
		pageSize: e.Uint32(b[8:]),
		root:     e.Uint64(b[16:]),
		free:     e.Uint64(b[32:]),
		pages:    e.Uint64(b[40:]),
		txid:     e.Uint64(b[48:]),
	}
	if m.pageSize < minPageSize || m.pageSize > maxPageSize || m.pageSize&(m.pageSize-1) != 0 || m.root >= m.pages ||
		m.free >= m.pages && m.free != noFreeList {
		return boltMeta{}, metaDamaged
	}
	return m, metaValid
}

// CheckHeader examines the header of a journal's file, also while a service has it
// open. An error tells why the file cannot be a usable journal.
func CheckHeader(path string) (bytes int64, err error) {
	_, bytes, err = readHeader(path)
	return bytes, err
}

// readHeader returns the newest valid meta of the file at path, or an error
// that names why the file cannot be a usable journal.
func readHeader(path string) (_ boltMeta, _ int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return boltMeta{}, 0, fileError(path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return boltMeta{}, 0, fmt.Errorf("journal: %w", err)
	}
	if !info.Mode().IsRegular() {
		return boltMeta{}, 0, foreign(path, "it is a %s, not a file", kindOf(info.Mode()))
	}
	best, err := bestMeta(f, path)
	if err != nil {
		return boltMeta{}, 0, err
	}
	if need := best.pages * uint64(best.pageSize); best.pages > 1<<44 || uint64(info.Size()) < need {
		return boltMeta{}, 0, corrupt(path, "it is cut off: it has %d bytes, by its header %d", info.Size(), need)
	}
	return best, info.Size(), nil
}

// bestMeta looks for the meta pages: the first at offset 0, the second one
// page later, which is wherever a meta is found if the first is unreadable.
func bestMeta(r io.ReaderAt, path string) (boltMeta, error) {
	worst, found := metaAbsent, false
	var best boltMeta
	for _, off := range metaOffsets() {
		var b [pageHeader + metaSize]byte
		if n, err := r.ReadAt(b[:], off); err != nil && !errors.Is(err, io.EOF) {
			return boltMeta{}, fmt.Errorf("journal: read header: %w", err)
		} else if n < len(b) {
			break
		}
		m, state := parseMeta(b[:])
		switch {
		case state != metaValid:
			worst = max(worst, state)
		case off != 0 && off != int64(m.pageSize):
			// An old meta inside a data page: not one of the two.
		case !found || m.txid > best.txid:
			best, found = m, true
		}
	}
	switch {
	case found:
		return best, nil
	case worst == metaVersion:
		return boltMeta{}, foreign(path, "it has another version of the bbolt format")
	case worst == metaDamaged:
		return boltMeta{}, corrupt(path, "both header pages are damaged")
	}
	return boltMeta{}, foreign(path, "it is not a bbolt file")
}

// metaOffsets returns 0 and every page size at which the second meta may be.
func metaOffsets() []int64 {
	offs := []int64{0}
	for size := int64(minPageSize); size <= maxPageSize; size *= 2 {
		offs = append(offs, size)
	}
	return offs
}

// kindOf returns the word for a file that is not regular.
func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

// fileError explains an error of the file system on the journal's file.
func fileError(path string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("journal: %w; let the user that runs responder read and write %s and its directory", err, path)
	}
	return fmt.Errorf("journal: %w", err)
}

// A clean marker is the file that Close leaves beside the journal. It names
// the transaction and size it left, so that the next Open can tell, without
// opening the file, whether anything was written since; and the digest of the list
// of free pages, because bbolt would overwrite what a damaged one calls free.
type cleanMarker struct {
	txid uint64
	size int64
	free string // of freeListDigest
}

func markerPath(path string) string { return path + ".clean" }

// readMarker returns the marker, or false if there is none that parses.
func readMarker(path string) (cleanMarker, bool) {
	b, err := os.ReadFile(markerPath(path))
	if err != nil {
		return cleanMarker{}, false
	}
	words := strings.Split(strings.TrimSuffix(string(b), "\n"), " ")
	if len(words) < 2 || len(words) > 3 {
		return cleanMarker{}, false
	}
	m := cleanMarker{}
	var err1, err2 error
	m.txid, err1 = strconv.ParseUint(words[0], 10, 64)
	m.size, err2 = strconv.ParseInt(words[1], 10, 64)
	if len(words) == 3 {
		m.free = words[2]
	}
	return m, err1 == nil && err2 == nil
}

// writeMarker records that the closed file at path is complete.
func writeMarker(path string) error {
	m, size, err := readHeader(path)
	if err != nil {
		return err
	}
	free, err := freeListDigest(path, m)
	if err != nil {
		return err
	}
	return writeFile(markerPath(path), fmt.Appendf(nil, "%d %d %s\n", m.txid, size, free), 0o600)
}

// freeListDigest returns the SHA-256 of the stored list of free pages, or "none".
func freeListDigest(path string, m boltMeta) (digest string, err error) {
	if m.free == noFreeList {
		return "none", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fileError(path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	at := int64(m.free) * int64(m.pageSize)
	var head [pageHeader]byte
	if _, err := f.ReadAt(head[:], at); err != nil {
		return "", fmt.Errorf("journal: read the list of free pages: %w", err)
	}
	pages := 1 + int64(binary.NativeEndian.Uint32(head[12:])) // the header's overflow
	sum := sha256.New()
	if n, err := io.Copy(sum, io.NewSectionReader(f, at, pages*int64(m.pageSize))); err != nil || n < pages*int64(m.pageSize) {
		return "", corrupt(path, "its list of free pages is cut off (%v)", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// removeMarker removes the marker durably. After a crash from here on, the next
// Open finds none.
func removeMarker(path string) error {
	if err := os.Remove(markerPath(path)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fileError(path, err)
	}
	return SyncDir(filepath.Dir(path))
}
