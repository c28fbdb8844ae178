package dispatch

import (
	"encoding/json"
	"fmt"

	"github.com/inference-responder/responder/internal/audit"
)

// Streams of the journal.
const (
	StreamIntake = "intake"   // notifications as they were admitted
	Stream       = "dispatch" // what became of their alerts: Record
)

// Kinds of records in the stream dispatch: what became of alerts.
const (
	KindMatched     = "alert.matched"            // a run started
	KindCoalesced   = "alert.coalesced"          // it joined the open run about its service
	KindRepeated    = "alert.repeated"           // known already: a repeat, a duplicate, or too late
	KindResolved    = "alert.resolved"           // its runs, if any are open, were told
	KindRefired     = "alert.refired"            // resolved and firing again: its open runs were told
	KindUnmatched   = "alert.unmatched"          // no playbook
	KindNoService   = "alert.no-service"         // no service, or more than one
	KindSuppressed  = "alert.suppressed"         // a pause, a clock that is ahead, too many open runs, a catalog that cannot say
	KindEmpty       = "notification.empty"       // it carried no alerts
	KindReleased    = "alert.released"           // no record: its run was released, which a record of the stream control says
	KindQuarantined = "notification.quarantined" // it cannot be processed; quarantined for people to look at
)

// Record is a record of the stream dispatch: what became of some alerts of one
// notification. The last record of the stream is the dispatcher's cursor.
type Record struct {
	Notification uint64   `json:"notification"`       // its position in the log
	Index        uint64   `json:"index"`              // its position in the stream intake
	Upto         int      `json:"upto"`               // alerts of the notification decided so far
	Done         bool     `json:"done,omitempty"`     // all are
	Episodes     []string `json:"episodes,omitempty"` // fingerprint@start
	Run          string   `json:"run,omitempty"`
	Playbook     string   `json:"playbook,omitempty"` // of the run; where there is none, the one that matches
	Service      string   `json:"service,omitempty"`
	Reason       string   `json:"reason,omitempty"`
	Status       string   `json:"status,omitempty"` // firing or resolved
	Retry        bool     `json:"retry,omitempty"`  // suppressed for a reason that may be gone soon: it is asked again by itself
	Again        bool     `json:"again,omitempty"`  // decided anew after a pause: Index, Upto and Done only repeat the cursor
}

// paused reports whether a record of that kind says that a pause is in the way: what else
// suppresses an alert is asked again by itself, is a run in quarantine, or is known before
// a playbook is.
func (r Record) paused(kind string) bool {
	return kind == KindSuppressed && !r.Retry && r.Run == "" && r.Playbook != ""
}

// encode is JSON of this package's own structs.
func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic("dispatch: cannot encode: " + err.Error()) // unreachable unless a struct of this package holds NaN or a channel
	}
	return data
}

// DecodeRecord reads a record of the stream dispatch.
func DecodeRecord(r audit.Record) (Record, error) {
	var v Record
	if err := json.Unmarshal(r.Data, &v); err != nil {
		return v, fmt.Errorf("decode %s, entry %d of the journal: %w", r.Kind, r.Seq, err)
	}
	return v, nil
}
