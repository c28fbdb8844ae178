package config

import (
	"strings"
	"testing"
	"time"
)

// TestJobs: the list of templates is read, and what is wrong with it has its place.
func TestJobs(t *testing.T) {
	const head = "auth: {insecure: true}\njobs:\n"
	c, err := Parse("/etc/responder.yaml", []byte(head+`  - name: clear-cache
    manifest_file: jobs/clear.yaml
    deadline: 3m
    parameters: [{name: model, pattern: '[a-z]+'}, {name: blocks, type: int, min: 1, max: 9, default: "3"}]
    read_only: true
    autonomy: auto
    allow: [host_network]
`))
	if err != nil {
		t.Fatal(err)
	}
	if j := c.Jobs[0]; j.File != "/etc/jobs/clear.yaml" || j.Deadline != 3*time.Minute || *j.Parameters[1].Max != 9 {
		t.Errorf("%+v", j)
	}
	for text, want := range map[string]string{
		"  - {name: a, manifest_file: f, image: evil}\n":                        "responder.yaml:3:33: jobs[0]: unknown field \"image\"",
		"  - {name: a, manifest_file: f, undo: b}\n":                            "responder.yaml:3:39: jobs[0].undo: \"b\" is no other template",
		"  - {name: a, manifest_file: f, allow: [everything]}\n":                "responder.yaml:3:41: jobs[0].allow[0]: must be one of",
		"  - {name: a, manifest_file: f, deadline: 2h}\n":                       "responder.yaml:3:43: jobs[0].deadline",
		"  - {name: a, manifest_file: f, autonomy: auto}\n":                     "responder.yaml:3:43: jobs[0].autonomy: auto is for what can be taken back",
		"  - {name: a, manifest_file: f, parameters: [{name: p, type: any}]}\n": "responder.yaml:3:62: jobs[0].parameters[0].type: must be one of string, int",
	} {
		if _, err := Parse("responder.yaml", []byte(head+text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s%v\nwant %s", text, err, want)
		}
	}
}
