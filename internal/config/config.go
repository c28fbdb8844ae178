package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/catalog"
	"github.com/inference-responder/responder/internal/executor/ladder"
	"github.com/inference-responder/responder/internal/kube/jobs"
	"github.com/inference-responder/responder/internal/notify/alertmanager"
	"github.com/inference-responder/responder/internal/notify/report"
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/trace"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// Config is responder.yaml. The tags are its documentation: yaml names a
// field, doc explains it in the reference, enum lists the allowed strings.
// Paths are relative to the file's directory.
type Config struct {
	Listen       string                `yaml:"listen" doc:"Address to serve on, host:port."`
	ListenProbes string                `yaml:"listen_probes" doc:"Address of a listener for /healthz and /readyz alone, host:port, which speaks plain HTTP and asks for no credential, so that the kubelet is answered whoever fills the other one. Empty: they are served on listen alone."`
	ExternalURL  string                `yaml:"external_url" doc:"Address under which people reach this service; links in messages begin with it and lead to the run's page, and auth.oidc.sign_in leads back to it. Empty: messages have no links."`
	TLS          TLS                   `yaml:"tls" doc:"Serve HTTPS. Needed for mTLS and wanted for any address but loopback."`
	Auth         Auth                  `yaml:"auth" doc:"Who may talk to the service. Without any of tokens, basic, mtls and oidc it refuses to start, unless insecure is true."`
	Receiver     Receiver              `yaml:"receiver" doc:"The Alertmanager receiver."`
	Journal      Journal               `yaml:"journal" doc:"The journal: audit log and state in one file."`
	Playbooks    Playbooks             `yaml:"playbooks" doc:"The playbooks."`
	Policy       Policy                `yaml:"policy" doc:"The platform team's rules over all playbooks."`
	Prometheus   Prometheus            `yaml:"prometheus" doc:"Where PromQL is evaluated."`
	Kubernetes   Kubernetes            `yaml:"kubernetes" doc:"The cluster. Left out: no kube checks and levers."`
	GPU          GPU                   `yaml:"gpu" doc:"Where the state of GPUs is read, for gpu.health, and who repairs them. Left out: it is unknown."`
	Gitops       Gitops                `yaml:"gitops" doc:"Git and what deploys from it, Argo CD or Flux, for services whose manifests are there. Left out: what Git owns is not changed."`
	Autonomy     playbook.Autonomy     `yaml:"autonomy" enum:"observe,suggest,auto" doc:"The ceiling over everything: observe records what it would do, suggest acts after approval, auto acts. Service, playbook and state can only lower it."`
	Services     []catalog.Declaration `yaml:"services" doc:"The service catalog, see below."`
	NodePools    catalog.NodePools     `yaml:"node_pools" doc:"Who owns which nodes: a playbook that says node.owners asks them about a change of a node. The owners of the service are asked about a node of no pool."`
	Jobs         []jobs.Declaration    `yaml:"jobs" doc:"Templates of Kubernetes Jobs that playbooks may run by the lever job.run. Empty: none."`
	SLO          SLO                   `yaml:"slo" doc:"What services are judged by."`
	Incident     Incident              `yaml:"incident" doc:"What belongs to one incident of a service."`
	Loans        Loans                 `yaml:"loans" doc:"Capacity that is added for an incident and given back."`
	Discovery    Discovery             `yaml:"discovery" doc:"Find services in the cluster by their labels and annotations."`
	Probes       Probes                `yaml:"probes" doc:"What http.probe and engine.probe may reach."`
	Guards       Guards                `yaml:"guards" doc:"Conditions that must hold right before a lever applies. A playbook can only tighten them."`
	Ladder       Ladder                `yaml:"ladder" doc:"How levers lose and gain trust: down they go by themselves, up only by the hand of a person."`
	Channels     []Channel             `yaml:"channels" doc:"Where people are told, beside the log: notify states, questions, and ends that need a person."`
	Reports      []report.Config       `yaml:"reports" doc:"Summaries of a day or a week, sent to channels. Empty: none."`
	Slack        *slack.Config         `yaml:"slack" doc:"The Slack workspace in which runs ask and people decide. Left out: decisions are taken on the command line and the API."`
	Silence      alertmanager.Config   `yaml:"silence" doc:"Silences at Alertmanager."`
	Tracing      trace.Config          `yaml:"tracing" doc:"Runs as OpenTelemetry traces, one for each run that has ended."`
	Log          Log                   `yaml:"log" doc:"The service's own log, on stderr."`

	File string // where it was read from, for messages
	set  places // where in it things were set, for messages
}

// TLS is the certificate that the service serves with.
type TLS struct {
	CertFile string `yaml:"cert_file" doc:"PEM certificate chain."`
	KeyFile  string `yaml:"key_file" doc:"PEM private key."`
}

// Auth lists who may talk to the service.
type Auth struct {
	Tokens   []Token  `yaml:"tokens" doc:"Bearer tokens. The files are read again when they change."`
	Basic    []Basic  `yaml:"basic" doc:"Users with passwords, for the page, where they sign in, the API and the CLI."`
	MTLS     *MTLS    `yaml:"mtls" doc:"Client certificates."`
	OIDC     *OIDC    `yaml:"oidc" doc:"People of an OpenID Connect issuer: by bearer tokens, for the API and the CLI, and on the page with sign_in."`
	Sessions Sessions `yaml:"sessions" doc:"Sessions of people who sign in on the page. A restart of the service ends them all."`
	People   []Person `yaml:"people" doc:"Who is who: one entry for each person with all credentials, so that all channels record the same name and nobody counts twice. Credentials of nobody listed here do not count where several people have to approve or where a run was started by hand, and start no run. Two entries with the same handle are refused."`
	Rights   []Grant  `yaml:"rights" doc:"Who may do what about which services. A credential also needs the scope of the same name. Left out: who is asked may approve, and the owners of a service may pause it and cancel its runs. A list replaces that."`
	Insecure bool     `yaml:"insecure" doc:"Let everyone in, as user:anonymous with every right. Logged loudly."`
}

// Grant gives rights to people and groups.
type Grant struct {
	To       []string `yaml:"to" doc:"user:NAME, group:NAME, service.owners (the owners of the service), or asked (of approve: whoever the question is put to)."`
	May      []string `yaml:"may" enum:"approve,cancel,pause,unpause,resolve,release,promote,start" doc:"The rights: approve (approve, deny, ask for a fresh plan), cancel (a run; of a loan: keep it), pause, unpause, resolve (say of a held run whether its change was made), release (end a quarantined run or a wait; of a loan: give it back now), promote (lift the demotion of a lever), start (a run by hand, which needs somebody else's approval)."`
	Services []string `yaml:"services" doc:"Names of services; * stands for any text, and \"*\" alone is all services, which pauses of everything, of a playbook and of intake need. May be left out for service.owners and asked."`
}

// Token is one bearer token.
type Token struct {
	Name   string   `yaml:"name" doc:"Who this is, e.g. alertmanager or ada. Decisions are recorded as user:NAME; the prefix may be written."`
	File   string   `yaml:"file" doc:"File with the token. With two lines both are valid, for rotation."`
	Scopes []string `yaml:"scopes" enum:"intake,metrics,read,admin,sessions,approve,cancel,pause,unpause,resolve,release,promote,start" doc:"What it may be used for: intake (post alerts), metrics (scrape /metrics), read, admin (also copy the journal), sessions (also list and end sessions of the page), and the rights, of those that its person has by auth.rights. All but intake and metrics include read, which includes metrics."`
	Groups []string `yaml:"groups" doc:"Groups it belongs to when it decides, e.g. ml-platform, as approval rules name them after group:."`
}

// Basic is one user with a password.
type Basic struct {
	Name         string   `yaml:"name" doc:"The user name."`
	PasswordFile string   `yaml:"password_file" doc:"File with the password."`
	Scopes       []string `yaml:"scopes" enum:"intake,metrics,read,admin,sessions,approve,cancel,pause,unpause,resolve,release,promote,start" doc:"As for tokens."`
	Groups       []string `yaml:"groups" doc:"As for tokens."`
}

// MTLS admits client certificates.
type MTLS struct {
	CAFile  string       `yaml:"ca_file" doc:"PEM certificates of the authorities that vouch for clients."`
	Clients []MTLSClient `yaml:"clients" doc:"The clients that may come in."`
}

// MTLSClient is one client that may come in by its certificate.
type MTLSClient struct {
	Name   string   `yaml:"name" doc:"The name in the certificate, and of the client here. A certificate that names several clients is refused."`
	Kind   string   `yaml:"kind" enum:"common_name,dns,email,uri" doc:"Which name of the certificate that is. Empty: common_name."`
	Scopes []string `yaml:"scopes" enum:"intake,metrics,read,admin,sessions,approve,cancel,pause,unpause,resolve,release,promote,start" doc:"As for tokens."`
	Groups []string `yaml:"groups" doc:"As for tokens."`
	Strong bool     `yaml:"strong" doc:"The key cannot be copied, e.g. from a smart card, so that the certificate proves strong authentication. Not for kind dns, which names a machine."`
}

// Receiver bounds the Alertmanager receiver.
type Receiver struct {
	DropLabels    []string `yaml:"drop_labels" doc:"Labels removed before an alert's identity is computed, so that replicas of one Prometheus mean one alert."`
	MaxBody       ByteSize `yaml:"max_body" doc:"Largest body of one notification. More is answered 413."`
	MaxInFlight   ByteSize `yaml:"max_in_flight" doc:"Bytes of bodies being read at once, over all senders, of one sender half at most. More is answered 503. At least twice max_body."`
	MaxConcurrent int      `yaml:"max_concurrent" doc:"Open connections. One more takes the place of one on which nobody has authenticated, or else of one that is idle, at once if the address of that one has more than its own; no request is cut while a connection has none. When all are at work, the oldest of an address that has more than three quarters makes room."`
	Quota         Quota    `yaml:"quota" doc:"What one credential may deliver: an alert counts as one, and each KiB of its notification as one more. More is answered 503, so that Alertmanager delivers it later."`
}

// Quota bounds what one credential delivers.
type Quota struct {
	Burst int `yaml:"burst" doc:"At once. A storm of 10,000 alerts from a pair of Alertmanagers and their resolution come to about 120,000."`
	Rate  int `yaml:"rate" doc:"A second."`
	Share int `yaml:"share" doc:"Per cent of the room that is left in the journal (on its volume and within its file, above journal.min_free) that it may fill at once, and again in each day, 1 to 100; 16 MiB in any case. More is answered 503 with Retry-After, and other credentials are served."`
}

// Journal names the directory of the journal.
type Journal struct {
	Dir     string        `yaml:"dir" doc:"Directory of journal.db, journal.key and journal.pub. It is created when missing."`
	KeyFile string        `yaml:"key_file" doc:"File of the private key, apart from the journal: whoever can write the journal's volume alone can then sign nothing. A new journal writes it, and it may be read-only later; of an old one move journal.key here. Empty: journal.key in dir."`
	Keep    time.Duration `yaml:"keep" doc:"Age at which entries are moved to the archive, at least 360h. Notifications, decisions about their alerts and ended runs leave the journal's file then, and leave their hashes."`
	Archive string        `yaml:"archive" doc:"Directory of the archive, which must exist. Its segments verify by themselves; put it on a volume that is backed up. Empty: nothing is archived, and the journal only grows."`
	MinFree ByteSize      `yaml:"min_free" doc:"Free space, of the journal's volume and within its file, below which notifications are answered 503, so that runs and decisions still find room. An eighth of it must be free on the volume."`

	Checkpoints Checkpoints `yaml:"checkpoints" doc:"Where signed checkpoints are kept away from the journal. Only one that is kept elsewhere proves that the journal was not cut back to an older copy of itself."`
}

// Checkpoints says where signed checkpoints are published.
type Checkpoints struct {
	Every     time.Duration `yaml:"every" doc:"How often the newest one is published, and written to the service's own log as checkpoint."`
	Dir       string        `yaml:"dir" doc:"Directory for them, one file each, which must exist; best on a volume that nobody can change files of. A start compares the journal with the newest, and refuses one that does not continue it. Empty: none."`
	URL       string        `yaml:"url" doc:"Address that they are posted to as text. Empty: none."`
	TokenFile string        `yaml:"token_file" doc:"File with a bearer token for url."`
	CAFile    string        `yaml:"ca_file" doc:"PEM file of certificate authorities that vouch for url. Empty: the system's."`
	Plaintext bool          `yaml:"plaintext" doc:"Let the token go over plain http to another machine: it is readable on the way. Without it that is refused."`
}

// Playbooks names the playbooks in force.
type Playbooks struct {
	Dir     string            `yaml:"dir" doc:"Directory of your own playbooks, *.yaml, also a mounted ConfigMap. Changes are picked up; a bad file keeps the last good set. Empty: none."`
	Shipped bool              `yaml:"shipped" doc:"Keep the shipped playbooks in force beside those of dir. One of the same name in dir replaces a shipped one."`
	Disable playbook.Disabled `yaml:"disable" type:"list of string" doc:"Names of shipped playbooks that are not in force."`

	// Autonomy also has the entries of services, see [catalog.Declaration].
	Autonomy playbook.Overrides `yaml:"autonomy" type:"map of levels" doc:"Levels in place of those that playbooks themselves set, higher or lower: PLAYBOOK: LEVEL for all its levers, PLAYBOOK/STATE: LEVEL for one, and a kind of lever, such as kube.scale: LEVEL, in all playbooks. PLAYBOOK/STATE goes before the others; of PLAYBOOK and the kind, the lower level holds. The levels of the installation, the service and a state itself, the policy and a demotion still lower them." enum:"observe,suggest,auto"`
}

// Policy names the file of the rules over all playbooks.
type Policy struct {
	File string `yaml:"file" doc:"File of rules, also in a mounted ConfigMap. Changes are picked up; a bad or missing file keeps the last good rules, and at the start it keeps the service from starting. Empty: there are no rules."`
}

// Prometheus names the server that evaluates PromQL.
type Prometheus struct {
	URL       string        `yaml:"url" doc:"Base URL, e.g. http://prometheus.monitoring:9090."`
	TokenFile string        `yaml:"token_file" doc:"File with a bearer token."`
	CAFile    string        `yaml:"ca_file" doc:"PEM certificates that vouch for the server."`
	Plaintext bool          `yaml:"plaintext" doc:"Let the token go over plain http to another machine: it is readable on the way. Without it that is refused."`
	Timeout   time.Duration `yaml:"timeout" doc:"For one query."`
}

// Kubernetes names the cluster.
type Kubernetes struct {
	Kubeconfig string `yaml:"kubeconfig" doc:"Path of a kubeconfig file."`
	Context    string `yaml:"context" doc:"Context in it. Empty: the current one."`
	InCluster  bool   `yaml:"in_cluster" doc:"Use the pod's own service account."`
	QPS        int    `yaml:"qps" doc:"Requests to the API server per second, on average; twice as many are let through at once. What the server's priority and fairness gives less of, it answers later."`
}

// Configured reports whether there is a cluster at all.
func (k Kubernetes) Configured() bool { return k.InCluster || k.Kubeconfig != "" }

// SLO sets what services are judged by.
type SLO struct {
	Defaults []catalog.SLO `yaml:"defaults" doc:"The objectives of every service that declares none. A threshold that the service's engine has no bucket for becomes the nearest that it has. Default: 99 % of first tokens within 500 ms, and 99 % of requests within 50 ms per token, over 28 days."`
}

// Incident sets what belongs to one incident of a service.
type Incident struct {
	Window time.Duration `yaml:"window" doc:"After a run that ended with people: how long further alerts about its service start no other run while an alert of that run fires, at most 24h. They are recorded as suppressed and asked again. 0: they start one at once."`
}

// Loans sets when capacity that was added for an incident is given back.
type Loans struct {
	Recovery time.Duration `yaml:"recovery" doc:"How long a service must have met all its objectives before, at most 24h. A service may set its own."`
}

// Log configures the service's own log.
type Log struct {
	Level  string `yaml:"level" enum:"debug,info,warn,error" doc:"Least severity that is written."`
	Format string `yaml:"format" enum:"text,json" doc:"text for people, json for collectors."`
}

// Default is what holds where the file says nothing.
func Default() Config {
	return Config{
		Listen: "127.0.0.1:8080",
		Auth:   Auth{Rights: defaultRights(), Sessions: Sessions{Lifetime: 12 * time.Hour, Idle: time.Hour}},
		Receiver: Receiver{
			DropLabels:    []string{"prometheus_replica", "__replica__", "replica"},
			MaxBody:       16 << 20,
			MaxInFlight:   32 << 20,
			MaxConcurrent: 2048,
			Quota:         Quota{Burst: 200_000, Rate: 1000, Share: 25},
		},
		Journal:    Journal{Dir: "data", Keep: 90 * 24 * time.Hour, MinFree: 256 << 20, Checkpoints: Checkpoints{Every: time.Hour}},
		Playbooks:  Playbooks{Shipped: true},
		Prometheus: Prometheus{Timeout: 10 * time.Second},
		Kubernetes: Kubernetes{QPS: 200},
		Discovery:  Discovery{Interval: time.Minute},
		SLO:        SLO{Defaults: defaultSLOs()},
		Incident:   Incident{Window: 30 * time.Minute},
		Loans:      Loans{Recovery: 30 * time.Minute},
		GPU:        GPU{Agents: defaultAgents()},
		Guards:     defaultGuards(),
		Ladder:     Ladder(ladder.DefaultConfig()),
		Silence:    alertmanager.Config{Max: 2 * time.Hour},
		Tracing:    trace.DefaultConfig(),
		Log:        Log{Level: "info", Format: "text"},
	}
}

// defaultSLOs returns the objectives of services where nobody declared any.
func defaultSLOs() []catalog.SLO {
	const month = 28 * 24 * time.Hour
	return []catalog.SLO{
		{Name: "ttft", Objective: 0.99, Window: month, Threshold: 0.5},
		{Name: "tpot", Objective: 0.99, Window: month, Threshold: 0.05},
	}
}

// NoFileError is the file that a configuration was looked for in.
type NoFileError string

// Error reports how to name another.
func (f NoFileError) Error() string {
	return fmt.Sprintf("no configuration at %s; --config names the file", string(f))
}

// Load reads and checks a configuration file. Every problem of the file
// is reported at once. The configuration that comes with such an error is only
// good for finding what else is wrong; its File is empty where nothing was read.
func Load(file string) (Config, error) {
	f, err := os.Open(file)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return Config{}, NoFileError(file)
		}
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	defer f.Close()
	data, err := ReadAtMost(f, maxConfigBytes)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration %s: %w", file, err)
	}
	return Parse(file, data)
}

// Parse decodes and checks the content of a configuration file, as Load does.
func Parse(file string, data []byte) (Config, error) {
	c := Default()
	set, unread := strictDecode(file, data, &c)
	if set == nil {
		return Config{}, unread.Err()
	}
	c.File, c.set = file, set
	problems := slices.Clone(unread)
	for _, p := range c.check() {
		if !c.follows(p, unread) {
			problems = append(problems, p)
		}
	}
	c.forgetServices()
	for _, s := range c.Services {
		if len(s.AutonomyOf) == 0 {
			continue
		}
		c.Playbooks.Autonomy = append(c.Playbooks.Autonomy, s.AutonomyOf.Of(s.ServiceName())...)
	}
	c.resolvePaths(filepath.Dir(file))
	return c, problems.Err()
}

// follows reports whether a problem of the checks may only follow from a field
// that could not be read: that field or one around it is missing its value, or the
// field is missing beside an unknown one, which may be its misspelling.
func (c *Config) follows(p yamldoc.Problem, unread yamldoc.Problems) bool {
	for _, u := range unread {
		if within(u.Path, p.Path) || within(p.Path, u.Path) && !c.IsSet(p.Path) {
			return true
		}
	}
	return false
}

// within reports whether the field at a path is the one at another path or below it.
func within(path, around string) bool {
	rest, ok := strings.CutPrefix(path, around)
	return ok && (around == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}

// forgetServices frees the places of services: in a large catalog they are most of
// the memory, and nothing later than Parse asks for more than whether their autonomy is set.
func (c *Config) forgetServices() {
	maps.DeleteFunc(c.set, func(path string, _ linePlace) bool {
		return within(path, "services") && strings.Contains(path, "].") && !strings.HasSuffix(path, "].autonomy")
	})
}

// CatalogEntries returns the configured services as entries of the catalog.
func (c Config) CatalogEntries() []catalog.Entry {
	return catalog.Entries(c.Services, c.ServiceDefaults(), c.serviceSource)
}

// ServiceDefaults returns what holds for services that do not say otherwise.
func (c Config) ServiceDefaults() catalog.Defaults {
	return catalog.Defaults{SLOs: catalog.Objectives(c.SLO.Defaults), Recovery: c.Loans.Recovery}
}

// serviceSource returns where the i-th service is declared, as file:line.
func (c Config) serviceSource(i int) string {
	return fmt.Sprintf("%s:%d", c.File, c.set.of(fmt.Sprintf("services[%d]", i)).line)
}

// IsSet reports whether the file sets the field with that path.
func (c Config) IsSet(path string) bool {
	_, ok := c.set[path]
	return ok
}

// resolvePaths makes the paths of the file relative to its directory.
func (c *Config) resolvePaths(dir string) {
	eachText(reflect.ValueOf(c), "", func(_, name string, v reflect.Value) {
		if path := v.String(); namesPath(name) && path != "" && !filepath.IsAbs(path) {
			v.SetString(filepath.Join(dir, path))
		}
	})
}
