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
	"github.com/inference-responder/responder/internal/runview"
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

// The words for what verifying a journal found.
const (
	Intact    = "intact"
	NotIntact = "NOT INTACT"
	NotProven = "NOT PROVEN"
)

// VerificationWords returns what verifying a journal found in words: one of the above, what
// is wrong, and the facts with their names.
func VerificationWords(r audit.Report) (standing, wrong string, facts [][2]string) {
	if !r.OK() {
		return NotIntact, r.FirstBad.String(), nil
	}
	standing = Intact
	if r.Overdue != "" {
		standing = NotProven
		wrong = fmt.Sprintf("%d of its %d entries are not signed: %s.\nWhoever can write the file could have written them. They are left by a crash, or their\n"+
			"checkpoints were removed.", r.Unsigned, r.Entries, r.Overdue)
	}
	add := func(name, format string, args ...any) {
		facts = append(facts, [2]string{name, fmt.Sprintf(format, args...)})
	}
	add("origin", "%s, since %s", r.Origin, r.Created)
	add("entries", "%d in %s", r.Entries, runview.Count(int(r.Streams), "stream")) //nolint:gosec // a count of streams fits
	if r.Archived > 0 {
		add("archived", "%d of them: their bodies are in %s of the archive, their hashes here", r.Archived, runview.Count(int(r.Segments), "segment")) //nolint:gosec // a count of segments fits
	}
	add("checkpoints", "%d, the last over %d entries", r.Checkpoints, r.Signed)
	if r.Unsigned > 0 {
		add("unsigned", "%s after it: consistent, but no signature covers them yet", runview.Count(int(r.Unsigned), "entry")) //nolint:gosec // a count of entries fits
	}
	for _, x := range r.Redacted {
		facts = append(facts, RedactionWords(x))
	}
	switch {
	case r.External:
		add("continues", "the checkpoint given, so nothing it covers was cut off")
	case r.Beside:
		add("continues", "the checkpoint beside it: all that it covers is there, unchanged")
	case r.Unread != "":
		add("beside it", "is a checkpoint that proves nothing: %s", r.Unread)
	}
	add("root", "%s", r.Root)
	return standing, wrong, facts
}

// RedactionWords names an entry of which a text was taken out.
func RedactionWords(r audit.Redaction) [2]string {
	return [2]string{"redacted", fmt.Sprintf("entry %d (%s %s) by %s at %s: %s", r.Seq, r.Stream, r.Kind, r.By, runview.Time(r.At), r.Reason)}
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
