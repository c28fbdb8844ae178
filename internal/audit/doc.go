// Package audit is the journal: an append-only Merkle log in one bbolt file
// that is both the audit log and the source of state. Every fact the service
// acts on is a record in it, written and synced before anyone acts on it.
//
// The package does not interpret records. It stores them in named streams
// ("intake", "run/r-01J..."). The executor appends, folds and watches,
// projections read, and the command line opens, checks, verifies and exports.
//
// # What is stored
//
// One file, by convention journal.db, with these buckets:
//
//	meta         format, origin, verifier key, time of creation
//	log          8-byte big-endian seq -> leaf hash, 32 bytes, and record
//	             (codec.go), or the leaf hash alone when the body is archived;
//	             and under the greatest key the tree: the log's size and the
//	             hashes of its complete subtrees
//	index        stream name, NUL, 8-byte index -> seq, 8 bytes; a stream's
//	             head is its last index + 1
//	checkpoints  8-byte tree size -> signed note over the tree of that size
//	cells        small durable values that are not part of the log (SetMeta)
//
// and beside it:
//
//	journal.key       the private note key, mode 0600; elsewhere with Options.Key
//	journal.pub       its public half: all that Verify needs
//	journal.db.clean  written by a clean Close, naming the state it left
//	journal.db.signed the last checkpoint and its tree (signed.go)
//	journal.db.NAME   what a reader has folded, to begin with (SaveProjection)
//
// The Merkle tree is that of RFC 6962 as golang.org/x/mod/sumdb/tlog computes
// it; a leaf is exactly the stored record bytes, data packed as it lies there.
// Interior hashes are not stored: the subtree hashes of the tree continue the
// log, the leaf hashes rebuild everything else.
//
// A commit costs two syncs and its pages: about 17 us each on a virtual disk, and
// more for a page that is not allocated yet. Therefore the file has few buckets,
// packed data, allocated pages ahead of its end (reserve.go), and a free list that
// uses the lowest pages first.
//
// # The archive
//
// The log does not grow for ever. A stretch of it that ends at a signed checkpoint is
// copied whole into a segment, a file that the public key alone verifies (segment.go).
// Then the log records the segment in its stream "archive" (Sealed), and then the bodies
// that the caller names leave the file (Drop). Their leaf hashes and their places in the
// index stay, so that the rest verifies as before. Each step is durable before the next,
// and each may be done again.
//
// An entry without a body is archived where a record of the stream "archive" has its
// stretch and lets its stream go: reading it returns an *ArchivedError. Everywhere else
// it is damage. Restore puts bodies back whose hashes match.
//
// # Invariants
//
//   - A record that Append returned is on disk. Nothing is acknowledged after
//     a failed commit. An append whose outcome is unknown returns
//     errOutcomeUnknown.
//   - A batch is applied whole or not at all, and only if every stream it
//     names still has the head its caller saw.
//   - seq has no gaps; within a stream, index has no gaps and seq ascends.
//   - After every commit fewer than 1024 records follow the last checkpoint.
//   - Log, leaf hashes, tree and index change in one transaction.
//   - What Log and Stream yield matches its leaf hash. bbolt has no checksums,
//     and a flipped bit must not become an action.
//   - A body leaves the file only after the log says which segment has it, and that
//     segment was read back.
//   - Nothing is repaired silently. A file that is damaged, foreign or older than
//     its last clean stop is refused with an error that names what to do.
//
// # What a start checks
//
// After a clean stop: the two headers and their checksums, that the header is the one
// of the marker, the digest of the list of free pages, format, keys, that log and tree
// end together and no checkpoint is beyond them. Up to 64 MiB, and after every other
// stop, the child process also reads every page: page types, references, key order,
// free pages. Whatever was being written when the process died may be torn, and
// nothing tells where that was. So that start takes as long as the file is large.
//
// Every start holds the stored subtree hashes, which the next checkpoint signs, against
// the last checkpoint beside the file, by the leaf hashes after it, and refuses a log
// with more unsigned entries than the journal leaves. So a log that was rewritten or cut
// back without the key is not signed again. journal.db.signed is written after the
// commit: a crash in between leaves an older one there, which the log continues. Where it
// is missing, as beside a copy, the checkpoints in the file count, and a log without any
// is refused. With Options.Published the newest checkpoint elsewhere counts, too.
//
// Neither proves what entries say. [Journal.CheckEntries] hashes the newest entries
// for as long as its caller wants to wait; each entry is hashed again when it is read;
// and only Verify holds all of them against the checkpoints.
//
// # Who writes
//
// One goroutine, the committer, writes. It takes everything that callers have
// queued, without a timer, and commits it as one bbolt transaction. A single caller
// waits for one sync, and sixty-four callers share one.
//
// # What a verifier can and cannot find
//
// With the public key alone: any edited, removed, inserted or reordered entry
// that a checkpoint covers, by name where the leaf hashes still show it and
// otherwise as the range between two checkpoints; missing checkpoints; and
// entries after the last checkpoint that disagree with their own hashes. A
// file cut back to an earlier checkpoint, or a whole log forged by the holder
// of the private key, is consistent in itself: that is found only against a
// checkpoint kept elsewhere (VerifyOptions.Checkpoint). Entries after the last
// checkpoint anybody could have written: where the journal must have signed them by
// their times, Report.Overdue says so.
package audit
