package api

import "time"

// Backup is what `responder backup -o json` prints, and backup.json in the backup.
type Backup struct {
	Made     time.Time        `json:"made"`
	Origin   string           `json:"origin"`        // name of the log
	Entries  uint64           `json:"entries"`       // all of them are signed
	Last     time.Time        `json:"last,omitzero"` // of the last entry
	Root     string           `json:"root"`          // hash over all entries
	Key      bool             `json:"key"`           // the private key is in the backup
	Segments []JournalSegment `json:"segments"`      // of the archive, oldest first; they are not in the backup
	Dir      string           `json:"dir,omitempty"` // of the backup; not in backup.json
	Version  string           `json:"version"`       // version of the program that made the backup
}

// Restored is what `responder restore -o json` prints.
type Restored struct {
	File     string        `json:"file"` // of the journal
	Origin   string        `json:"origin"`
	Entries  uint64        `json:"entries"`            // of the backup
	Last     time.Time     `json:"last,omitzero"`      // of its last entry: nothing later is known
	Lost     uint64        `json:"lost"`               // entries of the previous journal that the backup does not have; 0 if it could not be read
	Replaced string        `json:"replaced,omitempty"` // directory with the previous journal and keys; absent: there were none
	Open     []RestoredRun `json:"open"`               // runs that have not ended in the backup
	Segments []string      `json:"segments"`           // that the archive must contain
}

// RestoredRun is a run that has not ended in a backup.
type RestoredRun struct {
	Run  string    `json:"run"`
	Last string    `json:"last"` // kind of its last event
	At   time.Time `json:"at"`   // of that event
}
