package catalog

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/alertmanager/pkg/labels"

	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Entry is one service of the catalog, with the alerts that certainly belong to
// it.
type Entry struct {
	Service playbook.Service
	Match   []labels.Matchers // alerts of this service, one set each; empty: matched by namespace and name only
	Source  string            // file:line of a configured entry, kind namespace/name of a discovered one
}

// workloadKinds lists the kinds of workloads that levers can change.
var workloadKinds = []string{"Deployment", "StatefulSet", "Rollout"}

// maxWait limits how long a replica may take to load, and how long a service
// must have recovered.
const maxWait = 24 * time.Hour

// finish derives empty fields from the others.
func finish(s *playbook.Service) {
	if s.Name == "" && s.Workload.Name != "" {
		s.Name = s.Namespace + "/" + s.Workload.Name
	}
	if s.Selector == "" && s.Workload.Name != "" {
		s.Selector = "namespace=" + strconv.Quote(s.Namespace) + ",service=" + strconv.Quote(s.Workload.Name)
	}
	if clean, err := playbook.CleanSelector(s.Selector); err == nil {
		s.Selector = clean // validate reports the error
	}
}

// problem is one error in a service: the field, the error and the remedy.
type problem struct{ field, message, hint string }

// validate returns all errors of a finished service.
func validate(s playbook.Service) []problem {
	var ps []problem
	add := func(field, message, hint string) { ps = append(ps, problem{field, message, hint}) }
	if s.Namespace == "" {
		add("namespace", "is missing", "name the workload's namespace")
	}
	if s.Workload.Name == "" {
		add("workload.name", "is missing", "name the Deployment, StatefulSet or Rollout whose pods serve")
	}
	if !slices.Contains(workloadKinds, s.Workload.Kind) {
		hint := "one of " + strings.Join(workloadKinds, ", ")
		if s.Workload.Kind == "LeaderWorkerSet" {
			hint = "use kind StatefulSet and the same name: it creates the leaders, and its groups are counted as the replicas"
		}
		add("workload.kind", fmt.Sprintf("unknown kind %q", s.Workload.Kind), hint)
	}
	if s.Engine != "" && !slices.Contains(engine.Names(), s.Engine) {
		add("engine", fmt.Sprintf("unknown engine %q", s.Engine), "one of "+strings.Join(engine.Names(), ", "))
	}
	if s.MinReady < 0 {
		add("min_ready", "is negative", "0 or more replicas")
	}
	if s.MaxScale < 0 {
		add("max_scale", "is negative", "0 (no lever may scale up) or more replicas")
	}
	if s.MaxScale > 0 && s.MaxScale < s.MinReady {
		add("max_scale", fmt.Sprintf("%d is below min_ready %d", s.MaxScale, s.MinReady), "raise max_scale or lower min_ready")
	}
	if err := checkEndpoint(s.Endpoint); err != nil {
		add("endpoint", err.Error(), "like http://chat.serving:8000")
	}
	if strings.ContainsFunc(s.Gateway, unicode.IsControl) || strings.TrimSpace(s.Gateway) != s.Gateway {
		add("gateway", "has white space around it or control characters", "a name, like edge-eu")
	}
	if _, err := playbook.CleanSelector(s.Selector); err != nil {
		add("selector", err.Error(), `PromQL label matchers without braces, like namespace="serving",service="chat"`)
	}
	ps = append(ps, validateGitOps(s.GitOps)...)
	ps = append(ps, validateWarm(s)...)
	for i, o := range s.Owners {
		if !isPrincipal(o) {
			add(fmt.Sprintf("owners[%d]", i), fmt.Sprintf("%q is neither user:NAME nor group:NAME", o), "write user:ada or group:ml-platform")
		}
	}
	for field, d := range map[string]time.Duration{"load_time": s.LoadTime, "recovery": s.Recovery} {
		if d < 0 || d > maxWait {
			add(field, fmt.Sprintf("%s is not between 0 and 24h", d), "like 12m")
		}
	}
	return append(ps, validateSLOs("slos", s.SLOs)...)
}

// isPrincipal reports whether a text names a person or a group that may decide.
func isPrincipal(s string) bool {
	return (strings.HasPrefix(s, "user:") || strings.HasPrefix(s, "group:")) && !strings.HasSuffix(s, ":")
}

func validateGitOps(g playbook.GitOps) []problem {
	var ps []problem
	add := func(field, message, hint string) { ps = append(ps, problem{"gitops." + field, message, hint}) }
	if u, err := url.Parse(g.Repository); err == nil && u.User != nil && (u.Scheme != "ssh" || hasPassword(u)) {
		add("repository", "holds credentials", "name them under gitops.repositories, as files")
	}
	if strings.Contains("/"+g.Path+"/", "/../") || strings.HasPrefix(g.Path, "/") || strings.Contains(g.Path, "\\") {
		add("path", fmt.Sprintf("%q is not below the repository's root", g.Path), "like apps/chat")
	}
	if (g.Object.Kind == "") != (g.Object.Name == "") {
		add("object", "needs both kind and name", "the object that Git holds, like {kind: InferenceService, name: chat}")
	}
	for field, v := range map[string]string{"application": g.Application, "repository": g.Repository, "branch": g.Branch, "path": g.Path, "component": g.Component} {
		if strings.ContainsFunc(v, unicode.IsControl) || strings.TrimSpace(v) != v {
			add(field, "has white space or control characters", "")
		}
	}
	if g.Repository == "" && (g.Path != "" || g.Branch != "") && g.Application == "" {
		add("repository", "is missing", "path and branch need a repository or an application")
	}
	return ps
}

func hasPassword(u *url.URL) bool { _, set := u.User.Password(); return set }

// checkEndpoint accepts an absolute http or https URL without credentials. An
// empty one means that there is nothing to probe.
func checkEndpoint(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return errors.New("is not a URL") // url.Error repeats the text, which may hold a password
	case u.User != nil:
		return errors.New("holds credentials")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("%q is not an http or https URL with a host", s)
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%q has a query or a fragment", s)
	}
	return nil
}
