package machine

import (
	"fmt"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// lookEvery is how far apart two visits have to be if the later one is not to count.
const lookEvery = time.Minute

// rounds returns how often a state was entered if the run enters it now. A visit does
// not count if the run only waited and looked since the visit before, for a minute at
// least: such a run is bounded by its time and by the length of its path.
func (s State) rounds(name string, now time.Time) int {
	n, looked, last := 0, false, time.Time{}
	for _, v := range append(s.Path[:len(s.Path):len(s.Path)], Visit{State: name, At: now}) {
		st := s.Playbook.State(v.State)
		if v.State == name {
			if !looked || v.At.Sub(last) < lookEvery {
				n++
			}
			looked, last = true, v.At
		}
		looked = looked && st != nil && (st.Kind == playbook.StateWait || st.Kind == playbook.StateCheck || st.Kind == playbook.StateGather)
	}
	return n
}

// inVain describes the wait that the run made most often, for people: what it waited
// for, how often, and what the last look showed. It begins with a colon. Without a
// wait it says that the incident is not over.
func (s State) inVain() string {
	times, most, edge := map[string]int{}, "", ""
	for _, v := range s.Path {
		if st := s.Playbook.State(v.State); st == nil || st.Kind != playbook.StateWait {
			continue
		}
		if times[v.State]++; times[v.State] >= times[most] {
			most, edge = v.State, v.Edge
		}
	}
	if most == "" {
		return ": the incident is not over"
	}
	st := s.Playbook.State(most)
	text := fmt.Sprintf(": the incident is not over after %s in state %s", counted(times[most], "wait"), most)
	if st.Wait.Until == nil {
		return text
	}
	text += fmt.Sprintf(" for %s", st.Wait.Until.Source())
	if e := s.Evidence[most]; e != nil && e.Unknown == "" {
		sc := s.scope(s.Updated)
		sc.Out = e.Data
		if values := st.Wait.Until.Values(sc); len(values) > 0 {
			text += fmt.Sprintf("; the last look showed %s", strings.Join(values, ", "))
		}
	}
	return text + after(edge)
}

// counted returns a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
