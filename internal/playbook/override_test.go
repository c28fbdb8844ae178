package playbook

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// overrides reads entries as responder.yaml has them, from its line 3 on.
func overrides(t *testing.T, text string) (Overrides, error) {
	t.Helper()
	var problems yamldoc.Problems
	doc := yamldoc.Single("responder.yaml", []byte("\n\n"+text), 1<<20, &problems)
	if doc == nil {
		t.Fatal(problems)
	}
	var out Overrides
	out.DecodeYAML(doc, doc.Root, "playbooks.autonomy")
	return out, problems.Err()
}

// testBooks is a set of two playbooks: slow, whose lever careful says suggest, and gone.
func testBooks(t *testing.T) *Set {
	t.Helper()
	level := Suggest
	p := &Playbook{Name: "slow", Source: "slow.yaml:1", Autonomy: Suggest, States: []*State{
		{Name: "look", Kind: StateCheck}, {Name: "add", Kind: StateLever}, {Name: "careful", Kind: StateLever, Autonomy: &level},
	}}
	p.byName = map[string]*State{}
	for _, s := range p.States {
		p.byName[s.Name] = s
	}
	set, err := NewSet([]*Playbook{p, {Name: "gone", Autonomy: Auto}})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestOverridden(t *testing.T) {
	for name, tt := range map[string]struct {
		text          string
		add, careful  string // levels, and where they come from
		line, refused string
	}{
		"nothing":             {"{}", "suggest", "suggest", "", ""},
		"all levers":          {"slow: auto", "auto by playbooks.autonomy of responder.yaml", "suggest", "auto, by playbooks.autonomy of responder.yaml", ""},
		"one lever":           {"slow/add: auto", "auto by playbooks.autonomy of responder.yaml", "suggest", "add auto, by playbooks.autonomy of responder.yaml", ""},
		"lowered":             {"slow: observe", "observe by playbooks.autonomy of responder.yaml", "observe by playbooks.autonomy of responder.yaml", "observe, by playbooks.autonomy of responder.yaml", ""},
		"a lever goes before": {"slow: observe\nslow/add: auto", "auto by playbooks.autonomy of responder.yaml", "observe by playbooks.autonomy of responder.yaml", "observe, add auto, by playbooks.autonomy of responder.yaml", ""},

		"unknown playbook":          {text: "slo: auto", refused: `responder.yaml:3:1: playbooks.autonomy.slo: no playbook "slo" is in force (did you mean "slow"? allowed: gone, slow)`},
		"unknown state":             {text: "slow/addd: auto", refused: `responder.yaml:3:1: playbooks.autonomy.slow/addd: playbook slow has no state "addd" (did you mean "add"? allowed: add, careful)`},
		"no lever":                  {text: "slow/look: auto", refused: `responder.yaml:3:1: playbooks.autonomy.slow/look: state look of playbook slow is a check: only levers have a level (allowed: add, careful)`},
		"the state's own is lower":  {text: "slow/careful: auto", refused: `responder.yaml:3:1: playbooks.autonomy.slow/careful: auto has no effect: state careful of playbook slow itself says suggest, which always holds (change the state's own level in slow.yaml:1)`},
		"unknown level":             {text: "slow: atuo", refused: `responder.yaml:3:7: playbooks.autonomy.slow: unknown autonomy level "atuo" (did you mean "auto"? allowed: observe, suggest, auto)`},
		"no name":                   {text: "slow/: auto", refused: `responder.yaml:3:1: playbooks.autonomy.slow/: must name a playbook, or one of its levers (write PLAYBOOK: LEVEL, or PLAYBOOK/STATE: LEVEL)`},
		"no mapping":                {text: "[slow]", refused: `responder.yaml:3:1: playbooks.autonomy: want a mapping, got a list`},
		"all problems of the whole": {text: "slo: auto\nslow/ad: auto", refused: "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			set := testBooks(t)
			by, err := overrides(t, tt.text)
			if err == nil {
				set, err = set.Overridden(by)
			}
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Fatalf("refused with %v, want %s", err, tt.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			p, o := set.ByName("slow"), set.Override("slow")
			said := func(state string) string {
				level, by := p.Level(p.State(state), o)
				return strings.TrimSuffix(level.String()+" by "+by, " by ")
			}
			line := ""
			if o != nil {
				line = o.String()
			}
			if diff := cmp.Diff([]string{tt.add, tt.careful, tt.line}, []string{said("add"), said("careful"), line}); diff != "" {
				t.Errorf("levels (-want +got):\n%s", diff)
			}
		})
	}
}
