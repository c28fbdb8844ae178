package credential

import (
	"regexp"
	"slices"
	"strings"
)

// Values as they stand in a text: in quotes, which a JSON text escapes, or a word.
// Quotes that are not closed reach to the end. A shell's word goes on behind its quotes,
// behind a comma and behind an escaped blank.
const (
	quoted    = `"(?:[^"\\]|\\.)*(?:"|$)|'[^']*(?:'|$)|\\"(?:[^"\\]|\\[^"])*(?:\\"|$)`
	bareWord  = `[^\s"',{}\[\]\\]+`
	userFlag  = `(\s-[A-Za-z]*u|\s-U|--(?:proxy-)?user)`
	goesOn    = `(?:` + bareWord + `|,` + bareWord + `|'[^'\n]*'|"[^"\\\s,:{}\[\]]+"|\\ ){0,8}` // bounded, or a line of many would take the square of its length
	value     = `(?:` + quoted + `|` + bareWord + `)` + goesOn
	flagValue = `(?:` + quoted + `|[^\s"',{}\[\]\\-][^\s"',{}\[\]\\]*)` + goesOn
)

// Credentials inside a text are found by the end of the name before them, so
// that one without word bounds (HFTOKEN=) is found, too: of a flag in a shell
// line; of an assignment, a header's value or a member of JSON. A bare word is
// not enough: `secret "hf-token" not found` stays readable.
var (
	ends       = `(?:token|(?:` + strings.Join(keysOf, "|") + `)[-_ ]?keys?|` + strings.Join(nouns, "|") + `)`
	flagEnds   = regexp.MustCompile(`(?i)()(--?[a-z0-9_-]*` + ends + `)(=|\s+(?:-\s+)?)(` + value + `)`)
	memberEnds = regexp.MustCompile(`(?i)()(\b[a-z0-9_-]*` + ends + `)(\\?["']?\s*(?:=>|==|:=|[=:]|%3[Dd])\s*)(` + value + `)`)
	// element is one of XML.
	element = regexp.MustCompile(`(?i)(<[a-z0-9_.:-]*` + ends + `(?:\s[^<>]*)?>)[^<>]+(</)`)
	// literalElement is one of XML whose text has a comment, or is not read as XML; without
	// an end it reaches to the end of the text.
	literalElement = regexp.MustCompile(`(?is)(<[a-z0-9_.:-]*` + ends + `(?:\s[^<>]*)?>)[^<>]*(?:(?:<!--.*?(?:-->|\z)|<!\[CDATA\[.*?(?:\]\]>|\z))[^<>]*)+`)
	bearer         = regexp.MustCompile(`(?i)\b(bearer|authorization["']?\s*[=:]\s*["']?basic)\s+[A-Za-z0-9+/._~=-]{8,}`)
	login          = regexp.MustCompile(userFlag + `(\s*|=)(["']?[^\s"':=]+):[^\s"']*[^\d\s"'][^\s"']*`) // curl's; a user and a group by their numbers are none
	loginQuote     = regexp.MustCompile(userFlag + `(\s*|=)("[^":]+|'[^':]+):(?:[^"'\n]*\s[^"'\n]*)`)    // with a blank in the password
	loginDigit     = regexp.MustCompile(`(\bcurl\b[^|;&\n]*?)` + userFlag + `(\s*|=)(["']?[^\s"':=]+):[^\s"']+`)
	// header is a header that carries a credential, up to the end of its quotes or line.
	header = regexp.MustCompile(`(?i)()\b((?:proxy-)?authorization|(?:set-)?cookie|x-(?:[a-z0-9]+-)*(?:key|token|auth|secret)(?:-[a-z0-9]+)*)(\\?["']?\s*:\s*\\?["']?)([^"'\\\n{}\s][^"'\\\n{}]*)`)
	// arguments are those of programs whose flag for a password says nothing. Each is a
	// form of its own: where one is looked for up to the end of a line, so is every other one
	// of the same form, and a line of many would take the square of its length.
	arguments = argumentsOf(
		`\b(?:mysql|mariadb)[a-z-]*\b[^|;&\n]*?\s-p`, `\bredis-cli\b[^|;&\n]*?\s-a\s*`, `\bsshpass\s+-p\s*`, `\bmongo[a-z]*\b[^|;&\n]*?\s-p\s*`, `\blogin\b[^|;&\n]*?\s-p\s*`,
		`\bmachine\s+\S+\s+login\s+\S+\s+password\s+`, `\s-(?:store|key)pass\s+`, `\bfrom-literal(?:=|\s+)["']?[^\s=]+=`,
	)
	piped = regexp.MustCompile(`(\b(?:echo|printf)\s+(?:-\w+\s+)*)(` + value + `)(\s*\|[^|\n]*--password-stdin)`)
	dsn   = regexp.MustCompile(`([\w.-]+:)[^\s@"'/]+(@(?:tcp|unix)\()`) // of Go's driver for MySQL
)

func argumentsOf(before ...string) (forms []*regexp.Regexp) {
	for _, form := range before {
		forms = append(forms, regexp.MustCompile(`(?i)(`+form+`)(`+value+`)`))
	}
	return forms
}

// Credentials inside an address.
var (
	userinfo = regexp.MustCompile(`(://[^/\s:@"']*):[^/\s@]+@`)
	// slashed is a password with a slash or an @ in it; a port is none.
	slashed = regexp.MustCompile(`(://[^/\s:@"']*):[^\s@/"']*[^\d\s@/"'][^\s"']*@`)
	// registry is an image's address; a tag before a digest is no password.
	registry = regexp.MustCompile(`(^|[\s"'=,\[({])([A-Za-z0-9_.+$-]+:)[^\s/:@"',\[\]{}][^\s:@"',\[\]{}]*(@[a-z0-9.-]+(?::\d+)?/)`)
	// alone is a token in the place of a user.
	alone = regexp.MustCompile(`(://)[^/\s:@"']{16,}@`)
	// parameter is a signature or a key in a query: of Azure's shared access, of S3, of others.
	parameter = regexp.MustCompile(`(?i)([?&;](?:sig|signature|x-amz-signature|x-goog-signature|x-amz-security-token|key|code|token|access_token|api[-_]?key)=)[^&\s"'\\]+`)
	// hook is an address that whoever knows it may post to.
	hook = regexp.MustCompile(`(?i)(https?://(?:hooks\.slack(?:-gov)?\.com/[a-z]+/|[a-z0-9.]*discord(?:app)?\.com/api/webhooks/|[a-z0-9.-]*webhook\.office\.com/|outlook\.office(?:365)?\.com/webhook/|api\.telegram\.org/bot|events\.pagerduty\.com/integration/|[^\s"'/]+(?:/[^\s"'/]+)*?/(?:web)?hooks?/))[^\s"'\\]+`)
	// admission is such an address of a service in the cluster, which the API server calls.
	admission = regexp.MustCompile(`^https?://[^/@?#]*\.svc(?:\.cluster\.local)?(?::\d+)?/`)
)

// hooks replaces what stands behind the path in addresses that whoever knows them may post to.
func hooks(s string) string {
	return hook.ReplaceAllStringFunc(s, func(address string) string {
		if admission.MatchString(address) {
			return address
		}
		return hook.ReplaceAllString(address, "${1}"+Redacted)
	})
}

// Forms of a name and what stands between it and its value, of which the whole name is judged.
var (
	assigned = regexp.MustCompile(`([A-Za-z0-9_.-]+)["']?=`)
	flagged  = regexp.MustCompile(`(--[A-Za-z0-9_.-]+)\s+`)
	member   = regexp.MustCompile(`([A-Za-z0-9_.-]+)["']?\s*[=:]\s*`)
	// listed is a flag and its value as elements of a list.
	listed = regexp.MustCompile(`(?:^|[\s"'\[,])(--?[A-Za-z][A-Za-z0-9_.-]*)\\?["']?\s*,\s*`)
	// object is a member of JSON.
	object = regexp.MustCompile(`([A-Za-z0-9_.-]+)\\?"\s*:\s*`)
	// several is a member of JSON with a list or an object.
	several = regexp.MustCompile(`()([A-Za-z0-9_.-]+)(\\?"\s*:\s*)(\[[^\[\]{}]*\]|\{[^\[\]{}]*\})`)
)

// refers reports whether a name is that of the name of a Secret.
func refers(name string) bool {
	words := wordsOf(name)
	return len(words) > 0 && slices.Contains([]string{"name", "names", "ref", "refs"}, words[len(words)-1])
}

// namesIts reports whether a member of JSON names a Secret.
var namesIts = regexp.MustCompile(`"(?:name|secretName)\\?"\s*:`)

// WithoutKeys returns a text without private keys, which have several lines: one whose end
// is missing reaches to the end of the text. Use it on a whole text that is read line by
// line, or cut, afterwards.
func WithoutKeys(s string) string {
	const left = "(private key left out)"
	return endOfKey.ReplaceAllString(privateKey.ReplaceAllString(s, left), left)
}

var (
	privateKey = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY.*?(-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|\z)`)
	endOfKey   = regexp.MustCompile(`(?s)\A.*-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----`) // its begin was not read
)

// Redact replaces the credentials inside a text: of an error, an event, a shell
// line, JSON. Of more than 64 KiB the rest is left out, with a note. The time is in
// proportion to the length.
func Redact(s string) string { return bounded(WithoutKeys(s), redact) }

func redact(s string, isCut bool) string {
	s = flows(s, isCut, isCut)
	if isCut {
		s = openElement.ReplaceAllString(s, "${1}"+Redacted)
		s = openPipe.ReplaceAllString(s, "${1}"+Redacted+"${2}")
	}
	s = slashed.ReplaceAllString(s, "${1}:"+Redacted+"@") // before userinfo, which ends at the first @
	s = userinfo.ReplaceAllString(s, "${1}:"+Redacted+"@")
	s = alone.ReplaceAllString(s, "${1}"+Redacted+"@")
	s = registry.ReplaceAllString(s, "${1}${2}"+Redacted+"${3}")
	s = hooks(s)
	s = parameter.ReplaceAllString(s, "${1}"+Redacted)
	s = loginQuote.ReplaceAllString(s, "${1}${2}${3}:"+Redacted)
	s = login.ReplaceAllString(s, "${1}${2}${3}:"+Redacted)
	s = loginDigit.ReplaceAllString(s, "${1}${2}${3}${4}:"+Redacted)
	s = element.ReplaceAllString(s, "${1}"+Redacted+"${2}")
	s = literalElement.ReplaceAllString(s, "${1}"+Redacted)
	s = dsn.ReplaceAllString(s, "${1}"+Redacted+"${2}")
	for _, form := range arguments {
		s = form.ReplaceAllString(s, "${1}"+Redacted)
	}
	s = piped.ReplaceAllString(s, "${1}"+Redacted+"${3}")
	s = replaceValue(header, s, func(m []string) bool { return !nothing(m[4]) && !complains(m[2], m[3], m[4]) })
	s = bearer.ReplaceAllString(s, "${1} "+Redacted)
	s = replaceValue(basic, s, func(m []string) bool { return isLogin(m[4]) })
	s = forms.ReplaceAllString(s, Redacted)
	s = replaceValue(flagEnds, s, func(m []string) bool { return !special(m[2]) && !nothing(m[4]) })
	s = replaceValue(memberEnds, s, func(m []string) bool {
		return !special(m[2]) && !harmless(m[2], m[4]) && !complains(m[2], m[3], m[4]+m[5])
	})
	s = replaceValue(several, s, func(m []string) bool { return Named(m[2]) && !refers(m[2]) && !namesIts.MatchString(m[4]) })
	s = judged(object, s, func(name string) bool { return Named(name) && !refers(name) }, harmless)
	return named(flagged, named(assigned, s))
}

// harmless reports whether a value behind the name of a credential is none: it says that
// there is none, or what is wrong with it; it is a time or a number behind the word token,
// as in time to first token: 812ms; it is no address of a webhook. Of a variable of the
// environment and of a flag only what says that there is none is harmless.
func harmless(name, value string) bool {
	words := wordsOf(name)
	if nothing(value) || len(words) == 0 || strings.HasPrefix(name, "-") || environment.MatchString(name) {
		return nothing(value)
	}
	v, last := strings.ToLower(strings.TrimRight(bare(value), ",;.)")), words[len(words)-1]
	return slices.Contains([]string{"expired", "invalid", "missing", "required", "denied", "not"}, v) ||
		last == "token" && short.MatchString(v) || last == "webhook" && !strings.Contains(value, "/")
}

// complains reports whether what follows the name of a credential in a sentence is the
// beginning of what is wrong with it: could not read secret: permission denied. Names of
// variables and headers of clients are in no sentence.
func complains(name, separator, rest string) bool {
	return separator == ": " && complaint.MatchString(rest) && !environment.MatchString(name) && !strings.HasPrefix(strings.ToLower(name), "x-")
}

var complaint = regexp.MustCompile(`^(?:dial (?:tcp|unix)|permission denied|unexpected (?:EOF|end)|audience mismatch|failed (?:for|to)|context (?:deadline|canceled)|has (?:expired|been)|must (?:be|have)|could not|cannot be|connection (?:refused|reset))(?:[\s,:;)"'\\]|\.(?:\s|$)|$)`)

// hidden stands for a value, in its quotes, on each of its lines.
func hidden(v string) string {
	more := strings.Repeat(lineEnd+Redacted, strings.Count(v, lineEnd))
	for _, q := range []string{`"`, `'`, `\"`} {
		if strings.HasPrefix(v, q) {
			return q + Redacted + more + q
		}
	}
	return Redacted + more
}

// bare is a value without its quotes.
func bare(v string) string { return strings.Trim(v, `"'\`) }

// Of a line of YAML.
var (
	namedSecret = regexp.MustCompile(`(?i)\bname["']?:\s*["']?([A-Za-z0-9_.-]+)`)
	flagAlone   = regexp.MustCompile(`^\s*(?:-\s+["']?(--?[A-Za-z][A-Za-z0-9_.-]*)["']?|["'](--?[A-Za-z][A-Za-z0-9_.-]*)["']\s*,)\s*$`)
	literal     = regexp.MustCompile(`()(\bvalue)(["']?:\s+)(` + quoted + `|[^\s"'#{},][^#,}]*)`)
	valueOf     = regexp.MustCompile(`(\bvalue["']?:\s*)(.+)$`)
	blockMark   = regexp.MustCompile(`^[|>][-+0-9]*\s*(?:#.*)?$`)
	itemOf      = regexp.MustCompile(`^(\s*-\s*|\s*["'])([^-\s].*)$`)

	reference     = regexp.MustCompile(`^\$[({][A-Z_][A-Z0-9_]*[)}]$`)
	nameBelow     = regexp.MustCompile(`^\s*["']?(?:name|path)["']?:`)
	patchPath     = regexp.MustCompile(`\bpath["']?:\s*["']?(/[^\s"',}]+)`)
	namedVariable = regexp.MustCompile(`\bname["']?:\s*(?:[!&]\S*\s+)*["']?([A-Z_][A-Z0-9_]*)["']?\s*(?:[,}#]|$)`)
	keyedLine     = regexp.MustCompile(`^(\s*(?:-\s+)?["']?)([A-Z_][A-Z0-9_]+)(["']?:\s+)(\S.*)$`)
	literalLine   = regexp.MustCompile(`^(\s*(?:-\s+)?["']?)(value)(["']?:\s+)(\S.*)$`)
	keyedVariable = regexp.MustCompile(`(^|[\s{,"'])([A-Z_][A-Z0-9_]+)(["']?:\s+)(` + value + `)`)
)

// redactLine replaces the credentials in a line of a manifest, and the values of
// environment variables that are not known to hold none. before and after are the lines
// around it, as [beside] finds them: one of them may be the name of its value.
func redactLine(line, before, after string) string {
	line = bounded(WithoutKeys(line), func(s string, isCut bool) string { return flows(redact(s, isCut), true, isCut) })
	line = named(member, line)
	line = flags(assignments(line))
	names := namesOf(line, before, after)
	line = variables(line, names)
	for _, name := range names {
		isFlow := name == line && strings.Contains(line, "{") // judged object by object
		m, path := namedSecret.FindStringSubmatch(name), patchPath.FindStringSubmatch(name)
		if !isFlow && (m != nil && Named(m[1]) || path != nil && hidesPath(path[1])) {
			line = valueOf.ReplaceAllString(line, "${1}"+Redacted)
		}
	}
	item := itemOf.FindStringSubmatch(line)
	if m := flagAlone.FindStringSubmatch(before); m != nil && item != nil && !blockMark.MatchString(item[2]) && !plainWord(m[1]+m[2], trimmed(strings.TrimRight(item[2], ", "))) {
		return item[1] + Redacted
	}
	return line
}

// flags replaces the values of flags that are not known to hold no credential: in a list
// on one line, and in a line of a shell, whose variables count as well.
func flags(line string) string {
	if comment(line) {
		return line
	}
	return script(lists(listedArguments(line)))
}

// namesOf returns the lines that may name the value of a line: itself; the one above,
// unless the line begins an element; the one below, if it goes on with the element.
func namesOf(line, before, after string) []string {
	names := []string{line}
	if !strings.HasPrefix(strings.TrimSpace(line), "- ") {
		names = append(names, before)
	}
	if nameBelow.MatchString(after) {
		names = append(names, after)
	}
	return names
}

// beside returns of each line the one above and the one below it that is neither blank
// nor a comment; empty: there is none.
func beside(lines []string) (before, after []string) {
	before, after = make([]string, len(lines)), make([]string, len(lines))
	last := ""
	for i, line := range lines {
		if before[i] = last; !comment(line) {
			last = line
		}
	}
	last = ""
	for i := len(lines) - 1; i >= 0; i-- {
		if after[i] = last; !comment(lines[i]) {
			last = lines[i]
		}
	}
	return before, after
}

// variables replaces the literal values of environment variables in a line. A value
// reaches to the end of its line, unless its name stands within braces.
func variables(line string, names []string) string {
	if comment(line) {
		return line
	}
	keyed, valued := keyedLine, literalLine
	if strings.ContainsAny(line, "{}") && !keyedLine.MatchString(line) && !literalLine.MatchString(line) {
		keyed, valued = keyedVariable, literal
	}
	line = replaceValue(keyed, line, func(m []string) bool { return !plainLiteral(m[2], trimmed(m[4])) })
	for _, name := range names {
		if m := namedVariable.FindStringSubmatch(name); m != nil && (name != line || !strings.Contains(line, "{")) {
			return replaceValue(valued, line, func(v []string) bool { return !plainLiteral(m[1], trimmed(v[4])) })
		}
	}
	return line
}

// assignments replaces the literal values of variables that are items of a list, as the
// literals of a kustomization are: - LICENCE=x.
func assignments(line string) string {
	if comment(line) {
		return line
	}
	forms := assignmentItems
	if inList.MatchString(line) {
		forms = append(slices.Clip(forms), smallItem)
	}
	for _, form := range forms {
		line = replaceWith(form, line, func(m []string) string {
			v, rest := m[4], ""
			if word := shellWord.FindString(v); beforeCommand.MatchString(v[len(word):]) {
				v, rest = word, v[len(word):] // of a shell's line
			}
			judged := v
			if !strings.HasSuffix(m[1], `"`) && !strings.HasSuffix(m[1], "'") {
				judged = trimmed(v)
			}
			if isFile := !variable.MatchString(m[2]) && PlainArgument(judged); !isFile && !plainLiteral(m[2], judged) {
				v = hidden(v)
			}
			return v + rest
		})
	}
	return line
}

// shellWord is the first word of a shell's line, flagWord one that is no flag, and beforeCommand what goes on behind it
// with a command.
var (
	shellWord     = regexp.MustCompile(`^(?:` + value + `)`)
	flagWord      = regexp.MustCompile(`^(?:` + flagValue + `)`)
	beforeCommand = regexp.MustCompile(`^\s*(?:&&|;|\|\|)|^\s+(?:` + strings.Join(plainCommands[:len(plainCommands)-2], "|") + `)(?:\s|$)`)
)

// assignmentItems are an item that has a line, and items within brackets.
var assignmentItems = []*regexp.Regexp{
	regexp.MustCompile(`^(\s*-\s+)([A-Za-z_][\w.-]*)(=)(\S.*?)\s*$`),
	regexp.MustCompile(`^(\s*-\s+["'])([A-Za-z_][\w.-]*)(=)(.+?)["']?\s*$`),
	regexp.MustCompile(`([\[,]\s*")([A-Za-z_][\w.-]*)(=)((?:[^"\\]|\\.)+)`),
	regexp.MustCompile(`([\[,]\s*')([A-Za-z_][\w.-]*)(=)([^']+)`),
	regexp.MustCompile(`([\[,]\s*)([A-Z_][A-Z0-9_]*)(=)([^\s"',\]][^,\]]*)`),
}

// inList are a list on one line, and its items in small letters.
var inList, smallItem = regexp.MustCompile(`^\s*(?:-\s+)*(?:[\w."'-]+:\s+)?\[`), regexp.MustCompile(`([\[,]\s*)([A-Za-z_][\w.-]*)(=)([^\s"',\]][^,\]]*)`)

// trimmed is a value without its quotes, or without the comment behind it: in quotes a
// # is part of the value.
func trimmed(v string) string {
	if i := strings.Index(v, " #"); i >= 0 && !strings.HasPrefix(v, `"`) && !strings.HasPrefix(v, "'") {
		v = v[:i]
	}
	return bare(strings.TrimSpace(v))
}

// plainLiteral is Plain for a manifest, in which a variable may also hold flags, of
// which Redact hides the credentials, or name another variable.
func plainLiteral(name, value string) bool {
	return value == "" || Plain(name, value) || !Named(name) && !Formed(value) && (strings.HasPrefix(value, "--") || reference.MatchString(value))
}

// named replaces the values that a form finds behind the name of a credential. A
// value may be a name and its value in turn.
func named(form *regexp.Regexp, line string) string {
	return judged(form, line, func(name string) bool { return Named(name) && name != "secretName" }, harmless)
}

// judged is named with what decides whether the value of a name is read, and whether it
// stays. Any other value is not read, or a line of many would take the square of its length.
func judged(form *regexp.Regexp, line string, isOne func(name string) bool, stays func(name, value string) bool) string {
	worth := shellWord
	if form == flagged || form == listed {
		worth = flagWord
	}
	var b strings.Builder
	for at, shown := 0, 0; ; {
		m := form.FindStringSubmatchIndex(line[at:])
		if m == nil {
			return b.String() + line[shown:]
		}
		name, start := line[at+m[2]:at+m[3]], at+m[1]
		at = start
		if !isOne(name) {
			continue
		}
		if v := worth.FindString(line[start:]); v != "" && !stays(name, v) {
			b.WriteString(line[shown:start] + hidden(v))
			at = start + len(v)
			shown = at
		}
	}
}
