package main

import (
	"errors"
	"go/build"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const modulePath = "github.com/inference-responder/responder"

// mayImport is the table of who may import whom inside the module, besides the
// standard library and the client libraries of the package's own subject. A
// package that is not a key may import nothing of the module, so a new package
// needs a row. Change a row only with a reason next to it.
var mayImport = map[string][]string{
	"internal/outbound": {}, // how other servers are connected to: a leaf
	"internal/inbound":  {}, // bounded listeners: a leaf
	"internal/dynamo":   {}, // what the planner of Dynamo has in its arguments: a leaf
	"internal/fault":    {}, // why something failed: a leaf, one Reason and one Error
	// One HTTP server that is asked: bounded answers, reasons, no secret in an error.
	"internal/outbound/endpoint": {"internal/fault", "internal/outbound"},

	"internal/playbook": {"internal/expression", "internal/spelling", "internal/yamldoc"},
	// Two parts of the language that policies are written in, too.
	"internal/spelling":   {},                    // what a misspelled name was meant to be, for hints
	"internal/yamldoc":    {"internal/spelling"}, // strict YAML with a place for every complaint
	"internal/expression": {"internal/yamldoc"},  // typed CEL over declared fields; its hints are yamldoc's

	"internal/rights": {}, // who may do what: a leaf, because every door and every view asks it
	// Its commands name the right that they take.
	"internal/executor/machine": {"internal/fault", "internal/playbook", "internal/rights"},
	// The rules over all playbooks speak of levers and give the machine its terms.
	"internal/policy":            {"internal/playbook", "internal/executor/machine", "internal/expression", "internal/yamldoc"},
	"internal/audit":             {},
	"internal/executor":          {"internal/fault", "internal/playbook", "internal/executor/machine", "internal/audit", "internal/executor/dispatch", "internal/executor/guard", "internal/executor/ladder", "internal/rights"},
	"internal/executor/dispatch": {"internal/playbook", "internal/executor/machine", "internal/audit"},
	"internal/executor/guard":    {"internal/playbook", "internal/executor/machine", "internal/executor/ladder"},
	"internal/executor/ladder":   {"internal/fault", "internal/playbook", "internal/executor/machine", "internal/audit"},
	// The contract speaks of workloads, places in Git, series and GPUs, so it imports their types.
	"internal/step": {
		"internal/playbook", "internal/executor/machine", "internal/fault", "internal/kube", "internal/kube/jobs", "internal/gitops", "internal/slo", "internal/gpu",
		"internal/engine", // the series in which an engine exports what a service is judged by
		"internal/engine/golden",
		"internal/outbound", // the client that asks endpoints and pods
	},
	// One file for each check and lever; siblings never import each other.
	"internal/step/kube": {
		"internal/playbook", "internal/executor/machine", "internal/fault", "internal/step", "internal/kube", "internal/kube/jobs",
		"internal/engine", "internal/credential", // what lines of an engine's log tell, and what in them nobody may read
	},
	"internal/step/git":    {"internal/playbook", "internal/executor/machine", "internal/fault", "internal/step", "internal/kube", "internal/gitops", "internal/engine"},
	"internal/step/gpu":    {"internal/playbook", "internal/fault", "internal/step", "internal/kube", "internal/slo", "internal/gpu", "internal/gpu/dcgm", "internal/gpu/judge"},
	"internal/step/node":   {"internal/playbook", "internal/executor/machine", "internal/fault", "internal/step", "internal/kube", "internal/slo", "internal/gpu", "internal/gpu/judge"},
	"internal/step/slo":    {"internal/playbook", "internal/fault", "internal/step", "internal/slo"},
	"internal/step/engine": {"internal/playbook", "internal/fault", "internal/step", "internal/kube", "internal/slo", "internal/engine", "internal/engine/golden", "internal/gitops"}, // gitops reads the flags of a live manifest, in any form
	// All services at once: their objectives, their workloads, the GPUs of their nodes.
	"internal/step/fleet": {"internal/fault", "internal/playbook", "internal/step", "internal/kube", "internal/slo", "internal/gpu", "internal/gpu/judge"},
	// A service as a whole, whoever owns its parts: the cluster, Git, its load.
	"internal/step/service": {
		"internal/playbook", "internal/executor/machine", "internal/fault", "internal/step", "internal/kube", "internal/gitops", "internal/slo",
	},
	// The one map of kinds.
	"internal/step/kinds": {
		"internal/playbook", "internal/step", "internal/step/engine", "internal/step/fleet", "internal/step/git", "internal/step/gpu", "internal/step/kube",
		"internal/step/node", "internal/step/service", "internal/step/slo",
	},

	// The outside world knows nothing of playbooks, runs or its callers.
	"internal/kube":             {"internal/fault", "internal/credential", "internal/dynamo"},
	"internal/kube/jobs":        {"internal/credential", "internal/setting", "internal/yamldoc"}, // templates of Jobs: it declares its own block of responder.yaml
	"internal/gitops":           {"internal/fault", "internal/credential", "internal/dynamo", "internal/gitops/edit", "internal/gitops/command", "internal/gitops/kustomize", "internal/gitops/helm"},
	"internal/gitops/edit":      {"internal/fault"},
	"internal/gitops/command":   {"internal/fault", "internal/gitops/edit"},
	"internal/gitops/kustomize": {"internal/fault", "internal/gitops/edit"},
	"internal/gitops/helm":      {"internal/fault", "internal/gitops/edit", "internal/gitops/command"},
	// Helm's engine: only the program responder-helm links it, which the service starts.
	"internal/gitops/helm/engine": {"internal/gitops/helm"},

	"internal/gitops/forge": {"internal/fault", "internal/gitops", "internal/outbound"},
	// The editor, the repositories and the pull requests put together, for the levers' interfaces.
	"internal/gitops/manifests": {"internal/fault", "internal/gitops", "internal/gitops/forge", "internal/gitops/proposal", "internal/gitops/repository"},
	// What a change of manifests would be: pure, for real repositories and for the sandbox's.
	"internal/gitops/proposal": {"internal/fault", "internal/gitops", "internal/credential"},

	"internal/gitops/repository": {"internal/fault", "internal/gitops", "internal/outbound", "internal/credential"}, // go-git and signing: one edge package holds them; messages of commits may hold some
	"internal/gitops/flux":       {"internal/fault", "internal/gitops", "internal/credential"},                      // what Flux and its sources say in conditions may hold some
	"internal/gitops/argocd":     {"internal/fault", "internal/gitops", "internal/outbound", "internal/credential"}, // argo-cd's packages are heavy: one edge package holds them, and only internal/app/cluster imports it

	"internal/engine":           {"internal/spelling"},
	"internal/engine/golden":    {"internal/outbound"},                                                        // asks engines, and knows neither their metrics nor their pods
	"internal/slo":              {"internal/fault", "internal/outbound", "internal/credential"},               // what Prometheus writes may hold some
	"internal/slo/rules":        {"internal/engine", "internal/slo", "internal/spelling", "internal/yamldoc"}, // objectives as rules: what it knows of them are engines' series and documents
	"internal/cli/agentflags":   {},                                                                           // flags that the agent and `responder agent` share
	"internal/gpu":              {},
	"internal/gpu/judge":        {"internal/gpu"},                       // pure, like the readings
	"internal/gpu/dcgm":         {"internal/gpu", "internal/gpu/judge"}, // reads as far back as verdicts look
	"internal/gpu/agent":        {"internal/gpu", "internal/gpu/judge", "internal/inbound", "internal/outbound"},
	"internal/gpu/client":       {"internal/fault", "internal/gpu", "internal/outbound"},
	"internal/gpu/repair":       {"internal/setting", "internal/outbound", "internal/outbound/endpoint"}, // whoever repairs GPUs
	"internal/gpu/podresources": {"internal/gpu"},                                                        // gRPC and the kubelet's messages: only the node agent links them
	"internal/gpu/nvml":         {"internal/gpu"},                                                        // go-nvml and cgo: one edge package holds them
	"internal/goruntime":        {},                                                                      // the runtime's processors and garbage as the service has them: for main, and for benchmarks that run as it does
	"internal/credential":       {"internal/engine"},                                                     // one rule of what is a credential, for everybody who shows what others wrote; flags of engines are shown
	// Messages and who gets them. The feed follows the journal and tells events of
	// runs, so it speaks of both. A channel maps them to its protocol, and declares
	// its own block of responder.yaml.
	"internal/notify":           {"internal/audit", "internal/setting", "internal/executor/machine", "internal/fault", "internal/playbook"},
	"internal/notify/webhook":   {"internal/setting", "internal/executor/machine", "internal/fault", "internal/notify", "internal/outbound", "internal/outbound/endpoint", "internal/playbook", "internal/runview"},
	"internal/notify/pagerduty": {"internal/setting", "internal/executor/machine", "internal/fault", "internal/notify", "internal/outbound/endpoint", "internal/runview"},
	"internal/notify/report":    {"internal/setting"},                                                                                  // when reports fall due: what they say and who records them it does not know
	"internal/notify/slack":     {"internal/setting", "internal/credential", "internal/fault", "internal/notify", "internal/outbound"}, // what a proxy answers may hold the token
	// Approvals turn runs into messages and clicks into decisions, and show the error budget.
	"internal/notify/slack/approvals": {
		"internal/audit", "internal/executor/machine", "internal/fault", "internal/notify/slack", "internal/playbook", "internal/runview", "internal/slo",
	},
	// The silencer follows the journal, and admits what resolved in silence.
	"internal/notify/alertmanager": {
		"internal/audit", "internal/setting", "internal/executor/machine", "internal/fault", "internal/notify", "internal/outbound", "internal/outbound/endpoint", "internal/playbook",
	},

	"internal/notify/alertmanager/routing": {}, // where alerts go by a configuration of Alertmanager

	// For tests only: servers, the conformance test of levers, and test binaries that stand for the program.
	"internal/audit/audittest":              {"internal/audit"},
	"internal/gitops/gittest":               {}, // git's own HTTP server on repositories of a test's own
	"internal/gpu/podresources/kubelettest": {}, // the kubelet's API, as a real gRPC server: of who asks it it knows nothing
	"internal/gpu/nvml/nvmltest":            {}, // NVIDIA's driver library, as C: of who calls it it knows nothing
	"internal/engine/golden/goldentest":     {}, // an engine's HTTP API: of who asks it it knows nothing
	"internal/kube/kubetest":                {"internal/kube"},
	"internal/notify/notifytest":            {"internal/fault"}, // PagerDuty and Alertmanager as they document it: of our own clients it knows nothing
	"internal/notify/slack/slacktest":       {},                 // Slack as Slack documents it: of our own client it knows nothing
	"internal/webhook/oidctest":             {},                 // an OpenID Connect issuer: of who verifies its tokens it knows nothing
	"internal/slo/slotest":                  {"internal/slo"},
	"internal/step/steptest":                {"internal/fault", "internal/playbook", "internal/executor/machine", "internal/step", "internal/step/kinds", "internal/kube", "internal/gitops"},

	// The catalog makes playbook.Service values, which runs keep, and declares its own block of responder.yaml.
	// It knows by what indicators an engine can be judged.
	"internal/catalog": {"internal/setting", "internal/engine", "internal/playbook", "internal/kube", "internal/yamldoc"},
	// What the API takes and answers: projections of what it must not show as it is stored.
	"internal/api":             {"internal/fault", "internal/playbook", "internal/executor/machine"},
	"internal/webhook":         {"internal/api", "internal/playbook", "internal/executor/machine", "internal/inbound", "internal/outbound", "internal/rights", "internal/webhook/session"},
	"internal/webhook/session": {},                                                                                                        // what a signed-in browser is known by: of HTTP and of people it knows nothing
	"internal/web":             {"internal/api", "internal/playbook", "internal/executor/machine", "internal/rights", "internal/runview"}, // the page: the words and tables of the terminal, alerts as the API has them
	// The sandbox stands behind step's interfaces, so it speaks their types.
	"internal/sandbox": {
		"internal/fault", "internal/sandbox/physics", "internal/slo/rules", "internal/yamldoc", // files that describe a world
		"internal/playbook", "internal/step", "internal/kube", "internal/slo", "internal/gpu", "internal/gpu/judge",
		"internal/gitops", "internal/gitops/proposal", // the real editor, on a repository in memory
	},
	"internal/sandbox/physics": {}, // one engine: of clusters and names of metrics it knows nothing
	// Playbooks on canned results: it knows runs, and no steps.
	"internal/rehearsal": {"internal/fault", "internal/playbook", "internal/executor/machine", "internal/yamldoc"},
	"playbooks":          {}, // the shipped playbooks, embedded

	// Events and runs in words, tables and pictures: once, for CLI, page, Slack and demo.
	"internal/runview": {"internal/api", "internal/playbook", "internal/executor/machine", "internal/fault"}, // a lever that was not needed any more is told from one that was refused
	// Reports of one run and of a period as documents: Markdown and HTML.
	"internal/runview/review": {"internal/api", "internal/playbook", "internal/runview"},
	// Runs as OpenTelemetry traces: a view of the journal, as runview is, that follows it
	// and is posted, and declares its own block of responder.yaml.
	"internal/trace": {"internal/audit", "internal/executor/machine", "internal/fault", "internal/outbound/endpoint", "internal/playbook", "internal/setting"},
	// Rules that blocks of responder.yaml share, for packages that declare their own block.
	"internal/setting": {"internal/credential"},
	// responder.yaml as options of what it configures.
	"internal/config": {
		"internal/catalog", "internal/setting", "internal/executor/guard", "internal/executor/ladder", "internal/gitops", "internal/gpu/client",
		"internal/gpu/repair", "internal/kube/jobs", "internal/notify", "internal/notify/alertmanager", "internal/notify/pagerduty", "internal/notify/report", "internal/notify/slack", "internal/notify/webhook",
		"internal/playbook", "internal/rights", "internal/runview", "internal/spelling", "internal/trace", "internal/webhook", "internal/yamldoc",
	},
	// It builds, starts and stops the service around a world, so it knows every part. Only
	// the command line imports it.
	"internal/app": {
		"internal/api", "internal/audit", "internal/catalog", "internal/config", "internal/engine/golden", "internal/executor", "internal/executor/dispatch", "internal/executor/guard", "internal/executor/ladder", "internal/executor/machine", "internal/fault",
		"internal/gitops", "internal/goruntime", "internal/gpu", "internal/gpu/dcgm", "internal/gpu/judge", "internal/kube", "internal/notify", "internal/notify/alertmanager", "internal/notify/report", "internal/notify/slack", "internal/notify/slack/approvals", "internal/playbook", "internal/policy", "internal/rights",
		"internal/outbound/endpoint", // the receiver of checkpoints
		"internal/runview/review",    // the words of reports that the service sends
		"internal/runview", "internal/sandbox", "internal/slo", "internal/step", "internal/step/git", "internal/step/gpu", "internal/step/kinds", "internal/step/node", "internal/trace", "internal/web", "internal/webhook",
		"internal/yamldoc", "playbooks",
	},
	// The real world of a configuration: its cluster, Prometheus, agents, Git and what deploys
	// from it. Apart from internal/app, so that the demo is built without their clients.
	"internal/app/cluster": {
		"internal/app", "internal/catalog", "internal/config", "internal/engine/golden", "internal/fault", "internal/gitops", "internal/gitops/argocd", "internal/gitops/flux", "internal/gitops/forge", "internal/gitops/manifests", "internal/gitops/repository",
		"internal/gpu/client", "internal/gpu/repair", "internal/kube", "internal/kube/jobs", "internal/playbook", "internal/runview", "internal/slo", "internal/slo/rules", "internal/step", "internal/step/git", "internal/step/gpu",
	},
	// A command asks a running service through client, or reads files through app
	// and config. What else it imports is the command's own subject.
	"internal/cli": {
		"internal/api", "internal/app", "internal/app/cluster", "internal/config", "internal/runview", "internal/runview/review",
		"internal/cli/agentflags", "internal/cli/client", "internal/cli/command", "internal/cli/demo", "internal/cli/dryrun",
		"internal/audit",                                                    // audit verify and export: the files of a journal, without a service
		"internal/engine",                                                   // engine flags
		"internal/executor/machine",                                         // policy explain: what the machine would ask; runs: the state that runview shows
		"internal/gitops", "internal/gitops/manifests", "internal/step/git", // gitops locate and set: the editor, and the checks of the levers
		"internal/engine/golden", "internal/step", "internal/step/engine", // engine probe --record: files of golden prompts
		"internal/gpu/judge",                                           // gpu: judgements of nodes
		"internal/playbook", "internal/step/kinds", "internal/yamldoc", // playbook lint, graph and kinds: the language and its problems
		"internal/rehearsal", // playbook test; replay: assumed results
		"internal/cli/replay",
		"internal/executor/dispatch",              // replay: the names of what the journal has of notifications
		"internal/cli/worlds",                     // playbook test: simulated fleets
		"internal/cli/doctor",                     // doctor
		"internal/cli/series", "internal/setting", // playbook lint: the series that queries read, and where a token may go
		"internal/policy",       // policy lint, test and explain: the rules
		"internal/sandbox",      // the names of scenarios; serve --sandbox
		"internal/notify/slack", // slack manifest
		"internal/spelling",     // hints for misspelled names
		"internal/slo/rules",    // slo rules
	},
	"internal/cli/command": {"internal/runview", "internal/runview/review"}, // what every command shares: the process, -o, exit codes
	// The same service over HTTP: the build information of app, the URL checks of setting, secrets and TLS of outbound.
	// The file of contexts is strict YAML.
	"internal/cli/client": {"internal/api", "internal/app", "internal/cli/command", "internal/setting", "internal/executor/machine", "internal/outbound", "internal/runview", "internal/spelling", "internal/yamldoc"},
	"internal/cli/demo": {
		"internal/api", "internal/app", "internal/audit", "internal/cli/client", "internal/cli/command", "internal/config", "internal/executor/machine",
		"internal/kube", "internal/playbook", "internal/runview", "internal/sandbox", "internal/slo",
	},
	// Scenario files through a whole service: package testing lends it the bubble in which time jumps.
	"internal/cli/worlds": {
		"internal/api", "internal/app", "internal/executor/machine", "internal/notify", "internal/playbook", "internal/sandbox", "internal/step", "internal/yamldoc",
	},
	"internal/cli/dryrun": {
		"internal/fault",
		"internal/api", "internal/app", "internal/app/cluster", "internal/cli/client", "internal/cli/command", "internal/config", "internal/setting", "internal/executor/machine", "internal/gitops",
		"internal/kube", "internal/playbook", "internal/policy", "internal/runview", "internal/step",
	},
	// Runs of the past, decided as the service decides: the dispatcher, the machine, and checks without levers.
	"internal/cli/replay": {
		"internal/api", "internal/executor/dispatch", "internal/executor/machine", "internal/fault", "internal/kube", "internal/playbook",
		"internal/rehearsal", "internal/runview", "internal/slo", "internal/step", "internal/step/kinds",
	},
	"internal/cli/series": {"internal/engine", "internal/gpu/dcgm", "internal/playbook", "internal/spelling", "internal/yamldoc"}, // what queries read, in a Prometheus
	// It asks what the service asks, by the parts with which the service does.
	"internal/cli/doctor": {
		"deploy/kubernetes", "internal/app", "internal/app/cluster", "internal/audit", "internal/cli/command", "internal/cli/series", "internal/config", "internal/fault",
		"internal/gpu/judge", "internal/kube", "internal/notify/alertmanager", "internal/notify/alertmanager/routing", "internal/playbook", "internal/runview", "internal/slo", "internal/slo/rules",
		"internal/step",
	},
	"deploy/chart":        {}, // the chart, and its copies of roles and rules
	"deploy/chart/pack":   {}, // the chart as a package of a version
	"deploy/kubernetes":   {}, // the manifests, embedded
	"deploy/sbom":         {}, // what is in a program
	"deploy/image":        {}, // programs as a container image
	"cmd/responder":       {"internal/cli", "internal/cli/command"},
	"cmd/responder/demo":  {"internal/audit", "internal/cli/command", "internal/cli/demo"}, // it examines its journal in a child of its own
	"cmd/responder/helm":  {"internal/gitops/helm/engine"},
	"cmd/responder/agent": {"internal/cli/agentflags", "internal/gpu", "internal/gpu/agent", "internal/gpu/judge", "internal/gpu/nvml", "internal/gpu/podresources"},
}

// forbidden lists what a package must never reach directly, by prefix of the
// import path, with the reason.
var forbidden = map[string]map[string]string{
	"internal/executor/machine": {
		"os": "decisions are pure", "net": "decisions are pure",
		"log": "decisions are pure", "context": "decisions are pure",
	},
	"internal/policy": {
		"os": "rules are pure", "net": "rules are pure", "log": "rules are pure", "context": "rules are pure",
	},
	"internal/executor":          withReason("the executor reaches the world only through steps", clientLibraries...),
	"internal/executor/dispatch": withReason("the executor reaches the world only through steps", clientLibraries...),
	"internal/executor/guard":    withReason("the executor reaches the world only through steps", clientLibraries...),
	"internal/executor/ladder":   withReason("the executor reaches the world only through steps", clientLibraries...),
	"internal/playbook":          withReason("the language runs nothing", clientLibraries...),
	"internal/audit":             withReason("the journal knows no subject", clientLibraries...),
	"internal/webhook":           withReason("the receiver only receives", "k8s.io", "github.com/slack-go", "github.com/argoproj"),
}

// everywhere lists what no package of the program reaches directly, cmd
// included, and why. Templates look methods up by name, so that the linker keeps
// every exported method of every type: 36 MB of binary, and 20 MiB resident when idle.
var everywhere = map[string]string{
	"text/template":               "it keeps every exported method in the binary: write the text in Go",
	"html/template":               "it keeps every exported method in the binary: write the text in Go",
	"k8s.io/client-go/kubernetes": "it compiles every API group, which the demo waits for: internal/kube/typed.go has those that are used",
	"k8s.io/kubectl/pkg/drain":    "it evicts without a precondition, cannot be stopped between two pods, and does not say which filter kept a pod: docs/decisions/0009",
}

var clientLibraries = []string{
	"k8s.io", "net/http", "github.com/labstack/echo", "github.com/slack-go", "github.com/argoproj", "github.com/go-git",
	"github.com/prometheus/client_golang/api", "github.com/NVIDIA",
}

func withReason(why string, prefixes ...string) map[string]string {
	m := map[string]string{}
	for _, p := range prefixes {
		m[p] = why
	}
	return m
}

// TestImports holds the architecture: one direction, and the outside world at
// the edges. It reads the sources, so it needs no build.
func TestImports(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := 0
	for _, dir := range packageDirs(t, root) {
		pkg, err := build.Default.ImportDir(filepath.Join(root, dir), 0)
		if err != nil {
			if none := new(build.NoGoError); errors.As(err, &none) {
				continue
			}
			t.Errorf("read %s: %v", dir, err)
			continue
		}
		seen++
		if slices.ContainsFunc(pkg.Imports, func(imp string) bool { return strings.HasPrefix(imp, "github.com/NVIDIA/") }) && dir != "internal/gpu/nvml" {
			t.Errorf("%s imports go-nvml, which is internal/gpu/nvml's alone", dir)
		}
		for _, imp := range pkg.Imports {
			if strings.HasPrefix(imp, "github.com/NVIDIA/go-nvml/pkg/nvml/mock") {
				t.Errorf("%s imports %s, which is for tests", dir, imp)
			}
			if strings.HasPrefix(imp, "helm.sh/helm/") && dir != "internal/gitops/helm/engine" && dir != "deploy/chart/pack" {
				t.Errorf("%s imports %s, which no program of the service may hold but responder-helm", dir, imp)
			}
			if strings.HasPrefix(imp, "go.opentelemetry.io/") && dir != "internal/trace" {
				t.Errorf("%s imports %s, which is internal/trace's alone", dir, imp)
			}
			if why := everywhere[imp]; why != "" {
				t.Errorf("%s imports %s: %s", dir, imp, why)
			}
		}
		checkImports(t, dir, pkg.Imports)
	}
	if seen < 5 {
		t.Fatalf("saw only %d packages below %s: the test looks in the wrong place", seen, root)
	}
}

// TestDemoIsLight: a newcomer does not wait for clients that the demo does not use.
func TestDemoIsLight(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./demo").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 100 {
		t.Fatalf("%d packages", len(packages))
	}
	for _, p := range packages {
		switch {
		case strings.HasPrefix(p, "github.com/argoproj/"), strings.HasPrefix(p, "github.com/google/go-github/"),
			strings.HasPrefix(p, "k8s.io/client-go/kubernetes"), strings.HasPrefix(p, "k8s.io/client-go/applyconfigurations"), p == "github.com/go-git/go-git/v5":
			t.Errorf("responder-demo links %s", p)
		}
	}
}

func checkImports(t *testing.T, dir string, imports []string) {
	t.Helper()
	allowed, known := mayImport[dir]
	if !known {
		t.Errorf("%s has no row in the import table: give it one in imports_test.go and in docs/contributing/style.md, with a reason", dir)
	}
	for _, imp := range imports {
		if inside, ok := strings.CutPrefix(imp, modulePath+"/"); ok && !slices.Contains(allowed, inside) {
			t.Errorf("%s imports %s, which the import table does not allow (it may import %v)", dir, inside, allowed)
		}
		for prefix, why := range forbidden[dir] {
			if imp == prefix || strings.HasPrefix(imp, prefix+"/") {
				t.Errorf("%s imports %s: %s", dir, imp, why)
			}
		}
	}
}

// packageDirs returns the directories of this module that may hold packages,
// as slash-separated paths; nested modules and test data are not of it.
func packageDirs(t *testing.T, root string) []string {
	t.Helper()
	var dirs []string
	err := fs.WalkDir(os.DirFS(root), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		name := path.Base(p)
		if p != "." && (strings.HasPrefix(name, ".") || name == "testdata" || p == "test" || p == "docs" || p == "bin") {
			return fs.SkipDir
		}
		if p != "." {
			if _, err := fs.Stat(os.DirFS(root), path.Join(p, "go.mod")); err == nil {
				return fs.SkipDir
			}
		}
		dirs = append(dirs, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}
