package api

import "time"

// JournalStatus is the answer of GET /api/v1/journal.
type JournalStatus struct {
	Origin   string           `json:"origin"`            // name of the log, as its checkpoints are signed
	Entries  uint64           `json:"entries"`           // of the log
	Archived uint64           `json:"archived"`          // those of which the file has only the hash
	Bytes    int64            `json:"bytes"`             // size of the file
	Oldest   time.Time        `json:"oldest,omitzero"`   // of the first entry that is in no segment
	Segments []JournalSegment `json:"segments"`          // in the archive, oldest first
	Keep     string           `json:"keep,omitempty"`    // journal.keep of the service
	Archive  string           `json:"archive,omitempty"` // journal.archive of the service; absent: nothing is archived
	Next     *JournalStretch  `json:"next,omitempty"`    // what would be archived now
	Waits    string           `json:"waits,omitempty"`   // why nothing would be
	Failed   *JournalFailure  `json:"failed,omitempty"`  // the last attempt, when it failed
}

// JournalSegment is a stretch of the log in the archive.
type JournalSegment struct {
	Segment string `json:"segment"` // name of its file
	First   uint64 `json:"first"`
	Last    uint64 `json:"last"`
	Bytes   int64  `json:"bytes"`  // size of its file
	SHA256  string `json:"sha256"` // of its file
}

// JournalStretch is a part of the log that is archived at once.
type JournalStretch struct {
	First         uint64    `json:"first"`
	Last          uint64    `json:"last"`
	From          time.Time `json:"from"` // of its oldest and newest entry
	To            time.Time `json:"to"`
	Bodies        int       `json:"bodies"`            // entries whose bodies leave the file
	Notifications int       `json:"notifications"`     // of them
	Decisions     int       `json:"decisions"`         // about alerts, of them
	Runs          int       `json:"runs"`              // that ended in it or that people were told of only then, whose entries those are
	Kept          int       `json:"kept"`              // runs that ended in it and stay: people are still to be told
	Segment       string    `json:"segment,omitempty"` // where it is; absent: it was not archived
}

// JournalFailure is why the journal could not be archived.
type JournalFailure struct {
	At      time.Time `json:"at"`
	Message string    `json:"message"`
}

// JournalArchiveRequest is the body of POST /api/v1/journal/archive. One request
// archives one stretch.
type JournalArchiveRequest struct {
	DryRun bool   `json:"dryRun,omitempty"` // only say what would be archived
	From   uint64 `json:"from,omitempty"`   // of a dry run: the first entry of the stretch, when it is not the first
}

// JournalArchive is the answer of POST /api/v1/journal/archive.
type JournalArchive struct {
	Stretch *JournalStretch `json:"stretch,omitempty"` // absent: there was nothing to archive
	More    bool            `json:"more"`              // ask again: another stretch may follow
	Waits   string          `json:"waits,omitempty"`   // why there was nothing, or there is no more
}

// JournalArchived is what `responder journal archive -o json` prints.
type JournalArchived struct {
	Stretches []JournalStretch `json:"stretches"`
	Waits     string           `json:"waits,omitempty"` // why there is no more
}

// SegmentVerification is what `responder audit verify -o json` prints of each segment: of
// the one that was named, or of those in a directory.
type SegmentVerification struct {
	Intact  bool      `json:"intact"`
	File    string    `json:"file"`
	Origin  string    `json:"origin"` // of the journal
	First   uint64    `json:"first"`  // entry
	Last    uint64    `json:"last"`
	From    time.Time `json:"from,omitzero"` // of its oldest and newest entry
	To      time.Time `json:"to,omitzero"`
	Bytes   int64     `json:"bytes"`
	SHA256  string    `json:"sha256"`            // of the file
	Root    string    `json:"root,omitempty"`    // of the log up to its last entry, as it was signed
	Finding *Finding  `json:"finding,omitempty"` // the first thing that is wrong
}

// JournalRestored is what `responder journal restore -o json` prints of each segment.
type JournalRestored struct {
	Segment  SegmentVerification `json:"segment"`
	Restored uint64              `json:"restored"` // bodies that were put back
	Present  uint64              `json:"present"`  // bodies that were there
}

// JournalRedacted is what `responder audit redact -o json` prints.
type JournalRedacted struct {
	Entries  []Redaction `json:"entries"`
	Segments []string    `json:"segments,omitempty"` // of the archive, which have such entries as they were
	Archived uint64      `json:"archived"`           // entries that were not looked at: only the archive has their bodies
}

// Redaction is an entry of which a text was taken out afterwards.
type Redaction struct {
	Entry  uint64    `json:"entry"`
	Stream string    `json:"stream"`
	Kind   string    `json:"kind"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// JournalCompacted is what `responder journal compact -o json` prints.
type JournalCompacted struct {
	File   string `json:"file"`
	Before int64  `json:"before"` // its size in bytes
	After  int64  `json:"after"`
}
