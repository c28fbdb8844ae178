package credential

import (
	"strings"
	"testing"
	"time"
)

// TestInSecret: nothing of a Secret is left, and nothing else goes.
func TestInSecret(t *testing.T) {
	for name, text := range map[string]string{
		"before a document":  "shown: 1\n---\n# canary\napiVersion: v1\ndata:\n  a: canary\n\nkind: Secret\nmetadata:\n  name: canary\nstringData:\n  b: |\n    canary\n# canary\n    ---\n    canary\n---\nshown: 2\n",
		"quoted":             "'kind': \"Secret\" # of the hub\ndata: {a: canary}\n...\n---\nshown: 1\nshown: 2\n",
		"CRLF and BOM":       "\ufeffkind: Secret\r\ndata:\r\n  a: canary\r\n---\r\nshown: 1\r\nshown: 2\r\n",
		"in a list":          "items:\n- apiVersion: v1\n  shown: 1\n- apiVersion: v1\n  data:\n    a: canary\n    ownerReferences:\n    - canary\n  kind: Secret\n  stringData: {b: canary}\n- shown: 2\n",
		"in a deeper list":   "items:\n  - kind: Secret\n    data:\n      a: canary\n  - kind: ConfigMap\n    shown: 1\nshown: 2\n",
		"on one line":        "shown: 1\n---\n{apiVersion: v1, kind: Secret, data: {a: canary}}\n---\nshown: 2\n",
		"begun on one line":  "shown: 1\n---\n{apiVersion: v1, kind: Secret, data: {\n a: canary,\n b: canary}}\n---\nshown: 2\n",
		"JSON":               "{\n  \"shown\": 1,\n  \"items\": [\n    {\n      \"data\": {\n        \"a\": \"canary\"\n      },\n      \"kind\": \"Secret\"\n    },\n    {\n      \"shown\": 2\n    }\n  ]\n}\n",
		"JSON, a long line":  "{\n  \"shown\": [1, \"shown\"],\n  \"x\": {\n    \"kind\": \"Secret\", \"data\": {\"a\": \"canary\"},\n    \"stringData\": \"canary\"\n  }\n}\n",
		"JSON, kind last":    "{\n  \"stringData\": {\n    \"a\": \"canary\"\n  },\n  \"kind\": \"Secret\" }\n",
		"kind behind":        "[{\n  \"stringData\": {\"a\": \"canary\"},\n  \"x\": \"canary\",\n  \"apiVersion\": \"v1\", \"kind\": \"Secret\"\n},\n{\"a\": \"shown\"}]\n",
		"kind and brace":     "shown: 1\n---\n{apiVersion: v1,\n x: {motd: canary},\n kind: Secret}\n---\nshown: 2\n",
		"quoted braces":      "{kind: Secret, x: {a: \"}}}\",\n motd: canary}}\n---\nshown: 1\n",
		"dedented":           "items:\n- shown: 1\n- {kind: Secret,\n x: {a: canary,\n b: \"canary\n  canary\"}}\n- shown: 2\n",
		"a tail":             "[{kind: Secret, x: \"\n canary }\"}, {b: hidden},\n {a: shown}]\n",
		"a list":             "apiVersion: v1\nkind: SecretList\nitems:\n- data: {a: canary}\n- metadata: {name: x}\n  x: {b: canary}\n---\nshown: 1\n",
		"no name":            "kind: Secret\nmetadata: {generateName: canary}\nx: {a: canary}\n---\nshown: 1\n",
		"tagged":             "kind: !!str Secret\nx: {a: canary}\n---\nkind: &k Secret\nx: {a: canary}\n---\nshown: 1\n",
		"merged":             "a: &a {kind: Secret}\nb:\n  <<: [*a]\n  x: canary\nshown: 1\n",
		"referred to":        "a: &a\n  b: canary\nshown: 1\nitems:\n- kind: Secret\n  x: *a\n",
		"kind twice":         "kind: Secret\nx: canary\nkind: ConfigMap\n---\nshown: 1\n",
		"a patch":            "patches:\n- path: shown.yaml\n- target: {kind: Secret, name: hub}\n  patch: |-\n    - op: replace\n      path: /x/motd\n      value: canary\n- path: shown.yaml\n",
		"a patch, a block":   "patches:\n- patch: |-\n    - {op: add, path: /x, value: canary}\n  target:\n    kind: Deployment|Secret\n- path: shown.yaml\n",
		"a patch, alone":     "- op: replace\n  path: /stringData/motd\n  value: canary\n- op: add\n  path: /data\n  value:\n    a: canary\n- op: replace\n  path: /spec/replicas\n  value: shown\n",
		"in a text":          "data:\n  a: |\n    x: shown\n    ---\n    kind: Secret\n    x: canary\n    ---\n    x: shown\n  b: shown\n",
		"in a folded text":   "data:\n  a: \"kind: Secret\\n\\\n    x: canary\"\n  b: shown\n",
		"a template":         "shown: {{ .Values.a }}\n---\n{{- if .Values.b }}\nkind: Secret\nx: canary\n{{- end }}\n---\nshown: 1\n",
		"two without a mark": "{\"kind\": \"ConfigMap\"}\n{\"kind\": \"Secret\", \"x\": \"canary\"}\n---\nshown: 1\n",
		"odd breaks":         "a: \"\u2028\u2028\"\nb: {kind: Secret,\n c: canary}\nshown: 1\n",
		"generated":          "shown: 1\nsecretGenerator:\n- name: canary\n  literals:\n  - a=canary\n\n- name: canary\nimages:\n- shown: 2\n",
		"generated, deeper":  "secretGenerator:\n  - literals: [a=canary]\nimages: shown\nshown: 2\n",
		"generated, inline":  "shown: 1\nsecretGenerator: [{literals: [a=canary]}]\nshown: 2\n",
	} {
		got := RedactManifest(text)
		if strings.Contains(got, "canary") || strings.Count(got, "shown") != strings.Count(text, "shown") || strings.Count(got, "\n") != strings.Count(text, "\n") {
			t.Errorf("%s became\n%s", name, got)
		}
	}
	for _, text := range []string{
		"kind: Deployment\nspec:\n  secretName: x\n  volumes:\n  - secret:\n      secretName: hub\n",
		"kind: SecretProviderClass\nspec: {provider: vault}\n", "kind: SealedSecret\nspec: {a: sealed}\n", "# kind: Secret\nshown: 1\n",
	} {
		for i, hidden := range InSecret(strings.Split(text, "\n")) {
			if hidden {
				t.Errorf("line %d is hidden of\n%s", i, text)
			}
		}
	}
}

// TestInSecretLong: a long text takes no time that grows with its square.
func TestInSecretLong(t *testing.T) {
	const n = 20_000
	for name, text := range map[string]string{
		"a text":       "data:\n  a: |\n" + strings.Repeat("    kind: Secret\n", n),
		"a document":   strings.Repeat("kind: Secret\n", n),
		"documents":    strings.Repeat("kind: Secret\n---\n", n),
		"items":        strings.Repeat("- kind: Secret\n  a: b\n", n),
		"one line":     "[" + strings.Repeat("{kind: Secret}, ", n) + "]",
		"never closed": strings.Repeat("{kind: Secret\n", n),
		"nested":       strings.Repeat("{auth: ", 5000) + "x" + strings.Repeat(", a: b}", 5000),
		"comments":     strings.Repeat("# kind: Secret\n", n) + strings.Repeat("- kind: Secret\n", n),
	} {
		start := time.Now()
		if hidden := InSecret(strings.Split(text, "\n")); len(hidden) != strings.Count(text, "\n")+1 {
			t.Errorf("%s: %d lines", name, len(hidden))
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s took %s", name, took)
		}
	}
}

// TestLongTexts: of a text that is longer than one may be the rest is left out, and of such
// a manifest every line is hidden, but not of an ordinary one of a mebibyte.
func TestLongTexts(t *testing.T) {
	const most = maxText / len("MY_PAT=x ")
	if got, want := redactLine(strings.Repeat("MY_PAT=x ", most), "", ""), strings.Repeat("MY_PAT="+Redacted+" ", most); got != want {
		t.Errorf("a long line became one of %d bytes", len(got))
	}
	if got := Redact("password: canary " + strings.Repeat("x ", maxText/2)); len(got) < maxText-beyond || len(got) > maxText+50 || !strings.HasSuffix(got, " (the rest of 65553 bytes is not shown)") || strings.Contains(got, "canary") {
		t.Errorf("a long text becomes one of %d bytes, which ends with %q", len(got), got[max(0, len(got)-60):])
	}
	const member = `{"name":"A_PATH","size":"4"},`
	if got := Redact("[" + strings.Repeat(member, 2*maxText/len(member))); len(got) < maxText-beyond {
		t.Errorf("of a long line of JSON %d bytes are shown", len(got))
	}
	const doc = "kind: Deployment\nspec:\n  args: [--model, x]\n---\nkind: Secret\ndata:\n  a: b\n---\n"
	for size, isRead := range map[int]bool{1 << 20: true, maxManifest + 1<<10: false} {
		lines := strings.Split(strings.Repeat(doc, size/len(doc)), "\n")
		hidden := InSecret(lines)
		for i, line := range lines[:8] {
			if hidden[i] != (line == "  a: b" || line == "data:" || !isRead) {
				t.Errorf("of %d bytes %q is hidden: %t", size, line, hidden[i])
			}
		}
	}
}

// TestCut: where a long text is cut, no part of a credential is left over, whatever names it
// stands behind the cut, near it or far.
func TestCut(t *testing.T) {
	far := strings.Repeat(" more", 2*beyond/5)
	for _, c := range [][2]string{
		{"postgres://u:canary,", "rest@db/x"},
		{"postgres://u:canary&", "lf@db/x"},
		{"redis://:canary,", "lf@h"},
		{"u:canary,", "lf@tcp(h)"},
		{"https://canarycanarycanary12,", "rest@github.com/x"},
		{"https://hooks.slack.com/services/T0/B0/canary,", "frest"},
		{"https://x?sig=canary,", "cd"},
		{"https://x?sig=canary&", "cd"},
		{`curl -u "u:canary `, `rest"`},
		{`curl -u "u:canary&`, `rest"`},
		{"<password>canary two ", "words</password>"},
		{"<password>canary two ", far + "</password>"},
		{"echo canary ", " | docker login --password-stdin"},
		{"echo canary", " | docker login " + far + " --password-stdin"},
		{"echo canary | docker", " login --password-stdin"},
		{`{"value":"canary",`, `"name":"LICENCE"}`},
		{`{"value":"canary",`, `"name":"DB_PASSWORD"}`},
		{`{"value":"canary", "a":"`, far + `", "name":"DB_PASSWORD"}`},
		{`[{"a": [{"value":"canary", "a":"`, far + `", "name":"LICENCE"}]}]`},
		{`{"env":"[{\"value\":\"canary\",`, far + `\"name\":\"LICENCE\"}]"}`},
		{"{value: canary, pad: ", far + ", name: DB_PASSWORD}"},
		{`password: "canary `, `rest"`},
		{`password: "canary `, far + `rest"`},
		{"Authorization: Basic Y2FuYXJ5canary==,", "a"},
		{"-----BEGIN PRIVATE KEY-----\ncanary\nMII\n", "MII\n-----END PRIVATE KEY-----"},
		{`{"secret":{"name":"canary",`, far + `"x":"y"}}`},
	} {
		for end, read := range map[int]func(string) string{maxText: Redact, maxText + beyond: func(s string) string { return redactLine(s, "", "") }} { // of what stands before the cut
			got := read(strings.Repeat("x ", end)[:end-len(c[0])-1] + " " + c[0] + c[1] + strings.Repeat(" tail", beyond))
			if strings.Contains(got, "canary") {
				t.Errorf("%q is cut as %q", c[0], got[max(0, len(got)-90):])
			}
		}
	}
	if got := redactLine(strings.Repeat("x ", maxText/2-20)+"{value: canary, a: "+far+", name: LICENCE}", "", ""); strings.Contains(got, "canary") {
		t.Error("a value of YAML whose name is behind the cut is shown")
	}
}

// FuzzInSecret: no text is too odd, and a Secret that begins a document has no
// line shown but those of its kind.
func FuzzInSecret(f *testing.F) {
	f.Add("a: b\n---\nkind: Secret\nc: d", "data: x")
	f.Add("- {kind: Secret, a: {", "}\n- kind: Secret\n-")
	f.Fuzz(func(t *testing.T, before, data string) {
		if strings.ContainsAny(data, "\r\n") || strings.TrimSpace(data) == "" || documents.MatchString(data) || harmlessField.MatchString(data) {
			return
		}
		lines := append(strings.Split(before, "\n"), "---", "kind: Secret", data)
		if hidden := InSecret(lines); len(hidden) != len(lines) || !hidden[len(lines)-1] {
			t.Errorf("%q is shown of %q", data, lines)
		}
	})
}
