package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/inference-responder/responder/internal/yamldoc"
)

func clearCache() Declaration {
	least, most := 1, 1000
	return Declaration{
		Name: "clear-cache", File: "clear-cache.yaml", Undo: "warm-cache",
		Parameters: []Parameter{
			{Name: "model", Pattern: `[a-z0-9/-]+`}, {Name: "blocks", Type: "int", Min: &least, Max: &most, Default: "10"}, {Name: "tenant", Enum: []string{"a", "b"}},
		},
	}
}

func read(t testing.TB, d Declaration, edit func(string) string) (Template, error) {
	t.Helper()
	data, err := os.ReadFile("testdata/clear-cache.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if edit != nil {
		text = edit(text)
	}
	return Read(d, []byte(text))
}

// TestFill: values stand whole where the manifest has their places, and nothing else of it
// changes but what bounds the Job.
func TestFill(t *testing.T) {
	tmpl, err := read(t, clearCache(), nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := tmpl.Fill(map[string]string{"model": "llama/70b", "tenant": "b", "blocks": "7"}, false)
	if err != nil {
		t.Fatal(err)
	}
	var job batchv1.Job
	if err := json.Unmarshal(f.Manifest, &job); err != nil {
		t.Fatal(err)
	}
	c := job.Spec.Template.Spec.Containers[0]
	if diff := cmp.Diff([]string{"clear", "--blocks", "7", "--model", "llama/70b"}, c.Args); diff != "" {
		t.Error(diff)
	}
	if c.Env[0].Value != "b" || c.Env[1].ValueFrom.SecretKeyRef.Key != "password" || job.Name != "" {
		t.Errorf("env %+v, name %q", c.Env, job.Name)
	}
	if s := job.Spec; *s.ActiveDeadlineSeconds != 300 || *s.Template.Spec.ActiveDeadlineSeconds != 285 || *s.BackoffLimit != 0 || *s.TTLSecondsAfterFinished != 86400 || s.Template.Spec.RestartPolicy != "Never" {
		t.Errorf("bounds %+v", s)
	}
	if f.Account != "cache-admin" || len(f.Variables) != 1 || f.Undo != "warm-cache" {
		t.Errorf("%+v", f)
	}
	again, err := tmpl.Fill(map[string]string{"model": "other", "tenant": "a"}, false)
	if err != nil || strings.Contains(string(again.Manifest), "llama") || again.Values["blocks"] != "10" {
		t.Errorf("a second fill: %v %s", err, again.Manifest)
	}
}

// TestTriedAgain: with backoffLimit, the next pod starts when the one before has ended.
func TestTriedAgain(t *testing.T) {
	for limit, want := range map[string]string{"0": "", "1": "Failed"} {
		tmpl, err := read(t, clearCache(), func(s string) string { return strings.Replace(s, "spec:\n", "spec:\n  backoffLimit: "+limit+"\n", 1) })
		if err != nil {
			t.Fatal(err)
		}
		f, err := tmpl.Fill(map[string]string{"model": "m", "tenant": "a"}, false)
		if err != nil {
			t.Fatal(err)
		}
		var job batchv1.Job
		if err := json.Unmarshal(f.Manifest, &job); err != nil {
			t.Fatal(err)
		}
		got := ""
		if p := job.Spec.PodReplacementPolicy; p != nil {
			got = string(*p)
		}
		if got != want {
			t.Errorf("backoffLimit %s: podReplacementPolicy %q, want %q", limit, got, want)
		}
	}
}

// TestValues: a value that is no plain text of its parameter's form never gets into a Job.
func TestValues(t *testing.T) {
	tmpl, err := read(t, clearCache(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		with map[string]string
		text string
	}{
		"missing":         {map[string]string{"tenant": "a"}, "parameter model is missing"},
		"unknown":         {map[string]string{"model": "m", "tenant": "a", "image": "evil"}, `unknown parameter "image"; it knows model, blocks, tenant`},
		"none of enum":    {map[string]string{"model": "m", "tenant": "c"}, `"c" is none of a, b`},
		"not the pattern": {map[string]string{"model": "m; rm -rf /", "tenant": "a"}, "does not match"},
		"a part matches":  {map[string]string{"model": "ok\nBAD", "tenant": "a"}, "no text of one line"},
		"a variable":      {map[string]string{"model": "$(CACHE_PASSWORD)", "tenant": "a"}, "has a $"},
		"nobody sees it":  {map[string]string{"model": "m\u202e", "tenant": "a"}, "no text of one line"},
		"a flag":          {map[string]string{"model": "--all", "tenant": "a"}, "begins with a dash"},
		"too long":        {map[string]string{"model": strings.Repeat("m", 254), "tenant": "a"}, "more than 253"},
		"empty":           {map[string]string{"model": "", "tenant": "a"}, "is empty"},
		"too small":       {map[string]string{"model": "m", "tenant": "a", "blocks": "0"}, "0 is less than 1"},
		"too large":       {map[string]string{"model": "m", "tenant": "a", "blocks": "1001"}, "1001 is more than 1000"},
		"half":            {map[string]string{"model": "m", "tenant": "a", "blocks": "1.5"}, `want a whole number, got "1.5"`},
		"words":           {map[string]string{"model": "m", "tenant": "a", "blocks": "7; id"}, `want a whole number, got "7; id"`},
	} {
		if _, err := tmpl.Fill(tt.with, false); err == nil || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRefused: what is wrong with a manifest is said with its place.
func TestRefused(t *testing.T) {
	swap := func(old, with string) func(string) string {
		return func(s string) string {
			if !strings.Contains(s, old) {
				panic("no " + old)
			}
			return strings.Replace(s, old, with, 1)
		}
	}
	pod := func(line string) func(string) string {
		return swap("      serviceAccountName: cache-admin", "      "+line)
	}
	container := func(line string) func(string) string {
		return swap("          command: [cachectl]", "          command: [cachectl]\n          "+line)
	}
	spec := func(line string) func(string) string {
		return swap("spec:\n  template:", "spec:\n  "+line+"\n  template:")
	}
	for name, tt := range map[string]struct {
		edit  func(string) string
		text  string
		place string // line:column; empty: not looked at
	}{
		"unknown field":     {swap("      containers:", "      contaners: []\n      containers:"), "contaners: unknown field", "11:18"},
		"wrong type":        {spec("backoffLimit: many"), "spec.backoffLimit: want int32, got string", "8:17"},
		"another kind":      {swap("kind: Job", "kind: Pod"), "want a Job of batch/v1, got Pod", "3:7"},
		"another version":   {swap("batch/v1", "batch/v1beta1"), "want a Job of batch/v1", ""},
		"in the image":      {swap("cachectl@sha256", "${model}@sha256"), "a parameter cannot stand here: ${model}", "13:18"},
		"the whole image":   {swap("cache-admin", `"${model}"`), "a parameter cannot stand here", ""},
		"a key":             {swap("{team: serving}", `{"${model}": serving}`), "a parameter cannot stand here", ""},
		"a name":            {swap("{name: TENANT, ", `{name: "${tenant}", `), "a parameter cannot stand here", ""},
		"part of an arg":    {swap(`"${model}"`, `"--model=${model}"`), "parameter model is a part of a text", "15:57"},
		"part of a script":  {swap(`value: "${tenant}"`, `value: "curl ${tenant}"`), "is a part of a text", ""},
		"unknown parameter": {swap(`"${model}"`, `"${mdl}"`), `unknown parameter "mdl"`, ""},
		"unused":            {swap(`"${model}"`, "all"), "parameter model is not used", ""},
		"a script":          {swap("[clear, --blocks, ", "[-c, "), "would be read as a program", ""},
		"a shell's file":    {func(s string) string { return swap("[clear, --blocks, ", "[")(swap("[cachectl]", "[/bin/bash]")(s)) }, "would be read as a program", ""},
		"first of an image": {func(s string) string {
			return swap("[clear, --blocks, ", "[")(swap("command: [cachectl]", "stdin: false")(s))
		}, "would be read as a program", ""},
		"python":             {func(s string) string { return swap("[clear, --blocks, ", "[")(swap("[cachectl]", "[python3]")(s)) }, "would be read as a program", ""},
		"host network":       {pod("hostNetwork: true"), "host_network", "10:20"},
		"host pid":           {pod("hostPID: true"), "host_pid", ""},
		"host ipc":           {pod("hostIPC: true"), "host_ipc", ""},
		"host path":          {pod("volumes: [{name: h, hostPath: {path: /}}]"), "host_path", ""},
		"privileged":         {container("securityContext: {privileged: true}"), "(privileged)", ""},
		"escalation":         {container("securityContext: {allowPrivilegeEscalation: true}"), "(privileged)", ""},
		"capabilities":       {container("securityContext: {capabilities: {add: [SYS_ADMIN]}}"), "(privileged)", ""},
		"host port":          {container("ports: [{containerPort: 1, hostPort: 1}]"), "host_port", ""},
		"own deadline":       {spec("activeDeadlineSeconds: 9"), "write deadline in the entry of jobs", "8:26"},
		"own namespace":      {swap("  name: clear-cache", "  namespace: kube-system"), "metadata.namespace: cannot be set", ""},
		"many at once":       {spec("parallelism: 5"), "spec.parallelism: cannot be set", ""},
		"suspended":          {spec("suspend: true"), "spec.suspend: cannot be set", ""},
		"gone at once":       {spec("ttlSecondsAfterFinished: 0"), "must be at least 3600", ""},
		"tried for ever":     {spec("backoffLimit: 99"), "between 0 and 5", ""},
		"restarted":          {pod("restartPolicy: OnFailure"), "write Never", ""},
		"a credential":       {swap("valueFrom: {secretKeyRef: {name: cache, key: password}}", "value: hunter2"), "looks like a credential", ""},
		"an anchor":          {swap("{team: serving}", "&a {team: serving}"), "anchors are not allowed", ""},
		"two documents":      {func(s string) string { return s + "---\na: b\n" }, "more than one document", ""},
		"nothing":            {func(string) string { return "# nothing\n" }, "the file is empty", "1:1"},
		"no containers":      {func(string) string { return "apiVersion: batch/v1\nkind: Job\nspec: {}\n" }, "no containers", ""},
		"twice":              {swap("kind: Job", "kind: Job\nkind: Job"), "duplicate field", ""},
		"another account":    {pod("serviceAccount: cluster-admin"), "serviceAccount: cannot be set", ""},
		"a node":             {pod("nodeName: gpu-1"), "nodeName: cannot be set", ""},
		"pushes others out":  {pod("priorityClassName: system-node-critical"), "priorityClassName: cannot be set", ""},
		"no seccomp":         {container("securityContext: {seccompProfile: {type: Unconfined}}"), "(privileged)", ""},
		"no seccomp at all":  {pod("securityContext: {seccompProfile: {type: Unconfined}}"), "(privileged)", ""},
		"another SELinux":    {container("securityContext: {seLinuxOptions: {type: spc_t}}"), "(privileged)", ""},
		"two at a time":      {spec("backoffLimit: 1\n  podReplacementPolicy: TerminatingOrFailed"), "spec.podReplacementPolicy: cannot be set", "9:25"},
		"never ends":         {pod("terminationGracePeriodSeconds: 121"), "terminationGracePeriodSeconds: must be between 0 and 120 (what takes the Job back starts only when its pods have ended", "10:38"},
		"controlled by more": {spec("managedBy: example.com/x"), "spec.managedBy: cannot be set", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(t, clearCache(), tt.edit)
			var problems yamldoc.Problems
			if !errors.As(err, &problems) || !strings.Contains(err.Error(), tt.text) {
				t.Fatalf("%v", err)
			}
			if tt.place != "" && !strings.Contains(err.Error(), "clear-cache.yaml:"+tt.place+":") {
				t.Errorf("not at %s: %v", tt.place, err)
			}
		})
	}
}

// TestAllowed: the entry may allow what is refused otherwise, each by its name.
func TestAllowed(t *testing.T) {
	d := clearCache()
	d.Allow = []string{"host_network"}
	if _, err := read(t, d, func(s string) string {
		return strings.Replace(s, "      containers:", "      hostNetwork: true\n      containers:", 1)
	}); err != nil {
		t.Error(err)
	}
	if _, err := read(t, d, func(s string) string {
		return strings.Replace(s, "      containers:", "      hostPID: true\n      containers:", 1)
	}); err == nil {
		t.Error("hostPID is allowed, too")
	}
	// A script has its own names in braces.
	if _, err := read(t, clearCache(), func(s string) string {
		return strings.Replace(s, "command: [cachectl]", `command: [sh, -c, 'cachectl "${HOME}" "$@"', cachectl]`, 1)
	}); err != nil {
		t.Error(err)
	}
}

// TestFits: * stands for any text of a service's name.
func TestFits(t *testing.T) {
	for glob, want := range map[string]bool{"*": true, "serving/*": true, "*/chat": true, "*chat": true, "serving/chat": true, "chat": false, "other/*": false} {
		if got := (Template{decl: Declaration{Services: []string{glob}}}).Fits("serving/chat"); got != want {
			t.Errorf("%s: %t", glob, got)
		}
	}
}

// TestCheck: what is wrong with an entry of the list is said at its field.
func TestCheck(t *testing.T) {
	warm := Declaration{Name: "warm-cache", File: "w.yaml", Parameters: clearCache().Parameters[:1]}
	for name, tt := range map[string]struct {
		list []Declaration
		want string
	}{
		"good":              {[]Declaration{clearCache(), warm}, ""},
		"no name":           {[]Declaration{{File: "f"}}, "jobs[0].name"},
		"no file":           {[]Declaration{{Name: "a"}}, "jobs[0].manifest_file"},
		"twice":             {[]Declaration{warm, warm}, "jobs[1].name"},
		"no such undo":      {[]Declaration{clearCache()}, "jobs[0].undo"},
		"its own undo":      {[]Declaration{{Name: "a", File: "f", Undo: "a"}}, "jobs[0].undo"},
		"undo asks more":    {[]Declaration{{Name: "a", File: "f", Undo: "warm-cache"}, warm}, "jobs[0].undo"},
		"undo differs":      {[]Declaration{{Name: "a", File: "f", Undo: "warm-cache", Parameters: []Parameter{{Name: "model"}}}, warm}, "jobs[0].undo"},
		"undo elsewhere":    {[]Declaration{{Name: "a", File: "f", Undo: "b", Namespace: "x"}, {Name: "b", File: "f"}}, "jobs[0].undo"},
		"auto for ever":     {[]Declaration{{Name: "a", File: "f", Autonomy: "auto"}}, "jobs[0].autonomy"},
		"undo asks people":  {[]Declaration{{Name: "a", File: "f", Autonomy: "auto", Undo: "b"}, {Name: "b", File: "f"}}, "jobs[0].undo"},
		"auto, read only":   {[]Declaration{{Name: "a", File: "f", Autonomy: "auto", ReadOnly: true}}, ""},
		"long":              {[]Declaration{{Name: "a", File: "f", Deadline: mostDeadline + 1}}, "jobs[0].deadline"},
		"bad pattern":       {[]Declaration{{Name: "a", File: "f", Parameters: []Parameter{{Name: "p", Pattern: "("}}}}, "jobs[0].parameters[0].pattern"},
		"escapes a pattern": {[]Declaration{{Name: "a", File: "f", Parameters: []Parameter{{Name: "p", Pattern: "a)|(?:.*"}}}}, "jobs[0].parameters[0].pattern"},
		"bad default":       {[]Declaration{{Name: "a", File: "f", Parameters: []Parameter{{Name: "p", Default: "$x"}}}}, "jobs[0].parameters[0].default"},
		"bad enum":          {[]Declaration{{Name: "a", File: "f", Parameters: []Parameter{{Name: "p", Enum: []string{"-x"}}}}}, "jobs[0].parameters[0].enum[0]"},
		"int with enum":     {[]Declaration{{Name: "a", File: "f", Parameters: []Parameter{{Name: "p", Type: "int", Enum: []string{"1"}}}}}, "jobs[0].parameters[0].enum"},
		"two of one name":   {[]Declaration{{Name: "a", File: "f", Parameters: []Parameter{{Name: "p"}, {Name: "p"}}}}, "jobs[0].parameters[1].name"},
	} {
		var got []string
		Check(tt.list, "jobs", func(path, _, format string, args ...any) { got = append(got, path+": "+fmt.Sprintf(format, args...)) })
		if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) == 0 || !strings.HasPrefix(got[0], tt.want+":")) {
			t.Errorf("%s: %q, want one at %q", name, got, tt.want)
		}
	}
}

// FuzzRead: no manifest and no value makes a Job whose image, account, command or place
// differs from what is written, and none panics.
func FuzzRead(f *testing.F) {
	data, err := os.ReadFile("testdata/clear-cache.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(data), "llama/70b")
	f.Add("apiVersion: batch/v1\nkind: Job\nspec: {template: {spec: {containers: [{name: a, command: [b], args: [c, '${model}']}]}}}", "$(X)")
	f.Add("{apiVersion: batch/v1, kind: Job, spec: {template: {spec: {containers: [{args: ['${model}', ~]}]}}}}", "-x")
	f.Add("spec: [${model}]", "a\x00b")
	f.Fuzz(func(t *testing.T, manifest, value string) {
		d := clearCache()
		d.Parameters = append(d.Parameters[:0:0], Parameter{Name: "model", Pattern: ".*"})
		tmpl, err := Read(d, []byte(manifest))
		if err != nil {
			return
		}
		a, err := tmpl.Fill(map[string]string{"model": value}, false)
		if err != nil {
			return
		}
		if strings.ContainsAny(value, "$\x00\n") || strings.HasPrefix(value, "-") {
			t.Fatalf("the value %q got into a Job", value)
		}
		var job batchv1.Job
		if err := json.Unmarshal(a.Manifest, &job); err != nil {
			t.Fatal(err)
		}
		for _, s := range tmpl.slots { // as written again, the Job is the template
			spec := &job.Spec.Template.Spec
			list := spec.Containers
			if s.init {
				list = spec.InitContainers
			}
			if s.arg >= 0 {
				list[s.container].Args[s.arg] = "${model}"
			} else {
				list[s.container].Env[s.env].Value = "${model}"
			}
		}
		if diff := cmp.Diff(tmpl.job, &job); diff != "" {
			t.Errorf("more than values differ (-template +job):\n%s", diff)
		}
	})
}
