package playbook

import "testing"

// TestPreamble: people read why a playbook is as it is, and no line that is for programs.
func TestPreamble(t *testing.T) {
	for doc, want := range map[string]string{
		"# Ask before scaling:\n# the pool is shared.\napiVersion: x\n# not this\n":                 "Ask before scaling:\nthe pool is shared.",
		"# yaml-language-server: $schema=s.json\n# SPDX-License-Identifier: MIT\n#\n# Why.\nk: v\n": "Why.",
		"# yaml-language-server: $schema=s.json\nkind: Playbook\n":                                  "",
		"kind: Playbook\n": "",
	} {
		if got := (&Playbook{Doc: []byte(doc)}).Preamble(); got != want {
			t.Errorf("%q: %q, want %q", doc, got, want)
		}
	}
}
