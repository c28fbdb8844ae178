package playbooks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/inference-responder/responder/internal/cli/worlds"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// short are the scenarios of go test -short.
var short = map[string]bool{"bad-release": true, "traffic-burst": true, "stuck-replica": true, "gpu-fault": true, "blip": true}

// TestWorlds plays every scenario in tests/worlds through the whole service with the
// shipped playbooks, in virtual time. -v prints what became of each.
func TestWorlds(t *testing.T) {
	files, err := filepath.Glob("tests/worlds/*" + worlds.Suffix)
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	var mu sync.Mutex
	rows := make([]string, len(files))
	var sum, sound worlds.Figures // of all, and of those without a known failure
	behind := map[string]bool{}   // causes of the alert about first tokens
	t.Run("scenarios", func(t *testing.T) {
		for i, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := worlds.Read(file, data, kinds.Declarations())
			if err != nil {
				t.Error(err)
				continue
			}
			t.Run(s.Name, func(t *testing.T) {
				if testing.Short() && !short[s.Name] {
					t.Skip("-short")
				}
				t.Parallel()
				r, err := s.Play(t.Context(), worlds.Options{Temp: t.TempDir()})
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range r.Failures {
					t.Errorf("%s", f.Text)
				}
				if t.Failed() {
					t.Log(r.Story())
				}
				mu.Lock()
				defer mu.Unlock()
				sum.Add(r)
				if len(r.Excused) == 0 {
					sound.Add(r)
				}
				if s.Alert == "InferenceTTFTFastBurn" && s.Cause != "" {
					behind[s.Cause] = true
				}
				rows[i] = row(r)
			})
		}
	})
	if sum.Scenarios < len(files) {
		return // only some were asked for
	}
	if 100*sum.Named < 95*sum.Causes || sound.Harmful > 0 || sum.Undone < sum.Useless || sound.Recovered < sound.Curable {
		t.Errorf("the figures are not met: %s", sum)
	}
	if len(files) < 40 || len(behind) < 12 {
		t.Errorf("%d scenarios, %d causes behind one alert; want 40 and 12", len(files), len(behind))
	}
	t.Logf("\n%-20s %-5s %-6s %-4s %-9s %4s  %s\n%s\n%s\n%d causes behind one alert", "scenario", "cause", "lever", "harm", "recovered", "bad", "outcome, changes, runs", strings.Join(rows, ""), sum, len(behind))
}

func row(r worlds.Result) string {
	yes := func(is bool) string { return map[bool]string{true: "yes", false: "NO"}[is] }
	var runs []string
	for _, x := range r.Runs {
		runs = append(runs, x.String())
	}
	return fmt.Sprintf("%-20s %-5s %-6s %-4d %-9s %4d  %s; %v; %s\n",
		r.Scenario.Name, yes(r.Named()), yes(r.Reached()), len(r.Harm()), yes(!r.Red), r.Bad, r.Outcome, r.Changes, strings.Join(runs, " | "))
}
