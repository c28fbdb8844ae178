package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/inference-responder/responder/internal/app/cluster"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/slo/rules"
	"github.com/inference-responder/responder/internal/slo/slotest"
)

// installation is one in which everything is as it should be: a Prometheus with one
// service, its rules, an Alertmanager and an API server. Tests break it.
type installation struct {
	dir      string
	settings string // more of responder.yaml
	series   slotest.Store
	groups   []rules.Group
	active   []map[string]string // labels of alerts that fire now
	fails    string              // why the rule InferenceStalled cannot be evaluated
	skew     time.Duration       // of Prometheus' clock
	routes   string              // of Alertmanager
	denied   []string            // "verb resource" that the API server does not grant, with a subresource after a slash; "everywhere" behind it: not for all namespaces, "in NAME": not in that one
	noWork   bool                // the workload is not there
	hpa      bool                // an autoscaler owns its replicas
	kserve   bool                // an InferenceService makes it
}

const responderYAML = `
auth: {insecure: true}
autonomy: suggest
journal: {dir: data}
prometheus: {url: %s}
kubernetes: {kubeconfig: kubeconfig}
services:
  - namespace: serving
    workload: {name: chat}
    engine: vllm
    owners: ['group:oncall']
    autonomy: suggest
    max_scale: 4
`

const routesOK = `
route:
  receiver: people
  routes:
  - {receiver: responder, matchers: ['alertname=~"Inference.*"'], group_by: [alertname, namespace, service], continue: true}
receivers:
- name: people
- name: responder
  webhook_configs:
  - {url: <secret>, send_resolved: true, max_alerts: 0}
`

func newInstallation() *installation {
	in := &installation{series: slotest.Store{}, routes: routesOK}
	in.histogram("vllm:time_to_first_token_seconds", "0.1", "0.5", "1.0")
	in.histogram("vllm:request_time_per_output_token_seconds", "0.025", "0.05", "0.1")
	for name, each := range map[string]float64{
		"vllm:num_requests_running": 0, "vllm:num_requests_waiting": 0, "vllm:kv_cache_usage_perc": 0, "vllm:num_preemptions_total": 0,
		"vllm:iteration_tokens_total_count": 50, "vllm:generation_tokens_total": 500, "vllm:e2e_request_latency_seconds_count": 10, "vllm:e2e_request_latency_seconds_sum": 20,
		"vllm:request_prompt_tokens_count": 10, "vllm:request_generation_tokens_count": 10, "vllm:prefix_cache_hits_total": 0, "vllm:cache_config_info": 1, "vllm:corrupted_requests_total": 0,
		"vllm:request_queue_time_seconds_count": 10, "vllm:request_prefill_time_seconds_count": 10, "vllm:request_decode_time_seconds_count": 10, "http_requests_total": 10,
	} {
		in.add(name, each)
	}
	return in
}

// add adds a series of the service's one replica that grows by each every 15 s.
func (in *installation) add(name string, each float64, more ...string) {
	labels := map[string]string{"namespace": "serving", "service": "chat", "pod": "chat-0", "model_name": "chat"}
	for i := 0; i < len(more); i += 2 {
		labels[more[i]] = more[i+1]
	}
	var points []slo.Point
	now := time.Now()
	for i := 60; i >= 0; i-- {
		points = append(points, slo.Point{At: now.Add(-time.Duration(i) * 15 * time.Second), Value: float64(60-i) * each})
	}
	in.series.Add(name, labels, points)
}

func (in *installation) histogram(name string, bounds ...string) {
	for _, le := range append(bounds, "+Inf") {
		in.add(name+"_bucket", 10, "le", le)
	}
	in.add(name+"_count", 10)
	in.add(name+"_sum", 1)
}

// examine starts the servers, runs the command and returns what it reports.
func (in *installation) examine(t *testing.T, args ...string) (Report, string) {
	t.Helper()
	in.dir = t.TempDir()
	prometheus := httptest.NewServer(http.HandlerFunc(in.prometheus))
	t.Cleanup(prometheus.Close)
	cluster := kubetest.New(t)
	ref := kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "chat"}
	if !in.noWork {
		cluster.Workload(t, ref, 2, kubetest.Template("chat", "vllm:v1"))
		cluster.Settle(ref, time.Now())
	}
	if in.hpa {
		cluster.Put("/apis/autoscaling/v2/namespaces/serving/horizontalpodautoscalers/chat", map[string]any{
			"metadata": map[string]any{"name": "chat", "namespace": "serving"},
			"spec":     map[string]any{"scaleTargetRef": map[string]any{"kind": "Deployment", "name": "chat"}, "maxReplicas": 4},
		})
	}
	if in.kserve {
		cluster.Change(kubetest.Path(ref), func(o map[string]any) {
			o["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "name": "chat", "uid": "u", "controller": true}}
		})
	}
	cluster.Node(t, "gpu-1", 8, func(*corev1.Node) {})
	api := httptest.NewServer(in.reviews(cluster))
	t.Cleanup(api.Close)
	for name, text := range map[string]string{
		"responder.yaml": fmt.Sprintf(responderYAML, prometheus.URL) + in.settings,
		"kubeconfig": fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x, user: x}}],
clusters: [{name: x, cluster: {server: '%s'}}], users: [{name: x, user: {}}]}`, api.URL),
	} {
		if err := os.WriteFile(filepath.Join(in.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(in.dir, "responder.yaml")
	if in.groups == nil {
		in.groups = rulesOf(t, file)
	}
	var stdout, stderr bytes.Buffer
	p := &command.Process{Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" }, Temp: &command.Temporary{}}
	t.Cleanup(p.Temp.RemoveAll)
	cmd := NewCommand(p)
	cmd.SetArgs(append([]string{"--config", file, "-o", "json"}, args...))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	var report Report
	if jsonErr := json.Unmarshal(stdout.Bytes(), &report); jsonErr != nil {
		t.Fatalf("%v, %v: %s%s", err, jsonErr, stdout.String(), stderr.String())
	}
	bad := slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.Result == Failed })
	var coded *command.CodedError
	if bad != errors.As(err, &coded) || !bad && err != nil {
		t.Errorf("failures: %t, and the command ends with %v", bad, err)
	}
	return report, stdout.String() + stderr.String()
}

func rulesOf(t *testing.T, file string) []rules.Group {
	t.Helper()
	services, err := cluster.RuleServices(t.Context(), file, false)
	if err != nil {
		t.Fatal(err)
	}
	var out []rules.Group
	for _, s := range services {
		objectives, _, err := s.Objectives()
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objectives {
			g, _, err := o.Group()
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, g)
		}
		g, err := rules.EngineGroup(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, g)
	}
	return out
}

// prometheus answers as Prometheus and, below /am, as the Alertmanager that it has.
func (in *installation) prometheus(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm() // a bad form has no query, which fails below
	var data any
	switch {
	case r.URL.Path == "/am/api/v2/status":
		_ = json.NewEncoder(w).Encode(map[string]any{"versionInfo": map[string]string{"version": "0.28.0"}, "config": map[string]string{"original": in.routes}})
		return
	case r.URL.Path == "/api/v1/alertmanagers":
		data = map[string]any{"activeAlertmanagers": []any{map[string]string{"url": "http://" + r.Host + "/am/api/v2/alerts"}}}
	case r.URL.Path == "/api/v1/status/config":
		data = map[string]string{"yaml": "global: {external_labels: {cluster: eu}}\n"}
	case r.URL.Path == "/api/v1/rules":
		data = map[string]any{"groups": in.loaded()}
	case strings.HasPrefix(r.URL.Path, "/api/v1/label"):
		data = []string{}
	case r.Form.Get("query") == "time()":
		data = map[string]any{"resultType": "scalar", "result": []any{0, fmt.Sprintf("%.3f", float64(time.Now().Add(in.skew).UnixMilli())/1000)}}
	default:
		at, _ := strconv.ParseFloat(r.Form.Get("time"), 64)
		v, err := in.series.Instant(r.Context(), r.Form.Get("query"), time.UnixMilli(int64(at*1000)))
		if err != nil {
			http.Error(w, fmt.Sprintf(`{"status":"error","errorType":"bad_data","error":%q}`, err), http.StatusBadRequest)
			return
		}
		result := []any{}
		for _, s := range v.Samples {
			result = append(result, map[string]any{"metric": s.Labels, "value": []any{at, strconv.FormatFloat(s.Value, 'g', -1, 64)}})
		}
		data = map[string]any{"resultType": "vector", "result": result}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": data}) // a client that left is the test's own doing
}

// loaded returns the rules as the API has them.
func (in *installation) loaded() []any {
	groups := []any{}
	for _, g := range in.groups {
		list := []any{}
		for _, r := range g.Rules {
			x := map[string]any{"query": r.Expr, "labels": r.Labels, "health": "ok", "type": "recording", "name": r.Record}
			if r.Alert != "" {
				x["type"], x["name"], x["alerts"] = "alerting", r.Alert, in.alertsOf(r.Alert)
			}
			if r.Alert == "InferenceStalled" && in.fails != "" {
				x["health"], x["lastError"] = "err", in.fails
			}
			list = append(list, x)
		}
		groups = append(groups, map[string]any{"name": g.Name, "file": "x", "interval": 30, "rules": list})
	}
	return groups
}

func (in *installation) alertsOf(name string) []any {
	out := []any{}
	for _, labels := range in.active {
		if labels["alertname"] == name {
			out = append(out, map[string]any{"labels": labels, "annotations": map[string]string{}, "state": "firing", "activeAt": time.Now(), "value": "1e+00"})
		}
	}
	return out
}

// reviews answers what is granted, and leaves the rest to the API server.
func (in *installation) reviews(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/version":
			fmt.Fprint(w, `{"major":"1","minor":"34"}`)
		case strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"):
			body, _ := io.ReadAll(r.Body)
			var review authorizationv1.SelfSubjectAccessReview
			if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, &review); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			of := review.Spec.ResourceAttributes
			asked := []string{of.Verb + " " + of.Resource, of.Verb + " " + of.Resource + "/" + of.Subresource}
			if of.Namespace == "" {
				asked = append(asked, of.Verb+" "+of.Resource+" everywhere")
			} else {
				asked = append(asked, of.Verb+" "+of.Resource+" in "+of.Namespace)
			}
			review.Status.Allowed = !slices.ContainsFunc(asked, func(right string) bool { return slices.Contains(in.denied, right) })
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(review) // a client that left is the test's own doing
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// find returns the finding of a check.
func (r Report) find(subject, check string) Finding {
	for _, f := range r.Findings {
		if f.Subject == subject && f.Check == check {
			return f
		}
	}
	return Finding{}
}

func (r Report) verdict(name string) Verdict {
	for _, v := range r.Playbooks {
		if v.Playbook == name {
			return v
		}
	}
	return Verdict{}
}

func TestNothingIsWrong(t *testing.T) {
	report, text := newInstallation().examine(t)
	for _, f := range report.Findings {
		if f.Result == Failed || f.Result == Warning {
			t.Errorf("%+v", f)
		}
	}
	for _, want := range [][2]string{
		{"prometheus", "serving/chat: ttft"},
		{"prometheus", "serving/chat: tpot"},
		{"prometheus", "serving/chat: engine"},
		{"prometheus", "serving/chat: rules"},
		{"alertmanager", "serving/chat: routes"},
		{"kubernetes", "serving/chat: workload"},
		{"kubernetes", "rights to read"},
		{"kubernetes", "serving/chat: rights of levers"},
		{"clocks", "prometheus"},
		{"clocks", "API server"},
		{"journal", "directory"},
	} {
		if f := report.find(want[0], want[1]); f.Result != OK {
			t.Errorf("%s: %s is %+v, want ok", want[0], want[1], f)
		}
	}
	if v := report.verdict("inference-slo-breach"); v.State != Armed {
		t.Errorf("inference-slo-breach is %+v", v)
	}
	if v := report.verdict("gpu-fault"); v.State != Disarmed || v.Why != "nothing tells the state of GPUs" {
		t.Errorf("gpu-fault is %+v", v)
	}
	if !strings.Contains(text, "prometheus: ") {
		t.Errorf("no progress on standard error:\n%s", text)
	}
}

// Each way in which an installation fails in the night is found, with what to do.
func TestWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		name           string
		broken         func(*installation)
		subject, check string
		result         Result
		detail, fix    string
		state          State // of inference-slo-breach; empty: armed
	}{
		{
			"no bucket ends at the objective", func(in *installation) {
				in.settings = "    slos: [{name: ttft, objective: 0.99, window: 28d, threshold: 0.25}]\n"
			},
			"prometheus", "serving/chat: ttft", Failed, "no bucket ends at 0.25 s; the nearest are 0.1 s and 0.5 s", "take a threshold", Disarmed,
		},
		{
			"an indicator is not exported", func(in *installation) {
				in.settings = "    slos: [{name: itl, objective: 0.99, window: 28d, threshold: 0.05}]\n"
			},
			"prometheus", "serving/chat: itl", Failed, "none of these series exists: vllm:inter_token_latency_seconds_bucket", "{namespace=\"serving\",service=\"chat\"}", Disarmed,
		},
		{
			"the series have other labels", func(in *installation) { in.settings = "    selector: 'namespace=\"serving\",service=\"chat-svc\"'\n" },
			"prometheus", "serving/chat: engine", Failed, "none of the series of vllm exists", "engine and selector", Disarmed,
		},
		{
			"a series of the engine is missing", func(in *installation) { delete(in.series, "vllm:kv_cache_usage_perc") },
			"prometheus", "serving/chat: engine", Warning, "no usage of the KV cache (vllm:kv_cache_usage_perc, vllm:gpu_cache_usage_perc)", "engine's version and flags", "",
		},
		{
			"a histogram of the engine is missing", func(in *installation) { delete(in.series, "vllm:request_prompt_tokens_count") },
			"prometheus", "serving/chat: engine", Warning, "no prompt lengths (vllm:request_prompt_tokens_count, vllm:request_prompt_tokens): longer prompts are not seen", "a request has ended", "",
		},
		{
			"a target is down", func(in *installation) { in.add("up", 0, "instance", "10.0.0.7:8000", "pod", "") },
			"prometheus", "serving/chat: targets", Warning, "10.0.0.7:8000 cannot be scraped", "/targets", "",
		},
		{
			"rules are not loaded", func(in *installation) { in.groups = []rules.Group{} },
			"prometheus", "serving/chat: rules", Failed, "not loaded: ", "responder slo rules", "",
		},
		{
			"a rule cannot be evaluated", func(in *installation) { in.fails = "many-to-many matching not allowed" },
			"prometheus", "rule InferenceStalled", Failed, "many-to-many matching not allowed", "alerts on nothing", "",
		},
		{
			"an alert finds no service", func(in *installation) {
				in.active = []map[string]string{{"alertname": "InferenceTTFTFastBurn", "namespace": "elsewhere", "service": "ghost"}}
			},
			"prometheus", "alert InferenceTTFTFastBurn", Failed, `{alertname="InferenceTTFTFastBurn", namespace="elsewhere", service="ghost"} belongs to no service`, "match of a service", "",
		},
		{
			"a route takes the alerts away", func(in *installation) {
				in.routes = strings.Replace(routesOK, "  routes:\n", "  routes:\n  - {receiver: people, matchers: [cluster=eu, namespace=serving]}\n", 1)
			},
			"alertmanager", "serving/chat: routes", Failed, "no route takes InferenceTTFTFastBurn", "continue: true", "",
		},
		{
			"nothing posts here", func(in *installation) { in.routes = "route: {receiver: people}\nreceivers: [{name: people}]\n" },
			"alertmanager", "receiver", Failed, "none posts here; receivers with a webhook: none", "--receiver", "",
		},
		{
			"the workload is gone", func(in *installation) { in.noWork = true },
			"kubernetes", "serving/chat: workload", Failed, "not found", "correct namespace and workload", Disarmed,
		},
		{
			"a lever lacks its right", func(in *installation) { in.denied = []string{"patch deployments", "patch statefulsets"} },
			"kubernetes", "rights of kube.replace_pod, kube.scale", Failed, "it may not patch deployments.apps/scale in serving, for serving/chat", "bind responder-lever-scale of deploy/kubernetes/levers.yaml, as the example bindings there do; with the chart, list the lever and the namespace in rbac.levers", "",
		},
		{
			"a lever lacks the right to the autoscaler", func(in *installation) { in.hpa, in.denied = true, []string{"patch horizontalpodautoscalers"} },
			"kubernetes", "rights of kube.autoscaler", Failed, "it may not patch horizontalpodautoscalers.autoscaling in serving", "bind responder-lever-autoscaler of deploy/kubernetes/levers.yaml", "",
		},
		{
			"a lever lacks the right to what makes the workload", func(in *installation) {
				in.kserve, in.denied = true, []string{"patch inferenceservices", "patch horizontalpodautoscalers", "patch leaderworkersets"}
			},
			"kubernetes", "rights of kube.autoscaler", Failed, "it may not patch inferenceservices.serving.kserve.io in serving", "bind responder-lever-serving of deploy/kubernetes/levers.yaml", "",
		},
		{
			"events cannot be read", func(in *installation) { in.denied = []string{"list events"} },
			"kubernetes", "rights to read", Failed, "missing: list events in serving", "bind the role responder-read of deploy/kubernetes/rbac.yaml in the namespace; with the chart, list the namespace in rbac.read", "",
		},
		{
			"logs are not opted into", func(in *installation) { in.denied = []string{"get pods/log"} },
			"kubernetes", "rights to read logs", OK, "not granted in serving, where no lines are kept; they are opt-in: responder-logs, with the chart rbac.logs", "", "",
		},
		{
			"logs are not opted into, and nothing else lacks", func(in *installation) { in.denied = []string{"get pods/log"} },
			"kubernetes", "rights to read", OK, "all of responder-read in serving", "", "",
		},
		{
			"workloads cannot be discovered", func(in *installation) {
				in.settings, in.denied = "discovery: {enabled: true}\n", []string{"list deployments everywhere"}
			},
			"kubernetes", "rights to discover", Failed, "missing: list deployments.apps", "bind the role responder-discovery for the whole cluster", "",
		},
		{
			"workloads are discovered in some namespaces", func(in *installation) {
				in.settings, in.denied = "discovery: {enabled: true, namespaces: [serving]}\n", []string{"list deployments everywhere"}
			},
			"kubernetes", "rights to discover", OK, "workloads can be listed in serving", "", "",
		},
		{
			"workloads cannot be discovered in one namespace", func(in *installation) {
				in.settings, in.denied = "discovery: {enabled: true, namespaces: [serving, batch]}\n", []string{"list statefulsets in batch"}
			},
			"kubernetes", "rights to discover", Failed, "missing: list statefulsets.apps in batch; no service", "bind the role responder-discovery or responder-read in the namespace", "",
		},
		{
			"workloads need not be discovered", func(in *installation) { in.denied = []string{"list deployments everywhere"} },
			"kubernetes", "rights to read", OK, "all of responder-read in serving", "", "",
		},
		{
			"golden prompts are gone", func(in *installation) {
				in.settings = "    probe: {endpoint: 'http://chat.example', model: chat, prompts_file: gone.yaml}\n"
			},
			"catalog", "serving/chat: golden prompts", Failed, "gone.yaml", "responder engine probe --record", "",
		},
		{
			"clocks differ", func(in *installation) { in.skew = -90 * time.Second },
			"clocks", "prometheus", Warning, "its clock is 1m30s behind ours", "time server", "",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := newInstallation()
			test.broken(in)
			report, _ := in.examine(t)
			f := report.find(test.subject, test.check)
			if f.Result != test.result || !strings.Contains(f.Detail, test.detail) || !strings.Contains(f.Fix, test.fix) {
				t.Errorf("%s: %s is %+v, want %s with %q and %q", test.subject, test.check, f, test.result, test.detail, test.fix)
			}
			want := test.state
			if want == "" {
				want = Armed
			}
			if v := report.verdict("inference-slo-breach"); v.State != want {
				t.Errorf("inference-slo-breach is %+v, want %s", v, want)
			}
		})
	}
}

// Rules that were written before the objective changed are told from missing ones.
func TestRulesOfBefore(t *testing.T) {
	in := newInstallation()
	in.settings = "    slos: [{name: ttft, objective: 0.95, window: 28d, threshold: 0.5}]\n"
	in.examine(t) // keeps the rules
	in.settings = "    slos: [{name: ttft, objective: 0.99, window: 28d, threshold: 1}]\n"
	report, _ := in.examine(t, "--only", "prometheus")
	f := report.find("prometheus", "serving/chat: rules")
	if f.Result != Warning || !strings.Contains(f.Detail, "not as the catalog has them now: slo:sli_error:ratio_rate5m") {
		t.Errorf("%+v", f)
	}
}

func TestFailuresOfDeliveries(t *testing.T) {
	in := newInstallation()
	in.routes = strings.NewReplacer("send_resolved: true", "send_resolved: false", "max_alerts: 0", "max_alerts: 50", "group_by: [alertname, namespace, service]", "group_by: [alertname, namespace]").Replace(routesOK)
	report, _ := in.examine(t, "--only", "alertmanager")
	var details []string
	for _, f := range report.Findings {
		if f.Result == Failed || f.Result == Warning {
			details = append(details, f.Detail)
		}
	}
	text := strings.Join(details, "\n")
	for _, want := range []string{"send_resolved is false", "max_alerts is 50", "its groups join alerts whose service differs"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("want %q once in:\n%s", want, text)
		}
	}
	if len(report.Playbooks) != 0 {
		t.Errorf("playbooks are judged without having asked Prometheus: %+v", report.Playbooks)
	}
}

// A service whose histogram has no classic buckets is measured, and not alerted on.
func TestNativeHistogram(t *testing.T) {
	sources := []slo.Source{{Histogram: "vllm:time_to_first_token_seconds"}, {Failed: "bad", Total: "all"}}
	for series, want := range map[string]bool{"vllm:time_to_first_token_seconds": true, "vllm:time_to_first_token_seconds_bucket": false, "all": false, "": false} {
		if got := native(slo.Measured{Objective: slo.Objective{Sources: sources}, Series: series}); got != want {
			t.Errorf("%q: %t, want %t", series, got, want)
		}
	}
}
