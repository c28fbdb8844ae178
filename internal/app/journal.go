package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/config"
)

// JournalFile is the name of the journal's file in its directory.
const JournalFile = "journal.db"

// openJournal opens or creates the journal of a configuration. The file is first examined
// by a child process of this program. observe is told how long each append took.
func openJournal(c config.Journal, observe func(time.Duration), failpoint func(string) error) (*audit.Journal, error) {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open journal: %w; journal.dir or --dir names a directory this user may write", err)
	}
	check, err := SelfChecker()
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j, err := audit.Open(filepath.Join(c.Dir, JournalFile), audit.Options{
		Checker: check, Observe: observe, Failpoint: failpoint, Key: c.KeyFile, Published: c.Checkpoints.Dir,
	})
	if err != nil {
		return nil, err
	}
	within := checkWithin
	if j.Clean() {
		within = checkClean
	}
	if err := j.CheckEntries(within); err != nil {
		err = fmt.Errorf("check the journal's entries: %w", err)
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// How long the entries are checked before the service begins, the newest first:
// longer would keep a large journal from serving. Nothing may be acknowledged that
// would follow entries which were changed since they were written. After a clean stop
// that is worth less than an early start. An entry that was not reached is checked when
// it is read, and by 'audit verify'.
const (
	checkWithin = 5 * time.Second
	checkClean  = 500 * time.Millisecond
)

// SelfChecker examines a journal's file in a child process of this program.
func SelfChecker() (audit.Checker, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to check the file with: %w", err)
	}
	return audit.CheckerCommand(exe, "internal", "check-journal"), nil
}

// VerificationOf returns the result of a verification as the API has it.
func VerificationOf(r audit.Report) api.Verification {
	out := api.Verification{
		Intact: r.OK() && r.Overdue == "", Overdue: r.Overdue, Origin: r.Origin, Since: r.Created, Entries: r.Entries, Streams: r.Streams, Checkpoints: r.Checkpoints,
		Signed: r.Signed, Unsigned: r.Unsigned, Root: r.Root, Continues: r.External || r.Beside,
	}
	out.Archived, out.Segments, out.Finding = r.Archived, r.Segments, findingOf(r.FirstBad)
	if len(r.Redacted) > 0 {
		out.Redacted = RedactionsOf(r.Redacted)
	}
	return out
}

// RedactionsOf returns what was redacted as the API has it.
func RedactionsOf(all []audit.Redaction) []api.Redaction {
	out := make([]api.Redaction, len(all))
	for i, r := range all {
		out[i] = api.Redaction{Entry: r.Seq, Stream: r.Stream, Kind: r.Kind, By: r.By, Reason: r.Reason, At: r.At}
	}
	return out
}

// SegmentVerificationOf returns what verifying a segment found as the API has it.
func SegmentVerificationOf(r audit.SegmentReport) api.SegmentVerification {
	return api.SegmentVerification{
		Intact: r.OK(), File: r.File, Origin: r.Origin, First: r.First, Last: r.Last, From: r.From, To: r.To,
		Bytes: r.Bytes, SHA256: r.Digest, Root: r.Root, Finding: findingOf(r.FirstBad),
	}
}

func findingOf(f *audit.Finding) *api.Finding {
	if f == nil {
		return nil
	}
	return &api.Finding{Seq: f.Seq, Last: f.Last, Stream: f.Stream, Kind: f.Kind, Time: f.Time, Problem: f.Problem}
}
