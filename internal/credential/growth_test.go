package credential

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// reading are all functions that read a text, by name. Those for one value or name read
// what a sender may have written, too.
var reading = map[string]func(string){
	"Redact":         func(s string) { Redact(s) },
	"redactLine":     func(s string) { redactLine(s, s, s) },
	"RedactScript":   func(s string) { RedactScript(s) },
	"RedactManifest": func(s string) { RedactManifest(s) },
	"InSecret":       func(s string) { InSecret(strings.Split(s, "\n")) },
	"beside":         func(s string) { beside(strings.Split(s, "\n")) },
	"WithoutKeys":    func(s string) { WithoutKeys(s) },
	"Values": func(s string) {
		Formed(s)
		Plain(s, s)
		PlainFlag(s, s)
		PlainArgument(s)
		Hides(s, s)
		Named(s)
	},
	"Secrets": func(s string) {
		var doc yaml.Node
		if yaml.Unmarshal([]byte(s), &doc) == nil {
			Secrets(&doc)
			Literals(&doc)
		}
	},
}

// repeated are texts that repeat their middle part.
var repeated = [][3]string{
	{"", "a=", ""},
	{"", "a: ", ""},
	{"", "://a:b@", ""},
	{"", "https://", ""},
	{"", "?a=1&b=2", ""},
	{"", "&key=", ""},
	{"", `"a":"`, ""},
	{"", "--a ", ""},
	{"", `"--a","b",`, ""},
	{"", "a='", ""},
	{"", `token="`, ""},
	{"", "token=none ", ""},
	{"", "MY_PAT=x ", ""},
	{"", "hooks/", ""},
	{"", " -u a:b", ""},
	{"", "mysql -p", ""},
	{"", "redis-cli mysql -px ", ""},
	{"", "echo x | ", ""},
	{"", "A=b,", ""},
	{"", "- A=b,", ""},
	{"", "-----BEGIN PRIVATE KEY ", ""},
	{"", "{name: A, value: ", ""},
	{"", "curl -u a:b ", ""},
	{"", "<token>a</", ""},
	{"", "<token><![CDATA[ <token>a</", ""},
	{"", "<token><![CDATA[a]]>", ""},
	{"", "<token><!-- ", ""},
	{"", "<token>a<!--a-->b", ""},
	{"", "me:a@b ", ""},
	{"", "me:", ""},
	{"", "{{ ", ""},
	{"", "{{ a }}", ""},
	{"", "{{ a }}\n", ""},
	{"args: |\n", " --a \\\n b\n", ""},
	{"args: |\n", " a=\\\n", ""},
	{"args: |\n", " --a '\n", ""},
	{"", "- a\n b\n", ""},
	{"", "{\n", ""},
	{"", "env:\n- name: a\n  value: *b\n", ""},
	{"x: &b c\nenv:\n", "  a: *b\n", ""},
	{"", "extraEnv: |\n  a: b\n", ""},
	{"", "api key: a ", ""},
	{"", "1//0", ""},
	{"", "https://a.svc/hooks/a ", ""},
	{"", "machine a login b password ", ""},
	{"", "{", ""},
	{"", "[{", ""},
	{"{", `\`, ""},
	{"{a: ", `\"{`, ""},
	{`{"a":"`, `{\"a\":\"`, ""},
	{"{", `"name":"A","value":"1",`, "}"},
	{"{", `"name":"A","value":"1",`, ""},
	{"{", `"op":"a","path":"/x","value":"1",`, "}"},
	{"{", "name: A, value: 1, ", "}"},
	{"a: {", "options: 1, ", "secret: a}"},
	{"secret: ", "[", ""},
	{"secret: ", "- ", ""},
	{"secret: |\n", " a\n", ""},
	{"", "value: |\n\n", ""},
	{"", "a: |\n secret\n", ""},
	{"secret: [\n", "#\n", "a]"},
	{"x: secret\n", "name: A\nvalue: 1\n", ""},
	{"x: secret\n", "driver: 1\noptions: 1\n", ""},
	{"x: secret\n", "op: a\npath: /x\nvalue: 1\n", ""},
	{"secret: [", "a,", "b]"},
	{"x: secret\nenv: &a [", "b,", "]\nc:\n"},
	{"", "- name: A\n  value: b\n", ""},
	{"kind: Secret\ndata:\n", "  a: b\n", ""},
	{"", "---\nkind: Secret\n", ""},
}

// crossed are manifests of two parts of n lines each, where every line of the second leads
// to all of the first.
var crossed = map[string]func(n int) string{
	"kinds of a target": func(n int) string {
		return "secret: &a {" + strings.Repeat("kind: b,", n) + "}\nc:\n" + strings.Repeat("- {target: *a}\n", n)
	},
	"merged maps": func(n int) string {
		return "secret: &a {kind: a}\nb: &b [" + strings.Repeat("*a,", n) + "]\nc:\n" + strings.Repeat("- {<<: *b}\n", n)
	},
	"lists of variables": func(n int) string {
		return "secret: &a [" + strings.Repeat("b,", n) + "]\nc:\n" + strings.Repeat("- {env: *a}\n", n)
	},
	"comments above many": func(n int) string {
		return "kind: List\nsecret:\n" + strings.Repeat("#\n", n) + "  {" + strings.Repeat("password: abcdefgh, ", n) + "}\n"
	},
}

// TestGrowth: nothing takes the square of a text's length.
func TestGrowth(t *testing.T) {
	for name, read := range reading {
		for _, of := range repeated {
			grows(t, name, of[1], read, func(n int) string { return of[0] + strings.Repeat(of[1], n/len(of[1])) + of[2] })
		}
		for what, of := range crossed {
			grows(t, name, what, read, func(n int) string { return of(n / 16) })
		}
	}
}

// grows fails where a text of four times the length takes much more than four times as
// long: 16 times is its square. The time is the processor's, and the shortest of several
// attempts counts, since the machine may have other work.
func grows(t *testing.T, name, what string, read func(string), text func(n int) string) {
	t.Helper()
	const n, most = 8 << 10, 9
	const tick = 5 * time.Millisecond // the system counts a processor's time by its clock's ticks: less may be none
	took := func(s string) time.Duration {
		start := busy(t)
		read(s)
		return busy(t) - start
	}
	short, long := took(text(n)), took(text(4*n))
	for range 40 {
		if long < 40*time.Millisecond || long <= most*max(short, tick) {
			return
		}
		short, long = min(short, took(text(n))), min(long, took(text(4*n)))
	}
	t.Errorf("%s of %q takes %s, and %s where it is four times as long", name, what, short, long)
}

// busy returns how long this process has had a processor for itself.
func busy(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano())
}
