package audit

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// bbolt's pages, as far as entries and checkpoints are read from a file that
// bbolt cannot open any more: a 16-byte header and, in a leaf, an element of 16
// bytes for each key and value. A small bucket lies in its parent's leaf.
const (
	leafPage     = 0x02
	leafElement  = 16
	bucketInLeaf = 0x01 // flag of an element: its value is a bucket
	bucketHeader = 16
)

// remains is what can still be read of a journal whose file is damaged or was
// cut off, wherever in the file it stands.
type remains struct {
	key     note.Verifier
	entries map[uint64]tlog.Hash // that match their leaf hash
	signed  map[uint64]tlog.Hash // roots that the key signed, by the size of the tree
	want    uint64               // the entry that last is wanted of
	last    *Finding
}

// remainder says what is still known of a journal that cannot be examined as a
// whole: up to where its entries are there and match their hashes, and how many
// of them are as they were signed. It trusts nothing that the file says of
// itself. Empty: the file cannot be read at all.
func remainder(path string, key note.Verifier) (said string) {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() {
		if f.Close() != nil {
			said = "" // what was read of it is worth nothing
		}
	}()
	head, err := bestMeta(f, path)
	if err != nil {
		return ""
	}
	r := remains{key: key, entries: map[uint64]tlog.Hash{}, signed: map[uint64]tlog.Hash{}}
	r.scan(f, int64(head.pageSize))
	var t tree
	var proven uint64
	for leaf, ok := r.entries[0]; ok; leaf, ok = r.entries[t.size] {
		t.add(leaf)
		if root, ok := r.signed[t.size]; ok && root == t.root() {
			proven = t.size
		}
	}
	if t.size == 0 {
		return "of what is left no entry can be read from the first one on"
	}
	r.want = t.size - 1
	r.scan(f, int64(head.pageSize)) // once more, for the one: not all of them are kept
	text := fmt.Sprintf("of what is left the first %d entries can be read and match their hashes", t.size)
	if r.last != nil {
		text += fmt.Sprintf(", up to entry %d (%s %s at %s)", r.want, r.last.Stream, r.last.Kind, r.last.Time.Format(time.RFC3339))
	}
	if proven == 0 {
		return text + "; no checkpoint that is left vouches for them"
	}
	return text + fmt.Sprintf("; the first %d are those that a checkpoint was signed for", proven)
}

// scan reads every leaf page of the file.
func (r *remains) scan(f io.ReaderAt, size int64) {
	most := (MaxData + 1<<16) / size // pages that one record can take
	head := make([]byte, pageHeader)
	for off := int64(0); ; off += size {
		if _, err := f.ReadAt(head, off); err != nil {
			return
		}
		more := int64(binary.NativeEndian.Uint32(head[12:]))
		if binary.NativeEndian.Uint16(head[8:]) != leafPage || more > most {
			continue
		}
		page := make([]byte, (1+more)*size)
		if n, err := f.ReadAt(page, off); err == nil || n >= pageHeader {
			r.leaf(page[:n], true)
		}
	}
}

// leaf takes what it knows from the elements of a leaf page. Elements that claim
// more bytes than the page has are not looked at: a forged page could make this
// read the same bytes again and again.
func (r *remains) leaf(page []byte, outer bool) {
	if len(page) < pageHeader {
		return
	}
	e, left := binary.NativeEndian, uint64(len(page))
	for i := range int(e.Uint16(page[10:])) {
		at := pageHeader + i*leafElement
		if at+leafElement > len(page) {
			return
		}
		flags, pos := e.Uint32(page[at:]), uint64(at)+uint64(e.Uint32(page[at+4:]))
		klen, vlen := uint64(e.Uint32(page[at+8:])), uint64(e.Uint32(page[at+12:]))
		if pos+klen+vlen > uint64(len(page)) || klen+vlen > left {
			return
		}
		left -= klen + vlen
		k, v := page[pos:pos+klen], page[pos+klen:pos+klen+vlen]
		switch {
		case flags&bucketInLeaf == 0:
			r.item(k, v)
		case outer && vlen > bucketHeader && e.Uint64(v) == 0:
			r.leaf(v[bucketHeader:], false)
		}
	}
}

// item keeps a key and value that are an entry or a checkpoint. Both prove
// themselves: stale pages and other buckets have nothing that does and is wrong.
func (r *remains) item(k, v []byte) {
	n, ok := parseU64(k)
	if !ok {
		return
	}
	if raw, err := intactEntry(n, v); err == nil {
		r.entries[n] = tlog.Hash(v[:tlog.HashSize])
		if n == r.want {
			r.last = raw.found(n, "")
		}
		return
	}
	if c, err := openCheckpoint(v, r.key); err == nil {
		r.signed[c.size] = c.root
	}
}
