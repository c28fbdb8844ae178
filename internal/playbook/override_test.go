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
	return overridesAt(t, "playbooks.autonomy", text)
}

func overridesAt(t *testing.T, path, text string) (Overrides, error) {
	t.Helper()
	var problems yamldoc.Problems
	doc := yamldoc.Single("responder.yaml", []byte("\n\n"+text), 1<<20, &problems)
	if doc == nil {
		t.Fatal(problems)
	}
	var out Overrides
	out.DecodeYAML(doc, doc.Root, path)
	return out, problems.Err()
}

// testBooks is a set of three playbooks: slow, whose lever careful says suggest,
// more, which is for the service chat only, and gone.
func testBooks(t *testing.T) *Set {
	t.Helper()
	level := Suggest
	slow := &Playbook{Name: "slow", Source: "slow.yaml:1", Autonomy: Suggest, States: []*State{
		{Name: "look", Kind: StateCheck}, {Name: "add", Kind: StateLever, Step: "kube.scale"}, {Name: "careful", Kind: StateLever, Step: "node.drain", Autonomy: &level},
	}}
	more := &Playbook{Name: "more", Autonomy: Suggest, services: []string{"chat"}, States: []*State{
		{Name: "grow", Kind: StateLever, Step: "kube.scale"}, {Name: "evict", Kind: StateLever, Step: "pod.evict"},
	}}
	for _, p := range []*Playbook{slow, more} {
		p.byName = map[string]*State{}
		for _, s := range p.States {
			p.byName[s.Name] = s
		}
	}
	set, err := NewSet([]*Playbook{slow, more, {Name: "gone", Autonomy: Auto}})
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

		"a kind":                   {"kube.scale: auto", "auto by playbooks.autonomy of responder.yaml", "suggest", "add auto, by playbooks.autonomy of responder.yaml", ""},
		"a kind of another":        {"pod.evict: auto", "suggest", "suggest", "", ""},
		"a kind lowers":            {"slow: auto\nkube.scale: observe", "observe by playbooks.autonomy of responder.yaml", "suggest", "auto, add observe, by playbooks.autonomy of responder.yaml", ""},
		"a playbook lowers":        {"kube.scale: auto\nslow: observe", "observe by playbooks.autonomy of responder.yaml", "observe by playbooks.autonomy of responder.yaml", "observe, add observe, by playbooks.autonomy of responder.yaml", ""},
		"a lever before its kind":  {"slow/add: auto\nkube.scale: observe\nslow: observe", "auto by playbooks.autonomy of responder.yaml", "observe by playbooks.autonomy of responder.yaml", "observe, add auto, by playbooks.autonomy of responder.yaml", ""},
		"unknown kind":             {text: "kube.scael: auto", refused: `responder.yaml:3:1: playbooks.autonomy.kube.scael: no playbook in force has a lever "kube.scael" (did you mean "kube.scale"? allowed: `},
		"a kind that states lower": {text: "node.drain: auto", refused: `responder.yaml:3:1: playbooks.autonomy.node.drain: auto has no effect: state careful of playbook slow itself says suggest, which always holds (change the levels of the states)`},

		"unknown playbook":          {text: "slo: auto", refused: `responder.yaml:3:1: playbooks.autonomy.slo: no playbook "slo" is in force (did you mean "slow"? allowed: gone, more, slow)`},
		"unknown state":             {text: "slow/addd: auto", refused: `responder.yaml:3:1: playbooks.autonomy.slow/addd: playbook slow has no state "addd" (did you mean "add"? allowed: add, careful)`},
		"no lever":                  {text: "slow/look: auto", refused: `responder.yaml:3:1: playbooks.autonomy.slow/look: state look of playbook slow is a check: only levers have a level (allowed: add, careful)`},
		"the state's own is lower":  {text: "slow/careful: auto", refused: `responder.yaml:3:1: playbooks.autonomy.slow/careful: auto has no effect: state careful of playbook slow itself says suggest, which always holds (change the state's own level in slow.yaml:1)`},
		"unknown level":             {text: "slow: atuo", refused: `responder.yaml:3:7: playbooks.autonomy.slow: unknown autonomy level "atuo" (did you mean "auto"? allowed: observe, suggest, auto)`},
		"no name":                   {text: "slow/: auto", refused: `responder.yaml:3:1: playbooks.autonomy.slow/: must name a playbook, one of its levers, or a kind of lever (write PLAYBOOK: LEVEL, PLAYBOOK/STATE: LEVEL, or a kind such as kube.scale: LEVEL)`},
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
			p, o := set.ByName("slow"), set.Override("slow", "")
			said := func(state string) string {
				return leveled(p, state, Auto, o)
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

func orEmpty(text string) string {
	if text == "" {
		return "{}"
	}
	return text
}

// leveled returns the level of a state for a service with this level, and the
// setting that it comes from.
func leveled(p *Playbook, state string, service Autonomy, o *Override) string {
	level, by := Auto, ""
	for _, part := range p.Parts(p.State(state), service, o) {
		if part.Level < level || part.Level == level && by == "" {
			level, by = part.Level, part.Setting
		}
	}
	return strings.TrimSuffix(level.String()+" by "+by, " by ")
}

// What a service's entry says of a playbook or lever stands in place of its own
// level and of the playbook's, for that service alone.
func TestOverriddenForAService(t *testing.T) {
	const own, all = " by services[0].autonomy_of of responder.yaml", " by playbooks.autonomy of responder.yaml"
	for name, tt := range map[string]struct {
		all, own   string
		service    Autonomy
		add, other string // the levels of slow/add for the service, and for another at auto
		evict      string // of more/evict for the service
		refused    string
	}{
		"nothing":                        {"{}", "{}", Auto, "suggest", "suggest", "suggest", ""},
		"above both":                     {"{}", "slow/add: auto", Suggest, "auto" + own, "suggest", "suggest", ""},
		"below both":                     {"slow: auto", "slow: observe", Auto, "observe" + own, "auto" + all, "suggest", ""},
		"a kind":                         {"{}", "kube.scale: auto", Observe, "auto" + own, "suggest", "observe", ""},
		"its lower one of two":           {"{}", "kube.scale: auto\nslow: observe", Auto, "observe" + own, "suggest", "suggest", ""},
		"before what is set for all":     {"slow/add: observe", "kube.scale: auto", Suggest, "auto" + own, "observe" + all, "suggest", ""},
		"what it does not name":          {"slow: auto", "pod.evict: auto", Suggest, "suggest", "auto" + all, "auto" + own, ""},
		"a state stays a limit":          {"{}", "slow: auto", Observe, "auto" + own, "suggest", "observe", ""},
		"a playbook that is not for it":  {own: "more: auto", refused: `responder.yaml:3:1: services[0].autonomy_of.more: has no effect: playbook more never runs for service serving/other (the playbook lists its services: chat)`},
		"a kind that is not for it":      {own: "pod.evict: auto", refused: `services[0].autonomy_of.pod.evict: has no effect: no playbook with a lever pod.evict runs for service serving/other`},
		"a kind that no playbook has":    {own: "kube.restart: auto", refused: `services[0].autonomy_of.kube.restart: no playbook in force has a lever "kube.restart"`},
		"a state that is not in the set": {own: "slow/ad: auto", refused: `services[0].autonomy_of.slow/ad: playbook slow has no state "ad"`},
	} {
		t.Run(name, func(t *testing.T) {
			service := "chat"
			if tt.refused != "" {
				service = "serving/other"
			}
			entries, err := overridesAt(t, "playbooks.autonomy", orEmpty(tt.all))
			if err != nil {
				t.Fatal(err)
			}
			ofService, err := overridesAt(t, "services[0].autonomy_of", tt.own)
			if err != nil {
				t.Fatal(err)
			}
			set, err := testBooks(t).Overridden(append(entries, ofService.Of(service)...))
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Fatalf("refused with %v, want %s", err, tt.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			slow, more := set.ByName("slow"), set.ByName("more")
			got := []string{
				leveled(slow, "add", tt.service, set.Override("slow", service)), leveled(slow, "add", Auto, set.Override("slow", "serving/other")),
				leveled(more, "evict", tt.service, set.Override("more", service)),
			}
			if diff := cmp.Diff([]string{tt.add, tt.other, tt.evict}, got); diff != "" {
				t.Errorf("levels (-want +got):\n%s", diff)
			}
			if level := leveled(slow, "careful", tt.service, set.Override("slow", service)); strings.HasPrefix(level, "auto") {
				t.Errorf("careful is at %s, above what its state says", level)
			}
		})
	}
}

// An entry that decides nothing, because others go before it, is told.
func TestHiddenLevels(t *testing.T) {
	for text, want := range map[string][]string{
		"slow: auto\nkube.scale: suggest":            nil,
		"slow: observe\nnode.drain: suggest":         {"node.drain"},
		"more: suggest\npod.evict: auto":             {"pod.evict"},
		"more/evict: observe\npod.evict: auto":       {"pod.evict"},
		"slow/add: observe\nkube.scale: auto":        nil,
		"gone: suggest\nmore: auto\npod.evict: auto": nil,
	} {
		by, err := overrides(t, text)
		if err != nil {
			t.Fatal(err)
		}
		set, err := testBooks(t).Overridden(by)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range set.Hidden(by) {
			got = append(got, l.Name())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}
