package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/catalog"
	"github.com/inference-responder/responder/internal/executor/ladder"
	"github.com/inference-responder/responder/internal/kube/jobs"
	"github.com/inference-responder/responder/internal/setting"
	"github.com/inference-responder/responder/internal/webhook"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// LeastKeep is the least journal.keep. The executor reads at its start what is younger.
const LeastKeep = 15 * 24 * time.Hour

// Guards is the executor's guards as the configuration writes them.
type Guards struct {
	Cooldown    time.Duration `yaml:"cooldown" doc:"Least time between two levers on one service."`
	EvidenceAge time.Duration `yaml:"evidence_age" doc:"Oldest evidence that a lever may act on."`
	MinReady    int           `yaml:"min_ready" doc:"Replicas that must stay ready while a lever applies, where a service says nothing else."`
	Budget      Budget        `yaml:"budget" doc:"How much may be done within a window."`
	Concurrency Concurrency   `yaml:"concurrency" doc:"How much may be under way at once."`
	NodesOut    NodesOut      `yaml:"nodes_out" doc:"How many nodes of one pool may take no pods at the same time, whoever took them out."`
}

// NodesOut is the executor's as the configuration writes it.
type NodesOut struct {
	Max     int `yaml:"max" doc:"Nodes. Those that are cordoned by people and controllers or not ready count. 0: no limit."`
	Percent int `yaml:"percent" doc:"Share of the pool's nodes with GPUs, rounded up. 0: no limit."`
}

// Budget bounds how many changes are made in a time.
type Budget struct {
	Window           time.Duration `yaml:"window" doc:"The window that the following count in."`
	RunsPerService   int           `yaml:"runs_per_service" doc:"Runs that may act on one service. 0: no limit."`
	LeversPerService int           `yaml:"levers_per_service" doc:"Levers on one service. 0: no limit."`
	Runs             int           `yaml:"runs" doc:"Runs that may act, over all services. 0: no limit."`
	Levers           int           `yaml:"levers" doc:"Levers over all services. 0: no limit."`
}

// Concurrency bounds how many changes are under way at once.
type Concurrency struct {
	Levers           int `yaml:"levers" doc:"Levers under way over all services. 0: no limit."`
	LeversPerService int `yaml:"levers_per_service" doc:"Levers under way on one service. 0: no limit."`
}

// Ladder is the executor's as the configuration writes it.
type Ladder struct {
	DemoteAfter  int           `yaml:"demote_after" doc:"Times in a row that a lever is not proven to help on a service until it is demoted to suggest there. People are told, and responder ladder promote lifts it. At most 20. 0: never."`
	Within       time.Duration `yaml:"within" doc:"Failures that are further apart do not count together."`
	ProposeAfter int           `yaml:"propose_after" doc:"Times in a row that a lever is verified until responder ladder proposes the next level. 0: never."`

	BreakAfter  int           `yaml:"break_after" doc:"Changes in a row, of any lever on any service, that are not proven to help until everything is paused: a circuit breaker. People are told, and one of them lifts the pause with a reason. At most 20. 0: never."`
	BreakWithin time.Duration `yaml:"break_within" doc:"Changes that failed longer ago do not count for break_after."`
}

func (l Ladder) check(bad setting.Report) {
	if l.DemoteAfter < 0 || l.DemoteAfter > ladder.MaxDemoteAfter {
		bad("ladder.demote_after", "", "must be between 0 and %d", ladder.MaxDemoteAfter)
	}
	if l.Within <= 0 {
		bad("ladder.within", "", "must be more than 0")
	}
	if l.BreakAfter < 0 || l.BreakAfter > ladder.MaxDemoteAfter {
		bad("ladder.break_after", "", "must be between 0 and %d", ladder.MaxDemoteAfter)
	}
	if l.BreakWithin <= 0 {
		bad("ladder.break_within", "", "must be more than 0")
	}
	if l.ProposeAfter < 0 {
		bad("ladder.propose_after", "", "must not be negative")
	}
}

// maxProblems is how many problems the checks report at most: nobody reads more.
const maxProblems = 200

// check finds what the fields together get wrong. Single values were checked
// where they were read.
func (c *Config) check() yamldoc.Problems {
	var problems yamldoc.Problems
	var bad setting.Report = func(path, hint, format string, args ...any) {
		if len(problems) == maxProblems {
			return
		}
		p := c.Problem(path, fmt.Errorf(format, args...))
		p.Hint = hint
		problems = append(problems, p)
	}
	c.checkAddresses(bad)
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		bad("tls", "", "cert_file and key_file go together")
	}
	if c.Auth.MTLS != nil && c.TLS.CertFile == "" {
		bad("auth.mtls", "set tls.cert_file and tls.key_file", "client certificates need HTTPS")
	}
	if c.Journal.Dir == "" {
		bad("journal.dir", "", "must name a directory")
	}
	if least := max(LeastKeep, c.Guards.Budget.Window, c.Guards.Cooldown); c.Journal.Keep < least {
		bad("journal.keep", "", "must be at least %s: what is younger is read at each start", yamldoc.FormatDuration(least))
	}
	if c.Journal.Checkpoints.Every < time.Minute {
		bad("journal.checkpoints.every", "", "must be at least 1m: the journal signs one a minute")
	}
	for path, raw := range map[string]string{"prometheus.url": c.Prometheus.URL, "journal.checkpoints.url": c.Journal.Checkpoints.URL} {
		if raw != "" && !setting.IsHTTP(raw) {
			bad(path, "write it like http://prometheus.monitoring:9090", "%s is not a URL", setting.QuotedURL(raw))
		}
	}
	if c.Kubernetes.InCluster && c.Kubernetes.Kubeconfig != "" {
		bad("kubernetes", "keep one", "in_cluster and kubeconfig exclude each other")
	}
	if c.Kubernetes.QPS < 1 || c.Kubernetes.QPS > 10_000 {
		bad("kubernetes.qps", "", "must be between 1 and 10000")
	}
	if c.Discovery.Enabled && !c.Kubernetes.Configured() {
		bad("discovery.enabled", "set kubernetes.in_cluster or kubernetes.kubeconfig", "there is no cluster to look in")
	}
	c.Discovery.check(bad)
	if c.ExternalURL != "" && !setting.IsHTTP(c.ExternalURL) {
		bad("external_url", "write it like https://responder.example", "%s is not a URL", setting.QuotedURL(c.ExternalURL))
	}
	c.checkChannels(bad)
	c.checkReports(bad)
	if c.Slack != nil {
		c.Slack.Check("slack", bad)
	}
	c.Silence.Check("silence", bad)
	c.Tracing.Check("tracing", bad)
	c.checkGitops(bad)
	c.checkGPU(bad)
	c.checkCredentials(bad)
	c.checkAuth(bad)
	c.checkSessions(bad)
	c.checkLimits(bad)
	c.Ladder.check(bad)
	c.Probes.check(bad)
	c.checkIncidents(bad)
	catalog.Check(c.Services, "services", c.serviceSource, bad)
	catalog.CheckNodePools(c.NodePools, "node_pools", bad)
	jobs.Check(c.Jobs, "jobs", bad)
	return problems
}

// checkIncidents checks what services are judged by, and what belongs to one incident.
func (c *Config) checkIncidents(bad setting.Report) {
	catalog.CheckSLOs(c.SLO.Defaults, "slo.defaults", bad)
	if len(c.SLO.Defaults) == 0 {
		bad("slo.defaults", "remove it for 500 ms to the first token and 50 ms per token", "is empty: services without objectives could not be judged")
	}
	if c.Incident.Window < 0 || c.Incident.Window > 24*time.Hour {
		bad("incident.window", "e.g. 30m", "%s is not between 0 and 24h", yamldoc.FormatDuration(c.Incident.Window))
	}
	if c.Loans.Recovery < time.Minute || c.Loans.Recovery > 24*time.Hour {
		bad("loans.recovery", "e.g. 30m", "%s is not between 1m and 24h", yamldoc.FormatDuration(c.Loans.Recovery))
	}
}

func (c *Config) checkAuth(bad setting.Report) {
	a := c.Auth
	if len(a.Tokens) == 0 && len(a.Basic) == 0 && a.MTLS == nil && a.OIDC == nil && !a.Insecure {
		bad("auth", "add auth.tokens, auth.basic, auth.mtls or auth.oidc, or set auth.insecure: true to let everyone in", "no credential is accepted, so nobody could use the service")
	}
	names := map[string]string{}
	credential := func(path, name, file, fileField string, scopes []string) {
		if name == "" {
			bad(path+".name", "", "must not be empty")
		}
		who := strings.TrimPrefix(name, "user:") // ada and user:ada decide as the same person
		if other, dup := names[who]; dup {
			bad(path+".name", "give each credential a name of its own", "%q is also the name of %s", who, other)
		}
		names[who] = path
		if file == "" && fileField != "" {
			bad(path+"."+fileField, "", "must name a file")
		}
		if len(scopes) == 0 {
			bad(path+".scopes", "add intake for Alertmanager; read and approve for people", "may do nothing")
		}
	}
	for i, t := range a.Tokens {
		credential(fmt.Sprintf("auth.tokens[%d]", i), t.Name, t.File, "file", t.Scopes)
	}
	for i, b := range a.Basic {
		credential(fmt.Sprintf("auth.basic[%d]", i), b.Name, b.PasswordFile, "password_file", b.Scopes)
	}
	a.OIDC.check(bad)
	a.checkPeople(bad)
	a.checkRights(bad)
	if a.MTLS == nil {
		return
	}
	if a.MTLS.CAFile == "" {
		bad("auth.mtls.ca_file", "", "must name a file")
	}
	for i, m := range a.MTLS.Clients {
		path := fmt.Sprintf("auth.mtls.clients[%d]", i)
		credential(path, m.Name, "", "", m.Scopes)
		if m.Strong && m.Kind == string(webhook.DNSName) {
			bad(path+".strong", "name the person by common_name, email or uri", "a DNS name names a machine, which proves nothing about a person")
		}
	}
}

func (c *Config) checkAddresses(bad setting.Report) {
	for path, address := range map[string]string{"listen": c.Listen, "listen_probes": c.ListenProbes} {
		if path == "listen_probes" && address == "" {
			continue
		}
		_, port, err := net.SplitHostPort(address)
		n, number := strconv.Atoi(port) // it may be a name
		if err != nil || number == nil && (n < 0 || n > 65535) {
			bad(path, "write it like 127.0.0.1:8080 or :8080", "%q is not an address", address)
		}
	}
}

func (c *Config) checkLimits(bad setting.Report) {
	if c.Receiver.MaxBody < 1<<10 {
		bad("receiver.max_body", "", "must be at least 1KiB")
	}
	if i := slices.Index(c.Receiver.DropLabels, "alertname"); i >= 0 {
		bad(fmt.Sprintf("receiver.drop_labels[%d]", i), "", "alertname cannot be dropped: alerts are told apart by it")
	}
	for path, n := range map[string]int{"receiver.quota.burst": c.Receiver.Quota.Burst, "receiver.quota.rate": c.Receiver.Quota.Rate} {
		if n < 1 {
			bad(path, "", "must be at least 1")
		}
	}
	if s := c.Receiver.Quota.Share; s < 1 || s > 100 {
		bad("receiver.quota.share", "", "must be 1 to 100")
	}
	if c.Receiver.MaxInFlight/2 < c.Receiver.MaxBody {
		bad("receiver.max_in_flight", "", "must be at least twice receiver.max_body")
	}
	for path, n := range map[string]int{
		"receiver.max_concurrent": c.Receiver.MaxConcurrent, "guards.min_ready": c.Guards.MinReady,
		"guards.budget.runs": c.Guards.Budget.Runs, "guards.budget.levers": c.Guards.Budget.Levers,
		"guards.budget.runs_per_service":        c.Guards.Budget.RunsPerService,
		"guards.budget.levers_per_service":      c.Guards.Budget.LeversPerService,
		"guards.concurrency.levers":             c.Guards.Concurrency.Levers,
		"guards.concurrency.levers_per_service": c.Guards.Concurrency.LeversPerService,
		"guards.nodes_out.max":                  c.Guards.NodesOut.Max,
		"guards.nodes_out.percent":              c.Guards.NodesOut.Percent,
	} {
		if n < 0 {
			bad(path, "", "must not be negative")
		}
	}
	if c.Guards.NodesOut.Percent > 100 {
		bad("guards.nodes_out.percent", "", "must be at most 100")
	}
	if c.Guards.EvidenceAge <= 0 {
		bad("guards.evidence_age", "", "must be more than 0")
	}
	if c.Guards.Budget.Window <= 0 {
		bad("guards.budget.window", "", "must be more than 0")
	}
}
