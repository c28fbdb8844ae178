package credential

import (
	"regexp"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/engine"
)

// A literal value may be a credential whatever its variable is called. So only variables
// that are known to hold none are shown: those of engines, frameworks and drivers, and
// common ones of any program.
var (
	plainPrefixes = []string{
		"VLLM_", "SGLANG_", "SGL_", "DYN_", "LMCACHE_", "MOONCAKE_", "NIXL_", "FLASHINFER_", "TRITON_", "TRTLLM_", "RAY_",
		"CUDA_", "NVIDIA_", "NCCL_", "UCX_", "GLOO_", "NVSHMEM_", "MASTER_", "HIP_", "ROCR_", "ROCM_", "RCCL_",
		"TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "TRANSFORMERS_", "TOKENIZERS_", "HF_", "HUGGINGFACE_", "SAFETENSORS_",
		"OMP_", "MKL_", "OPENBLAS_", "PYTHON", "UVICORN_", "GOMEMLIMIT", "GOMAXPROCS", "GOGC", "MALLOC_", "LC_",
	}
	plainNames = []string{
		"PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "HOME", "LANG", "TZ", "USER", "SHELL", "TERM", "TMPDIR", "HOSTNAME", "HOST", "PORT",
		"POD_NAME", "POD_NAMESPACE", "POD_IP", "NODE_NAME", "NAMESPACE", "WORLD_SIZE", "RANK", "LOCAL_RANK", "MODEL", "MODEL_ID",
		"MODEL_NAME", "MODEL_PATH", "SERVED_MODEL_NAME", "MAX_MODEL_LEN", "TENSOR_PARALLEL_SIZE", "DTYPE", "QUANTIZATION",
		"LOG_LEVEL", "LOGLEVEL", "LOG_FORMAT", "VERBOSITY", "DEBUG", "PRIORITY_CLASS", "XDG_CACHE_HOME",
		"REGION", "AWS_REGION", "AWS_DEFAULT_REGION", "STORAGE_REGION", "NO_PROXY", "OTEL_SERVICE_NAME", "ZONE", "CLUSTER", "CLUSTER_NAME", "ENVIRONMENT", "STAGE", "MODE", "PROFILE", "LEVEL", "FORMAT", "ENGINE",
		"IMAGE", "REPOSITORY", "TAG", "IMAGE_TAG", "IMAGE_REPOSITORY", "VERSION", "REVISION", "REPLICAS", "REPLICA_COUNT", "PULL_POLICY", "IMAGE_PULL_POLICY",
		"SERVICE", "SERVICE_NAME", "APP", "APP_NAME", "COMPONENT", "ROLE", "KV_ROLE", "GPU_TYPE", "DEVICE", "PROTOCOL", "BACKEND", "ATTENTION_BACKEND",
	}
	// setting are flags of Helm, kubectl and Argo CD that take NAME=VALUE.
	setting    = []string{"--set", "--set-string", "--helm-set", "--helm-set-string", "--parameter", "-p", "--env", "-e"}
	plainFlags = []string{
		"config", "host", "port", "listen", "log-level", "log-format", "model", "replicas", "timeout", "v", "verbosity", "workers",
		"tp", "pp", "dp", "m", "o", "router-mode", "routing-logic", "namespace", "metrics-port", "health-port", "rope-scaling", "rope-theta",
	}
	plainCommands = []string{
		"python", "python3", "sh", "bash", "ash", "env", "exec", "tini", "dumb-init", "numactl", "nohup", "time", "uv", "torchrun", "mpirun", "ray",
		"vllm", "sglang", "dynamo", "trtllm-serve", "tritonserver", "lmdeploy", "llama-server", "text-generation-launcher",
		"serve", "server", "launch", "start", "run", "run-batch", "bench", "router", "worker", "frontend", "decode", "prefill", "head",
		"true", "false", "pipefail", "unlimited", "sleep", "echo", "cat", "cp", "mv", "rm", "mkdir", "ls", "test", "curl", "wget", "nvidia-smi", "huggingface-cli",
		"export", "set", "unset", "cd", "if", "then", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "ulimit", "source", "trap", "wait", "exit", "return", "eval", "local", "touch", "chmod", "ln",
		"infinity", "-", "--",
	}
	// short values hold no credential that is worth the name.
	short = regexp.MustCompile(`^(?i:true|false|yes|no|on|off|auto|none|[+-]?\d{1,6}(?:\.\d{1,6})?(?:ms|s|m|h|[kMGT]i?B?|%)?)$`)
	// pathLike is a model, a module, a path, an image or an address without a password.
	pathLike = regexp.MustCompile(`^[A-Za-z0-9._/:@+,-]{1,200}$`)
	module   = regexp.MustCompile(`^[a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)+$`)
	uuid     = regexp.MustCompile(`[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}`)
	wordLike = regexp.MustCompile(`[A-Za-z0-9]{20,}`)
)

// Hides reports whether a value is a credential by the name of its flag, variable or field, or
// by its form. None, null, a switch and an empty value are none.
func Hides(name, value string) bool { return Formed(value) || Named(name) && !nothing(value) }

// Plain reports whether the literal value of an environment variable may be shown: the
// variable is one that is known, or the value is a number or a switch.
func Plain(name, value string) bool {
	if Hides(name, value) {
		return false
	}
	return short.MatchString(value) || plainName(name)
}

// plainName reports whether a variable is known to hold no credential. Charts write logLevel
// for LOG_LEVEL.
func plainName(name string) bool {
	return slices.Contains(plainNames, name) || slices.Contains(plainNames, strings.ToUpper(strings.Join(wordsOf(name), "_"))) ||
		slices.ContainsFunc(plainPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// PlainFlag is Plain for a command-line flag: an engine's own, or a common one.
func PlainFlag(flag, value string) bool {
	if Hides(flag, value) {
		return false
	}
	name := strings.ToLower(strings.ReplaceAll(strings.TrimLeft(flag, "-"), "_", "-"))
	return short.MatchString(value) || slices.Contains(plainFlags, name) || engineFlag(flag) || ofPath(name) && PlainArgument(value)
}

// ofPath reports whether a name is that of a file or a directory.
func ofPath(name string) bool {
	return slices.ContainsFunc([]string{"file", "files", "path", "paths", "dir", "directory"}, func(end string) bool { return strings.HasSuffix(name, end) })
}

// plainWord is PlainFlag for a word behind a flag. Behind one of a single dash, which may
// take no value, it may be an argument, or the line of a shell, which is judged by itself.
func plainWord(flag, word string) bool {
	if strings.Contains(word, Redacted) {
		return true
	}
	word = strings.TrimLeft(shellEnd(word), "(")
	if slices.Contains(setting, flag) && plainSetting(word) {
		return true
	}
	switch {
	case strings.HasPrefix(word, "-"), operator.MatchString(word), nothing(word), expands(word), PlainFlag(flag, word):
		return true
	case strings.HasPrefix(flag, "--"):
		return false
	}
	return PlainArgument(word) || !Hides(flag, word) && strings.Contains(strings.TrimSpace(word), " ")
}

// plainSetting reports whether NAME=VALUE may be shown, or several of them behind commas, by
// the last part of each name: image.tag=v2.
func plainSetting(word string) bool {
	for one := range strings.SplitSeq(word, ",") {
		name, v, ok := strings.Cut(one, "=")
		last := name[strings.LastIndexByte(name, '.')+1:]
		if !ok || Named(name) || !Plain(last, v) && !engineFlag("--"+last) {
			return false
		}
	}
	return !Formed(word)
}

// engineFlag reports whether an engine has a flag of that name. What follows a dot is a
// field of its value.
func engineFlag(name string) bool {
	name, _, _ = strings.Cut(name, ".")
	return slices.ContainsFunc(engine.Unstated().Programs(), func(p *engine.Program) bool {
		_, ok := p.Flag(name)
		return ok
	})
}

// PlainArgument reports whether an argument without a flag may be shown: it is a common
// command, a number or a switch, the name of a module, or it has a slash, as a path, an
// image or a model has, and no part as long and mixed as a key. Any other word may be a
// password.
func PlainArgument(arg string) bool {
	switch {
	case Formed(arg) || !pathLike.MatchString(arg) || uuid.MatchString(arg):
		return false
	case short.MatchString(arg), slices.Contains(plainCommands, arg):
		return true
	case !strings.Contains(arg, "/") && !module.MatchString(arg):
		return false
	}
	return !slices.ContainsFunc(wordLike.FindAllString(arg, -1), func(w string) bool { return strings.ContainsAny(w, "0123456789") })
}

// RedactScript is Redact for lines of a shell, in which every variable and every flag
// counts as in a list of them.
func RedactScript(s string) string {
	return strings.Join(scriptLines(strings.Split(Redact(s), "\n")), "\n")
}

func script(s string) string {
	isPlain := func(name, word string) bool {
		v, isList := strings.CutPrefix(shellEnd(bare(word)), "(")
		return v == "" || strings.Contains(v, Redacted) || Plain(name, v) || expands(v) || isList && PlainArgument(v)
	}
	s = replaceValue(scriptVariable, s, func(m []string) bool { return !isPlain(m[2], m[4]) })
	s = replaceValue(smallVariable, s, func(m []string) bool { return !isPlain(m[2], m[4]) && !PlainArgument(bare(m[4])) })
	return replaceValue(scriptFlag, s, func(m []string) bool { return !plainWord(m[2], bare(m[4])) })
}

// shellEnd is a word without what ends a command of a shell.
func shellEnd(word string) string {
	word = strings.TrimRight(word, ";")
	if !strings.Contains(word, "$(") {
		word = strings.TrimRight(word, ")")
	}
	return word
}

// operator is a word of a shell between commands, or one that redirects or begins a comment.
var operator = regexp.MustCompile(`^(?:#|&&|\|\|?|;|&|\d?[<>]{1,2}(?:&\d)?)$`)

// expands reports whether a word of a shell is another variable, perhaps with a default that
// may be shown.
func expands(word string) bool {
	m := expansion.FindStringSubmatch(word)
	return m != nil && (m[1] == "" || short.MatchString(m[1]))
}

var (
	expansion      = regexp.MustCompile(`^\$(?:[A-Za-z_][A-Za-z0-9_]*|\([A-Z_][A-Z0-9_]*\)|\{[A-Za-z_][A-Za-z0-9_]*(?::?[-=+]([^{}]*))?\})(?::\d+)?$`)
	scriptVariable = regexp.MustCompile(`(^|[\s;&|('"])([A-Z][A-Z0-9_]+)(=\f\s*|=)(\$\{[^{}\s"']*\}|` + value + `)`)
	// smallVariable is one in small letters where a shell's command begins.
	smallVariable = regexp.MustCompile(`(^\s*|(?:&&|[\f;|(])\s*|\b(?:export|local|readonly|declare)\s+)([a-z][A-Za-z0-9_]*)(=\f\s*|=)(\$\{[^{}\s"']*\}|(?:` + quoted + `|[^\s"',{}\[\]\\;&|]+)(?:'[^'\n]*'|"[^"]*"|,[^\s"',{}\[\]\\;&|]+)*)`)
	scriptFlag    = regexp.MustCompile(`(^|[\s"'])(--?[A-Za-z][A-Za-z0-9_.-]*)(=\f\s*|=|\s+)(\$\{[^{}\s"']*\}|` + flagValue + `)`)
)

// replaceValue replaces the fourth part of what a form finds where hide says so.
func replaceValue(form *regexp.Regexp, s string, hide func(m []string) bool) string {
	return replaceWith(form, s, func(m []string) string {
		if hide(m) {
			return hidden(m[4])
		}
		return m[4]
	})
}

// replaceWith replaces the fourth part of what a form finds. A sixth one is what follows it.
func replaceWith(form *regexp.Regexp, s string, with func(m []string) string) string {
	var b strings.Builder
	at := 0
	for _, i := range form.FindAllStringSubmatchIndex(s, -1) {
		m := make([]string, 5, 6)
		for n := range m {
			m[n] = s[i[2*n]:i[2*n+1]]
		}
		m = append(m, s[i[9]:])
		b.WriteString(s[at:i[8]] + with(m))
		at = i[9]
	}
	return b.String() + s[at:]
}
