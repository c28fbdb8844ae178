package credential

import (
	"regexp"
	"slices"
	"strings"
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
	}
	plainFlags = []string{
		"config", "host", "port", "listen", "log-level", "log-format", "model", "replicas", "timeout", "v", "verbosity", "workers",
		"tp", "pp", "dp", "m", "o", "router-mode", "namespace", "metrics-port", "health-port", "rope-scaling", "rope-theta",
	}
	plainCommands = []string{
		"python", "python3", "sh", "bash", "ash", "env", "exec", "tini", "dumb-init", "numactl", "nohup", "time", "uv", "torchrun", "mpirun", "ray",
		"vllm", "sglang", "dynamo", "trtllm-serve", "tritonserver", "lmdeploy", "llama-server", "text-generation-launcher",
		"serve", "server", "launch", "start", "run", "run-batch", "bench", "router", "worker", "frontend", "decode", "prefill", "head",
		"true", "false", "sleep", "echo", "cat", "cp", "mv", "rm", "mkdir", "ls", "test", "curl", "wget", "nvidia-smi", "infinity", "-", "--",
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
	return short.MatchString(value) || slices.Contains(plainNames, name) ||
		slices.ContainsFunc(plainPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// PlainFlag is Plain for a command-line flag, with what an engine knows as its own.
func PlainFlag(flag, value string, known func(flag string) bool) bool {
	if Hides(flag, value) {
		return false
	}
	name := strings.ToLower(strings.ReplaceAll(strings.TrimLeft(flag, "-"), "_", "-"))
	return short.MatchString(value) || slices.Contains(plainFlags, name) || known(flag)
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

// RedactScript is Redact for a line of a shell, in which every variable and every flag
// counts as in a list of them.
func RedactScript(s string, known func(flag string) bool) string {
	s = Redact(s)
	s = replaceValue(scriptVariable, s, func(m []string) bool { return !Plain(m[2], bare(m[4])) })
	return replaceValue(scriptFlag, s, func(m []string) bool { return !PlainFlag(m[2], bare(m[4]), known) })
}

var (
	scriptVariable = regexp.MustCompile(`(^|[\s;&|('"])([A-Z][A-Z0-9_]+)(=)(` + value + `)`)
	scriptFlag     = regexp.MustCompile(`(^|\s)(--?[A-Za-z][A-Za-z0-9_.-]*)(=|\s+)(` + flagValue + `)`)
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

// replaceWith replaces the fourth part of what a form finds.
func replaceWith(form *regexp.Regexp, s string, with func(m []string) string) string {
	var b strings.Builder
	at := 0
	for _, i := range form.FindAllStringSubmatchIndex(s, -1) {
		m := make([]string, 5)
		for n := range m {
			m[n] = s[i[2*n]:i[2*n+1]]
		}
		b.WriteString(s[at:i[8]] + with(m))
		at = i[9]
	}
	return b.String() + s[at:]
}
