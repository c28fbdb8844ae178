package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// A tree is the state from which a Merkle log continues: its size and the
// hashes of its complete subtrees, largest first, one per set bit of size.
type tree struct {
	size  uint64
	peaks []tlog.Hash
}

// clone returns a copy that add does not share with t.
func (t *tree) clone() tree {
	return tree{size: t.size, peaks: slices.Clone(t.peaks)}
}

// add appends a leaf. A leaf completes one subtree per trailing one bit of the
// size before it.
func (t *tree) add(leaf tlog.Hash) {
	for n := t.size; n&1 == 1; n >>= 1 {
		last := len(t.peaks) - 1
		leaf = tlog.NodeHash(t.peaks[last], leaf)
		t.peaks = t.peaks[:last]
	}
	t.peaks = append(t.peaks, leaf)
	t.size++
}

// root returns the hash that tlog.TreeHash returns for the same leaves.
func (t *tree) root() tlog.Hash {
	if len(t.peaks) == 0 {
		return sha256.Sum256(nil) // RFC 6962, section 2.1
	}
	h := t.peaks[len(t.peaks)-1]
	for i := len(t.peaks) - 2; i >= 0; i-- {
		h = tlog.NodeHash(t.peaks[i], h)
	}
	return h
}

// encode is the stored form: size, then the peaks.
func (t *tree) encode() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(t.peaks)*tlog.HashSize), t.size)
	for i := range t.peaks {
		b = append(b, t.peaks[i][:]...)
	}
	return b
}

var errTree = errors.New("the stored tree state does not parse")

// parseTree is the inverse of encode.
func parseTree(b []byte) (tree, error) {
	if len(b) < 8 {
		return tree{}, errTree
	}
	t := tree{size: binary.BigEndian.Uint64(b)}
	b = b[8:]
	if t.size >= 1<<62 || len(b) != bits.OnesCount64(t.size)*tlog.HashSize {
		return tree{}, errTree
	}
	t.peaks = make([]tlog.Hash, len(b)/tlog.HashSize)
	for i := range t.peaks {
		copy(t.peaks[i][:], b[i*tlog.HashSize:])
	}
	return t, nil
}
