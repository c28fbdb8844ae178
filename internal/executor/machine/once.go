package machine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"
)

// OnceWithin is how long at most what one run told is told by no other run.
const OnceWithin = time.Hour

// Telling is what a run told with once.
type Telling struct {
	Run string
	At  time.Time
}

// toldEvidence is the evidence of a notify state with once, as
// [playbook.State.Once] declares it.
type toldEvidence struct {
	First bool   `json:"first"`
	Run   string `json:"run"`
}

func toldData(first bool, run string) json.RawMessage {
	data, err := json.Marshal(toldEvidence{first, run})
	if err != nil {
		panic("machine: " + err.Error()) // unreachable: it is a bool and a string
	}
	return data
}

// LeftTo reports whether the run told nobody because another one had.
func (s State) LeftTo(teller string) bool {
	want := toldData(false, teller)
	for _, e := range s.Evidence {
		if bytes.Equal(e.Data, want) {
			return true
		}
	}
	return false
}

// once returns the text that the current notify state tells once; empty: every
// run tells it.
func (s State) once(now time.Time) (string, error) {
	st := s.current()
	if st.Once == nil {
		return "", nil
	}
	text, err := st.Once.Text(s.scope(now))
	if err != nil {
		return "", fmt.Errorf("once: %w", s.lacksAlert(err))
	}
	return strings.TrimSpace(text), nil
}

// shared leaves a notify state whose message another run has told.
func (t *turn) shared(once string, told Telling) {
	t.emit(Event{
		Kind: NoticeShared, State: t.s.Current, Once: once, Data: toldData(false, told.Run),
		Message: fmt.Sprintf("run %s told it at %s", told.Run, told.At.UTC().Format("15:04:05Z")),
	})
	t.next()
}

// toldBy records which run tells what the current state has to tell, and that it
// is this one when it is the first.
func (s State) toldBy(e Event) State {
	s.Evidence = maps.Clone(s.Evidence)
	s.Evidence[s.Current] = &Evidence{At: e.At, Data: e.Data}
	if e.Kind == NoticeShared {
		return s
	}
	told := maps.Clone(s.Told)
	if told == nil {
		told = map[string]time.Time{}
	}
	told[e.Once] = e.At
	s.Told = told
	return s
}

// untold forgets that the run tells what is open: it reached nobody.
func (s State) untold() State {
	if s.Open == nil || s.Open.Once == "" {
		return s
	}
	s.Told = maps.Clone(s.Told)
	delete(s.Told, s.Open.Once)
	return s
}
