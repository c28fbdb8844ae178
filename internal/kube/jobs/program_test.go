package jobs

import (
	"fmt"
	"strings"
	"testing"
)

// job returns the manifest of a Job with a container's fields.
func job(fields string) []byte {
	return fmt.Appendf(nil, "apiVersion: batch/v1\nkind: Job\nspec: {template: {spec: {containers: [{name: a, image: i, %s}]}}}\n", fields)
}

func oneModel() Declaration {
	return Declaration{Name: "a", File: "a.yaml", Parameters: []Parameter{{Name: "model"}}}
}

// TestProgrammed: an argument that a shell, an interpreter or a wrapper before it would
// read as a program is refused, and one after a fixed program is not.
func TestProgrammed(t *testing.T) {
	for words, want := range map[string]bool{
		"sh -c --": true, "bash -c -x": true, "timeout 30": true, "env A=1": true, "python3 -m": true, "bash -o pipefail": true,
		"/bin/sh": true, "bash --rcfile": true, "bash -s": true, "awk -v A=b": true, "perl -I lib": true, "node -r": true, "perl -e a -e": true,
		"env -u A": true, "timeout -s KILL 30": true, "nsenter -t 1 -m": true, "chroot /host": true, "nohup timeout 30 bash": true, "tini -- sh -c": true,
		"xargs -n 1": true, "ssh host": true, "su nobody": true, "busybox": true, "busybox sh": true, "deno run": true, "kubectl exec p --": true,
		"find / -exec": true, "timeout 5 node": true, "sudo -u a": true, "cachectl sh -c": true,

		"sh -c text": false, "bash -euo pipefail -c text name": false, "sh -c -- text": false, "python3 app.py": false, "python3 -m mod": false, "bash /run.sh --model": false,
		"timeout 30 cachectl --model": false, "env A=1 cachectl": false, "nohup cachectl clear": false, "cachectl --model": false, "cachectl -m": false, "chroot /host cachectl": false,
		"kubectl delete node": false, "kubectl delete pod": false, "cachectl node": false, "sed -n text": false, "timeout -s KILL 30 cachectl": false,
	} {
		command := strings.Fields(words)
		if got := programmed(command, []string{"${model}"}, 0); got != want {
			t.Errorf("%s ${model}: %t", words, got)
		}
		if got := programmed(command[:1], append(command[1:], "${model}"), len(command)-1); got != want {
			t.Errorf("%s ${model}, as args: %t", words, got)
		}
	}
	for words, want := range map[string]bool{"": true, "--": true, "-x": true, "-c": true, "--model": false, "clear": false} {
		args := append(strings.Fields(words), "${model}")
		if got := programmed(nil, args, len(args)-1); got != want {
			t.Errorf("%q of an entrypoint: %t", words, got)
		}
	}
}

// TestExpanded: no $(NAME) puts a parameter into a text.
func TestExpanded(t *testing.T) {
	for name, tt := range map[string]struct{ fields, want string }{
		"script":       {`command: [sh, -c, 'cachectl clear $(MODEL)'], env: [{name: MODEL, value: "${model}"}]`, `command[2]: $(MODEL) would put parameter model into a text (let a script read the variable: "$MODEL")`},
		"argument":     {`command: [c], args: ["--model=$(MODEL)"], env: [{name: MODEL, value: "${model}"}]`, "args[0]: $(MODEL)"},
		"variable":     {`env: [{name: MODEL, value: "${model}"}, {name: X, value: "$(MODEL)"}], command: [sh, -c, $(X)]`, "env[1].value: $(MODEL)"},
		"sub-path":     {`env: [{name: MODEL, value: "${model}"}], volumeMounts: [{name: v, mountPath: /v, subPathExpr: $(MODEL)}]`, "subPathExpr: $(MODEL)"},
		"probe":        {`env: [{name: MODEL, value: "${model}"}], readinessProbe: {exec: {command: [sh, -c, $(MODEL)]}}`, "command[2]: $(MODEL)"},
		"three":        {`env: [{name: MODEL, value: "${model}"}], command: [c, '$$$(MODEL)']`, "command[1]: $(MODEL)"},
		"escaped":      {`env: [{name: MODEL, value: "${model}"}], command: [sh, -c, 'echo $$(MODEL)']`, ""},
		"shell":        {`env: [{name: MODEL, value: "${model}"}], command: [sh, -c, 'echo "$MODEL"']`, ""},
		"another":      {`env: [{name: MODEL, value: "${model}"}, {name: NODE, value: n}], command: [c, $(NODE)]`, ""},
		"BASH_ENV":     {`env: [{name: BASH_ENV, value: "${model}"}]`, "env[0].value: variable BASH_ENV changes what programs run"},
		"LD_PRELOAD":   {`env: [{name: LD_PRELOAD, value: "${model}"}]`, "variable LD_PRELOAD"},
		"python":       {`env: [{name: PYTHONSTARTUP, value: "${model}"}]`, "variable PYTHONSTARTUP"},
		"NODE_OPTIONS": {`env: [{name: NODE_OPTIONS, value: "${model}"}]`, "variable NODE_OPTIONS"},
		"git":          {`env: [{name: GIT_SSH_COMMAND, value: "${model}"}]`, "variable GIT_SSH_COMMAND"},
		"PATH":         {`env: [{name: PATH, value: "${model}"}]`, "variable PATH"},
	} {
		_, err := Read(oneModel(), job(tt.fields))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
