package jobs

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
)

// This file refuses places in which a value would be read as a program, as far as the
// manifest shows them: it does not know what the programs in an image do.

// check refuses places in which a value would be read as a program or as an option of one,
// credentials that everybody who reads a plan would see, and what the API server refuses.
func (m *manifest) check(job *batchv1.Job) {
	pod := job.Spec.Template.Spec
	if len(pod.Containers) == 0 {
		m.report("spec.template.spec", "", "no containers")
	}
	for _, s := range m.slots {
		c, list := pod.Containers, "containers"
		if s.init {
			c, list = pod.InitContainers, "initContainers"
		}
		at := fmt.Sprintf("spec.template.spec.%s[%d]", list, s.container)
		if s.arg >= 0 {
			if programmed(c[s.container].Command, c[s.container].Args, s.arg) {
				m.report(fmt.Sprintf("%s.args[%d]", at, s.arg), "let it be the whole value of a variable in env, which the program reads", "parameter %s would be read as a program", s.parameter)
			}
			continue
		}
		name := c[s.container].Env[s.env].Name
		if steering.MatchString(name) {
			m.report(fmt.Sprintf("%s.env[%d].value", at, s.env), "name the variable as only your program reads it", "variable %s changes what programs run, so parameter %s cannot be its value", name, s.parameter)
		}
		m.expanded(at, name, s.parameter)
	}
	m.credentials("initContainers", pod.InitContainers)
	m.credentials("containers", pod.Containers)
}

// steering matches the names of variables that shells, interpreters, loaders and common
// tools read a program, a file of one, or options from.
var steering = regexp.MustCompile(`(?i)^(BASH_.*|ENV|IFS|PS[0-9]|PROMPT_COMMAND|SHELL|SHELLOPTS|BASHOPTS|PATH|HOME|ZDOTDIR|LD_.*|DYLD_.*|GCONV_PATH|GLIBC_TUNABLES|PYTHON.*|NODE_.*|NPM_CONFIG_.*|` +
	`PERL.*|RUBY.*|GEM_.*|BUNDLE_.*|LUA_.*|PHPRC|PHP_INI_SCAN_DIR|AWKPATH|AWKLIBPATH|JAVA_.*|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|CLASSPATH|MAVEN_.*|GIT_.*|SSH_.*|RSYNC_RSH|CVS_RSH|EDITOR|VISUAL|.*PAGER|LESS(OPEN|CLOSE)?|BROWSER|MAKEFLAGS|` +
	`KUBECONFIG|KUBE_EDITOR|KUBECTL_.*|CURL_HOME|WGETRC|OPENSSL_.*|SSLKEYLOGFILE)$`)

// expanded refuses $(NAME) of a variable that holds a parameter: the kubelet puts its value
// into the text, which may be a script. Another variable cannot pass it on, because its
// value is such a text, too.
func (m *manifest) expanded(at, name, parameter string) {
	for _, path := range slices.Sorted(maps.Keys(m.nodes)) {
		// $$ is a $ that is not expanded.
		if strings.HasPrefix(path, at+".") && strings.Contains(strings.ReplaceAll(m.nodes[path].Value, "$$", "\x00"), "$("+name+")") {
			m.report(path, fmt.Sprintf("let a script read the variable: %q", "$"+name), "$(%s) would put parameter %s into a text", name, parameter)
		}
	}
}

var (
	// interpreters run what their first operand names, or the text after a flag.
	interpreters = regexp.MustCompile(`^((ba|da|a|z|k|c|tc|fi|mk)?sh|(python|pypy|perl|ruby|lua|php)[0-9.]*|luajit|node|nodejs|[gmn]?awk|g?sed|tclsh|Rscript|pwsh)$`)

	// wrappers run a program that their operands name.
	wrappers = regexp.MustCompile(`^(env|xargs|nohup|timeout|time|nice|ionice|stdbuf|setsid|setpriv|unshare|nsenter|chroot|chrt|taskset|flock|sudo|doas|gosu|su-exec|tini|dumb-init|catatonit|busybox|toybox|exec|command|strace|deno|bun|kubectl)$`)

	// joiners make a program of all their operands.
	joiners = regexp.MustCompile(`^(ssh|rsh|su|runuser|eval|watch|parallel|expect|sqlite3)$`)

	// commonWords are programs only where a program is expected: another one has them as
	// a subcommand, or as a kind of objects.
	commonWords = regexp.MustCompile(`^(node|time|nice|exec|command|su|eval|watch|parallel|expect|flock|bun)$`)

	// operands is how many operands of a wrapper stand before the program, but for numbers.
	operands = map[string]int{"chroot": 1, "taskset": 1, "flock": 1, "gosu": 1, "su-exec": 1, "deno": 1, "bun": 1}

	// programFlags come before a program: sh -c, bash -euc, perl -e, node --eval.
	programFlags = regexp.MustCompile(`^(-[abefhiklmnprtuvxBCEHPT]{0,6}c|-[npl]{0,2}e|--(eval|command|execute|exec|expression|print|rcfile|init-file)|-exec)$`)

	plainFlags  = regexp.MustCompile(`^(--|-[abefhimnuvxBEPTs]{1,5})$`) // of an interpreter, without a value
	optionFlags = regexp.MustCompile(`^[-+][eux]{0,3}o$`)               // with a name after it: set -o pipefail
	amounts     = regexp.MustCompile(`^[0-9.]+[smhd]?$`)
	assignments = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	wholeValue  = regexp.MustCompile(`^\$\{[^{}]*\}$`)
)

// programmed reports whether the element of args at an index may be read as a program.
// Where a word before it names a shell, an interpreter or a wrapper, a fixed program has to
// stand between them.
func programmed(command, args []string, at int) bool {
	words := slices.Concat(command, args[:at])
	if len(command) == 0 && !slices.ContainsFunc(words, func(w string) bool { return !plainFlags.MatchString(w) }) {
		return true // it may be the first operand of an entrypoint that nobody here knows, maybe a shell
	}
	first, last := path.Base(words[0]), words[len(words)-1]
	if programFlags.MatchString(last) || last == "--" && first == "kubectl" {
		return true
	}
	for i, word := range words {
		name, rest := path.Base(word), words[i+1:]
		if i > 0 && commonWords.MatchString(name) && (first == "kubectl" || !wrappers.MatchString(first)) {
			continue
		}
		if joiners.MatchString(name) || interpreters.MatchString(name) && !interpreted(rest) || wrappers.MatchString(name) && !wrapped(rest, operands[name]) {
			return true
		}
	}
	return false
}

// interpreted reports whether what follows an interpreter has a fixed program: a file or a
// text. A flag that is not known may have a value, or read a program itself.
func interpreted(words []string) bool {
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case optionFlags.MatchString(w):
			i++
		case programFlags.MatchString(w), plainFlags.MatchString(w):
		default:
			return w != "" && w[0] != '-' && !wholeValue.MatchString(w) && !assignments.MatchString(w)
		}
	}
	return false
}

// wrapped reports whether what follows a wrapper has the fixed name of a program, after as
// many operands. A word after a flag may be its value.
func wrapped(words []string, operands int) bool {
	flag := false
	for _, w := range words {
		valued := flag
		flag = w != "--" && strings.HasPrefix(w, "-")
		switch {
		case wholeValue.MatchString(w):
			return false
		case valued, flag, w == "--", amounts.MatchString(w), assignments.MatchString(w):
		case operands > 0:
			operands--
		default:
			return true
		}
	}
	return false
}
