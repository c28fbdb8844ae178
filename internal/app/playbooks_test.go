package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/playbook"
)

// inForce is the set that is in force by the journal: digests by name. It is
// nil when the journal has none.
func inForce(t *testing.T, s *Service) map[string]string {
	t.Helper()
	var last executor.Loaded
	for rec, err := range s.journal.Stream(controlStream, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if rec.Kind != executor.KindLoaded {
			continue
		}
		last = executor.Loaded{}
		if err := json.Unmarshal(rec.Data, &last); err != nil {
			t.Fatal(err)
		}
	}
	return last.Playbooks
}

// What is taken away stays away: the journal says so at once, over a restart
// too, and a bad file later does not bring it back.
func TestRemovedPlaybookStaysAway(t *testing.T) {
	good, err := os.ReadFile(rollbackPlaybook)
	if err != nil {
		t.Fatal(err)
	}
	c := SandboxConfig()
	c.Playbooks.Shipped = false
	c.Playbooks.Dir, c.Journal.Dir = t.TempDir(), t.TempDir()
	kept, removed := filepath.Join(c.Playbooks.Dir, "kept.yaml"), filepath.Join(c.Playbooks.Dir, "removed.yaml")
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	started := func(what string, want ...string) {
		t.Run(what, func(t *testing.T) {
			s, _ := startServiceWith(t, c, false)
			until(t, "ready", func() bool { return len(s.missing()) == 0 })
			if diff := cmp.Diff(want, PlaybookNames(s.library.set())); diff != "" {
				t.Errorf("in force (-want +got):\n%s", diff)
			}
			if got := inForce(t, s); len(got) != len(want) {
				t.Errorf("by the journal %v are in force, want %v", got, want)
			}
		})
	}
	write(kept, string(good))
	write(removed, strings.Replace(string(good), "name: test-rollback", "name: unwanted", 1))
	started("both", "test-rollback", "unwanted")
	if err := os.Remove(removed); err != nil {
		t.Fatal(err)
	}
	started("one is removed while the service is down", "test-rollback")
	write(kept, "kind: Nonsense\n")
	started("a bad file", "test-rollback")
}

// The last playbook goes while no alert comes: the journal says that none is in
// force, and readiness does.
func TestEmptiedDirectoryIsRecorded(t *testing.T) {
	good, err := os.ReadFile(rollbackPlaybook)
	if err != nil {
		t.Fatal(err)
	}
	c := SandboxConfig()
	c.Playbooks.Shipped = false
	c.Playbooks.Dir = t.TempDir()
	file := filepath.Join(c.Playbooks.Dir, "playbook.yaml")
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := startService(t, c)
	until(t, "ready, and recorded", func() bool { return len(s.missing()) == 0 && len(inForce(t, s)) == 1 })
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	until(t, "by the journal none is in force", func() bool { return len(inForce(t, s)) == 0 })
	if diff := cmp.Diff([]string{"playbooks: none are loaded"}, s.missing()); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "ready again, and recorded", func() bool { return len(s.missing()) == 0 && len(inForce(t, s)) == 1 })
}

// A start without the directory goes on with what was in force, as one with a
// bad file does, and what comes into the directory is found.
func TestMissingPlaybookDirectory(t *testing.T) {
	good, err := os.ReadFile(rollbackPlaybook)
	if err != nil {
		t.Fatal(err)
	}
	c := SandboxConfig()
	c.Playbooks.Shipped = false
	c.Playbooks.Dir, c.Journal.Dir = filepath.Join(t.TempDir(), "playbooks"), t.TempDir()
	put := func(text string) {
		t.Helper()
		if err := os.MkdirAll(c.Playbooks.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(c.Playbooks.Dir, "playbook.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(string(good))
	t.Run("first start", func(t *testing.T) {
		s, _ := startServiceWith(t, c, false)
		until(t, "ready", func() bool { return len(s.missing()) == 0 })
	})
	if err := os.RemoveAll(c.Playbooks.Dir); err != nil {
		t.Fatal(err)
	}
	t.Run("second start", func(t *testing.T) {
		s, _ := startServiceWith(t, c, false)
		until(t, "ready, and the rejection is counted", func() bool {
			return len(s.missing()) == 0 && scrape(t, s.metrics)["responder_playbooks_rejected_total"] == "1"
		})
		if diff := cmp.Diff([]string{"test-rollback"}, PlaybookNames(s.library.set())); diff != "" {
			t.Errorf("in force (-want +got):\n%s", diff)
		}
		put(strings.Replace(string(good), "title: Test rollback", "title: Another title", 1))
		until(t, "the new file is in force", func() bool {
			pb := s.library.set().ByName("test-rollback")
			return pb != nil && pb.Title == "Another title"
		})
	})
}

// A reload keeps the levels that the configuration sets in place of the playbook's
// own, and a playbook that they no longer fit is not put in force: the last good one
// stays, over a restart too.
func TestConfiguredAutonomyOverAReload(t *testing.T) {
	good, err := os.ReadFile(rollbackPlaybook)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(good), "autonomy: auto", "autonomy: suggest", 1)
	c := SandboxConfig()
	c.Playbooks.Shipped = false
	c.Playbooks.Dir, c.Journal.Dir = t.TempDir(), t.TempDir()
	c.Playbooks.Autonomy = playbook.Overrides{{Playbook: "test-rollback", State: "rollback", Level: playbook.Auto, By: "playbooks.autonomy of responder.yaml"}}
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(c.Playbooks.Dir, "playbook.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	level := func(s *Service) playbook.Autonomy {
		set := s.library.set()
		p := set.All()[0]
		level := p.Parts(p.State("rollback"), playbook.Auto, set.Override(p.Name, ""))[1].Level
		return level
	}
	put(text)
	t.Run("reload", func(t *testing.T) {
		s, _ := startServiceWith(t, c, false)
		until(t, "ready", func() bool { return len(s.missing()) == 0 })
		put(strings.Replace(text, "title: Test rollback", "title: Another title", 1))
		until(t, "the new file is in force", func() bool { return s.library.set().All()[0].Title == "Another title" })
		if got := level(s); got != playbook.Auto {
			t.Errorf("%s after a reload", got)
		}
		put(strings.NewReplacer("    rollback:", "    back:", "to: rollback", "to: back").Replace(text))
		until(t, "the rejection is counted", func() bool { return scrape(t, s.metrics)["responder_playbooks_rejected_total"] == "1" })
		if got := level(s); got != playbook.Auto || s.library.set().All()[0].State("rollback") == nil {
			t.Errorf("%s after a rejected reload, title %s", got, s.library.set().All()[0].Title)
		}
	})
	t.Run("start with the last good", func(t *testing.T) {
		s, _ := startServiceWith(t, c, false)
		if got := level(s); got != playbook.Auto {
			t.Errorf("%s after a start", got)
		}
	})
}
