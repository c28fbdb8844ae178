// Package kubetest is a small Kubernetes API server for tests, over HTTP: what
// package kube asks of a real one, with JSON patches, preconditions, dry-run,
// generations and the work of the deployment and stateful set controllers.
// It can fail any request before or after it took effect.
//
// Only tests import it.
package kubetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/inference-responder/responder/internal/kube"
)

// Server is the API server. Its methods are safe for concurrent use.
type Server struct {
	URL string

	mu      sync.Mutex
	objects map[string]map[string]any // by API path, e.g. /apis/apps/v1/namespaces/serving/deployments/chat
	served  map[string][]string       // resources of optional API groups
	logs    map[string]string         // of pods, by their paths
	writes  []string
	version int
	fault   func(*http.Request) Fault
	before  func()
	linger  bool
	stop    func()
}

// Fault is how a request fails. The zero value: not at all.
type Fault struct {
	Status int  // HTTP status to answer
	Cut    bool // close the connection instead of answering
	After  bool // only after the request took effect

	Message string // of the answer; empty: injected
}

// New starts a server; the test's end stops it.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{objects: map[string]map[string]any{}, served: map[string][]string{}, logs: map[string]string{}}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.URL, s.stop = srv.URL, srv.Close
	return s
}

// Client makes a client for the server.
func (s *Server) Client(t testing.TB) *kube.Client {
	t.Helper()
	c, err := kube.NewForConfig(&rest.Config{Host: s.URL}, kube.Options{QPS: 1e6, Burst: 1e6})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Put stores an API object under its path, which ends in its name.
func (s *Server) Put(path string, object any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(path, asMap(object))
}

func (s *Server) put(path string, m map[string]any) {
	s.version++
	parts := strings.Split(path, "/")
	m["kind"], m["apiVersion"] = kinds()[parts[len(parts)-2]], version(path)
	meta := sub(m, "metadata")
	meta["resourceVersion"] = fmt.Sprint(s.version)
	if meta["uid"] == nil {
		meta["uid"] = fmt.Sprintf("uid-%d", s.version)
	}
	s.objects[path] = m
}

// Delete removes an object.
func (s *Server) Delete(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, path)
}

// Serve makes discovery know resources of a group, e.g. keda.sh/v1alpha1.
func (s *Server) Serve(groupVersion string, resources ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served[groupVersion] = resources
}

// Fail makes requests fail; nil: no more.
func (s *Server) Fail(f func(*http.Request) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Writes lists the requests that stored something, as "PATCH path". Dry-runs
// are not among them.
func (s *Server) Writes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.writes)
}

// Spec is the spec of an object, as JSON with sorted keys.
func (s *Server) Spec(path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := json.Marshal(s.objects[path]["spec"])
	if err != nil {
		panic(err) // unreachable: it came from JSON
	}
	return string(b)
}

// Stop makes the server unreachable.
func (s *Server) Stop() { s.stop() }

// BeforePatch runs f once, right before the next patch is looked at: someone
// else is faster.
func (s *Server) BeforePatch(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
}

// Change changes an object in any way, without moving its generation.
func (s *Server) Change(path string, change func(object map[string]any)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.objects[path])
}

// Edit changes an object's spec as someone else would, and moves its generation.
func (s *Server) Edit(path string, change func(spec map[string]any)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.objects[path]
	before := fmt.Sprint(sub(m, "spec")["replicas"])
	change(sub(m, "spec"))
	if fmt.Sprint(sub(m, "spec")["replicas"]) != before {
		delete(sub(m, "metadata"), "managedFields")
	}
	if !strings.Contains(path, "/horizontalpodautoscalers/") {
		bump(m)
	}
	s.put(path, m)
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	faster := s.before
	if r.Method == http.MethodPatch && faster != nil {
		s.before = nil
		s.mu.Unlock()
		faster()
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	var f Fault
	if s.fault != nil {
		f = s.fault(r)
	}
	failing := f.Status != 0 || f.Cut
	if failing && !f.After {
		f.answer(w)
		return
	}
	status, body := s.handle(r)
	if failing {
		f.answer(w)
		return
	}
	if text, ok := body.(printed); ok {
		_, _ = io.WriteString(w, string(text)) // as below
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that left is the test's own doing
}

func (f Fault) answer(w http.ResponseWriter) {
	if f.Cut {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "0") // what makes client-go try again by itself
	w.WriteHeader(f.Status)
	_ = json.NewEncoder(w).Encode(failure(f.Status, cmp.Or(f.Message, "injected")))
}

func failure(code int, message string) metav1.Status {
	reasons := map[int]metav1.StatusReason{
		401: metav1.StatusReasonUnauthorized, 403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound,
		409: metav1.StatusReasonConflict, 429: metav1.StatusReasonTooManyRequests, 500: metav1.StatusReasonInternalError,
		503: metav1.StatusReasonServiceUnavailable, 504: metav1.StatusReasonTimeout,
	}
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reasons[code], Message: message,
	}
}

func (s *Server) handle(r *http.Request) (int, any) {
	path := r.URL.Path
	switch r.Method {
	case http.MethodGet:
		if strings.HasSuffix(path, "/log") {
			return s.log(path)
		}
		if m, ok := s.objects[path]; ok {
			return 200, m
		}
		if gv, ok := strings.CutPrefix(path, "/apis/"); ok && strings.Count(gv, "/") == 1 {
			return s.discovery(gv)
		} else if ok && !strings.Contains(gv, "/") {
			return s.group(gv)
		}
		resource := path[strings.LastIndexByte(path, '/')+1:]
		if kind, ok := kinds()[resource]; ok {
			return s.list(r, path, resource, kind)
		}
	case http.MethodPatch:
		return s.patch(r, path)
	case http.MethodPost:
		if pod, ok := strings.CutSuffix(path, "/eviction"); ok {
			return s.evict(r, pod)
		}
		if strings.HasSuffix(path, "/jobs") {
			return s.create(r, path)
		}
	case http.MethodDelete:
		if strings.Contains(path, "/jobs/") {
			return s.remove(r, path)
		}
	}
	return 404, failure(404, path+" not found")
}

// group describes the one version that is served of a group.
func (s *Server) group(name string) (int, any) {
	for gv := range s.served {
		if version, ok := strings.CutPrefix(gv, name+"/"); ok {
			v := metav1.GroupVersionForDiscovery{GroupVersion: gv, Version: version}
			return 200, metav1.APIGroup{
				TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: name,
				Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v,
			}
		}
	}
	return 404, failure(404, "the server could not find the requested resource")
}

func (s *Server) discovery(gv string) (int, any) {
	names, ok := s.served[gv]
	if !ok {
		return 404, failure(404, "the server could not find the requested resource")
	}
	out := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv}
	for _, n := range names {
		out.APIResources = append(out.APIResources, metav1.APIResource{Name: n, Namespaced: true, Kind: kinds()[n]})
	}
	return 200, out
}

// version is the apiVersion of a path: v1 or apps/v1.
func version(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if parts[0] == "api" {
		return parts[1]
	}
	return parts[1] + "/" + parts[2]
}

func kinds() map[string]string {
	return map[string]string{
		"deployments": "Deployment", "statefulsets": "StatefulSet", "rollouts": kube.Rollout, "replicasets": "ReplicaSet",
		"controllerrevisions": "ControllerRevision", "pods": "Pod", "events": "Event", "nodes": "Node",
		"horizontalpodautoscalers": "HorizontalPodAutoscaler", "scaledobjects": "ScaledObject",
		"poddisruptionbudgets": "PodDisruptionBudget", "endpointslices": "EndpointSlice",
		"httproutes": "HTTPRoute", "jobs": "Job", "inferenceservices": "InferenceService",
		"leaderworkersets": "LeaderWorkerSet", "dynamographdeployments": "DynamoGraphDeployment",
		"dynamographdeploymentscalingadapters": "DynamoGraphDeploymentScalingAdapter",
	}
}

// list answers below one namespace or, without one in the path, of all: as many as are
// asked for, in the order of their paths.
func (s *Server) list(r *http.Request, path, resource, kind string) (int, any) {
	query := r.URL.Query()
	selector, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return 400, failure(400, err.Error())
	}
	limit, _ := strconv.Atoi(query.Get("limit")) // none is 0
	after, last, more := query.Get("continue"), "", false
	api := path[:strings.LastIndexByte(path, '/')]
	items := []any{}
	for _, at := range slices.Sorted(maps.Keys(s.objects)) {
		m := s.objects[at]
		dir := at[:strings.LastIndexByte(at, '/')]
		all := strings.HasPrefix(dir, api+"/namespaces/") && strings.HasSuffix(dir, "/"+resource)
		if at <= after || dir != path && !all || !selector.Matches(labelsOf(m)) || !on(m, query.Get("fieldSelector")) {
			continue
		}
		if more = limit > 0 && len(items) == limit; more {
			break
		}
		items, last = append(items, m), at
	}
	page := map[string]any{}
	if more {
		page["continue"] = last
	}
	return 200, map[string]any{"kind": kind + "List", "apiVersion": version(path), "metadata": page, "items": items}
}

// patch applies a JSON patch, as the real server does: the tests of the patch
// see the stored object, and a failed one is a 422 that does not say so.
func (s *Server) patch(r *http.Request, path string) (int, any) {
	var raw json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&raw); err != nil {
		return 400, failure(400, err.Error())
	}
	if r.Header.Get("Content-Type") == string(types.ApplyPatchType) {
		return s.apply(r, raw)
	}
	if of, ok := strings.CutSuffix(path, "/scale"); ok {
		return s.scale(r, of, raw)
	}
	of, status := strings.CutSuffix(path, "/status")
	m, ok := s.objects[of]
	if !ok {
		return 404, failure(404, path+" not found")
	}
	p, err := jsonpatch.DecodePatch(raw)
	if err != nil {
		return 400, failure(400, err.Error())
	}
	before, err := json.Marshal(m)
	if err != nil {
		return 500, failure(500, err.Error())
	}
	after, err := p.Apply(before)
	if err != nil {
		return 422, failure(422, "the server rejected our request due to an error in our request")
	}
	next := map[string]any{}
	if err := json.Unmarshal(after, &next); err != nil {
		return 500, failure(500, err.Error())
	}
	if status {
		next = statusOnly(m, next, r.URL.Query().Get("fieldManager"))
	}
	if string(encode(m["spec"])) != string(encode(next["spec"])) && !strings.Contains(path, "/horizontalpodautoscalers/") { // the real server keeps no generation of those
		bump(next)
	}
	own(m, next, r.URL.Query().Get("fieldManager"))
	if r.URL.Query().Get("dryRun") == "" {
		s.put(of, next)
		s.writes = append(s.writes, r.Method+" "+path)
	}
	return 200, next
}

// scale applies a JSON patch to the Scale of a workload, which has none of the workload's
// generation and annotations, and records its manager as the real server does.
func (s *Server) scale(r *http.Request, path string, raw json.RawMessage) (int, any) {
	m, ok := s.objects[path]
	if !ok {
		return 404, failure(404, path+" not found")
	}
	meta, spec := sub(m, "metadata"), map[string]any{}
	if n, ok := sub(m, "spec")["replicas"]; ok && fmt.Sprint(n) != "0" {
		spec["replicas"] = n
	} else if !ok {
		spec["replicas"] = 1
	}
	before := encode(map[string]any{
		"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": spec,
		"metadata": map[string]any{"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"], "resourceVersion": meta["resourceVersion"]},
	})
	p, err := jsonpatch.DecodePatch(raw)
	if err != nil {
		return 400, failure(400, err.Error())
	}
	after, err := p.Apply(before)
	if err != nil {
		return 422, failure(422, "the server rejected our request due to an error in our request")
	}
	answer := map[string]any{}
	if err := json.Unmarshal(after, &answer); err != nil {
		return 500, failure(500, err.Error())
	}
	if r.URL.Query().Get("dryRun") != "" {
		return 200, answer
	}
	next := asMap(m)
	replicas := sub(answer, "spec")["replicas"]
	if replicas == nil {
		replicas = 0
	}
	if fmt.Sprint(sub(next, "spec")["replicas"]) != fmt.Sprint(replicas) {
		sub(next, "spec")["replicas"] = replicas
		bump(next)
		sub(next, "metadata")["managedFields"] = []any{map[string]any{
			"manager": r.URL.Query().Get("fieldManager"), "operation": "Update", "fieldsType": "FieldsV1", "subresource": "scale",
			"fieldsV1": map[string]any{"f:spec": map[string]any{"f:replicas": map[string]any{}}},
		}}
	}
	s.put(path, next)
	s.writes = append(s.writes, r.Method+" "+path+"/scale")
	return 200, answer
}

// apply answers a server-side apply as a dry-run: with the object as it came. It
// merges nothing, and stores nothing.
func (s *Server) apply(r *http.Request, raw []byte) (int, any) {
	q := r.URL.Query()
	if q.Get("dryRun") != "All" || q.Get("force") != "true" || q.Get("fieldManager") == "" || q.Get("fieldValidation") != "Strict" {
		return 400, failure(400, "want a strict dry-run by a manager, with force: "+r.URL.RawQuery)
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		return 400, failure(400, err.Error())
	}
	return 200, object
}

func bump(m map[string]any) {
	meta := sub(m, "metadata")
	n, ok := meta["generation"].(float64)
	if !ok {
		n = 0
	}
	meta["generation"] = n + 1
}

func sub(m map[string]any, name string) map[string]any {
	if v, ok := m[name].(map[string]any); ok {
		return v
	}
	v := map[string]any{}
	m[name] = v
	return v
}

func labelsOf(m map[string]any) labels.Set {
	set := labels.Set{}
	for k, v := range sub(sub(m, "metadata"), "labels") {
		set[k] = fmt.Sprint(v)
	}
	return set
}

func asMap(v any) map[string]any {
	m := map[string]any{}
	if err := json.Unmarshal(encode(v), &m); err != nil {
		panic(err) // unreachable: API objects are JSON objects
	}
	return m
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // unreachable: API objects are JSON
	}
	return b
}
