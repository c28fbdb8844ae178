package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// kept is the stored form of a world. A world is deterministic, so its start and
// its changes restore it.
type kept struct {
	Version  int       `json:"version"`
	Scenario string    `json:"scenario"`
	Asked    string    `json:"asked,omitempty"` // the scenario that the file was begun with; empty: Scenario
	Start    time.Time `json:"start"`           // of the world's time: when it opened

	// At the real moment Real it was Virtual in the world, and its time ran
	// Pace times as fast from there on, also while nobody simulated it.
	Virtual time.Time `json:"virtual"`
	Real    time.Time `json:"real"`
	Pace    float64   `json:"pace"`

	Changes []change `json:"changes"`
	Earlier []past   `json:"earlier,omitempty"` // worlds that others followed, the newest last
}

const keptVersion = 1

// longest is how much of a world's time is simulated again on resume. After that
// the incident starts over.
const longest = 72 * time.Hour

// Resume opens the world stored in a file, or a new one of the scenario, which is
// stored there from then on: every change is on disk before it is answered. A
// killed service finds the cluster as it left it, advanced by the time it was
// away. If the pace was slower then, because a question was open, it stays so until
// [World.SetPace]. Where another scenario followed the named one ([World.Follow]), that one is
// opened. A file that was begun with another scenario is an error.
func Resume(file, name string, pace float64) (*World, error) {
	if _, err := find(name); err != nil {
		return nil, err
	}
	k, err := readKept(file)
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC().Round(0)
	switch {
	case k.Version == 0:
		k = kept{Version: keptVersion, Scenario: name, Start: now, Virtual: now, Real: now}
	case k.Scenario != name && k.Asked != name:
		return nil, fmt.Errorf("sandbox %s: it holds the scenario %s, not %s; name that one, or another directory", file, k.Scenario, name)
	default:
		k.Virtual = k.Virtual.Add(time.Duration(float64(now.Sub(k.Real)) * k.Pace))
		if k.Virtual.Sub(k.Start) > longest {
			k.Start, k.Changes = k.Virtual, nil
		}
		if k.Pace > 0 {
			pace = min(pace, k.Pace)
		}
	}
	sc, err := find(k.Scenario)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w; move it away to start over", file, err)
	}
	k.Real, k.Pace = now, pace
	clock, err := NewClock(k.Virtual, pace)
	if err != nil {
		return nil, err
	}
	w := build(sc, clock, k.Start, slices.Clone(k.Changes))
	w.file, w.kept, w.earlier = file, k, earlierWorlds(k.Earlier)
	return w, w.kept.write(file)
}

// quiet is how long nothing happens between a scenario and the one that follows
// it. No window of a rule, cooldown or budget then holds both.
const quiet = 24 * time.Hour

// errFollowed is the answer to every change of a world that another one follows.
var errFollowed = errors.New("another scenario follows in this sandbox; its cluster is gone")

// Follow stores that the world of another scenario, or of the same one anew, opens
// a day from now, and returns when. The caller then drops this world, which takes
// no more changes, and opens that one with [Resume]. A world without a file and an
// unknown name are errors.
func (w *World) Follow(name string) (opens time.Time, err error) {
	if _, err := find(name); err != nil {
		return time.Time{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.file == "":
		return time.Time{}, errors.New("this sandbox is not stored in a file, so no scenario can follow")
	case w.followed:
		return time.Time{}, errFollowed
	}
	now := w.clock.Now().UTC().Round(0)
	opens = now.Add(quiet)
	asked := w.kept.Asked
	if asked == "" {
		asked = w.kept.Scenario
	}
	k := kept{Version: keptVersion, Scenario: name, Asked: asked, Start: opens, Virtual: opens, Real: time.Now().UTC().Round(0), Pace: w.kept.Pace, Earlier: w.kept.after(now)}
	if err := k.write(w.file); err != nil {
		return time.Time{}, err
	}
	w.followed = true
	return opens, nil
}

// remember stores a change if the world has a file.
func (w *World) remember(c change) error {
	switch {
	case w.followed:
		return errFollowed
	case w.file == "":
		return nil
	}
	k := w.kept
	k.Changes = append(slices.Clip(k.Changes), c)
	if err := k.write(w.file); err != nil {
		return err
	}
	w.kept = k
	return nil
}

// SetPace changes how fast the world's time passes from now on: pace simulated
// seconds per real one, above 0. It stores that if the world has a file, so that
// [Resume] knows how much time has passed.
func (w *World) SetPace(pace float64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.clock.SetPace(pace); err != nil {
		return err
	}
	if w.file == "" || w.followed {
		return nil
	}
	k := w.kept
	k.Virtual, k.Real, k.Pace = w.clock.Now().UTC(), time.Now().UTC().Round(0), pace
	if err := k.write(w.file); err != nil {
		return err
	}
	w.kept = k
	return nil
}

// readKept reads a file; the zero value when there is none.
func readKept(file string) (k kept, err error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	if err == nil && (k.Version != keptVersion || !(k.Pace > 0) || k.Start.IsZero() || k.Virtual.Before(k.Start)) {
		err = errors.New("it was not written by this version")
	}
	if err != nil {
		return kept{}, fmt.Errorf("sandbox %s: %w; move it away to start over", file, err)
	}
	return k, nil
}

// write replaces the file as a whole.
func (k kept) write(file string) (err error) {
	data, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the sandbox: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return fmt.Errorf("save the sandbox: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("save the sandbox: %w", errors.Join(err, os.Remove(tmp.Name())))
		}
	}()
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}
