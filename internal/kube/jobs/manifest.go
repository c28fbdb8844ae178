package jobs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/inference-responder/responder/internal/yamldoc"
)

const (
	maxManifest = 64 << 10 // bytes: a plan holds two of them

	leastKeep   = 3600      // seconds that a Job stays after its end: its logs are read, and the proof looks at it
	defaultKeep = 24 * 3600 // where the manifest says nothing
	mostRetries = 5
	mostGrace   = 120 // seconds: a Job that is stopped holds up for as long what takes it back
)

// Set holds the templates by their names. A nil Set has none.
type Set struct{ templates map[string]Template }

// Open reads the manifests of templates that were checked. Everything that is wrong with
// them is reported at once, with its place.
func Open(list []Declaration) (*Set, error) {
	if len(list) == 0 {
		return nil, nil
	}
	s := &Set{templates: map[string]Template{}}
	var problems yamldoc.Problems
	for _, d := range list {
		data, err := readFile(d.File)
		if err != nil {
			return nil, fmt.Errorf("template %s: %w", d.Name, err)
		}
		t, err := Read(d, data)
		var placed yamldoc.Problems
		switch {
		case errors.As(err, &placed):
			problems = append(problems, placed...)
		case err != nil:
			return nil, err
		}
		s.templates[d.Name] = t
	}
	return s, problems.Err()
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxManifest+1))
}

// Template returns a template by its name.
func (s *Set) Template(name string) (Template, bool) {
	if s == nil {
		return Template{}, false
	}
	t, ok := s.templates[name]
	return t, ok
}

// Names returns the names of all templates, sorted.
func (s *Set) Names() []string {
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.templates))
}

// Read reads the manifest of a template. The error is [yamldoc.Problems].
func Read(d Declaration, data []byte) (Template, error) {
	var problems yamldoc.Problems
	doc := yamldoc.Single(d.File, data, maxManifest, &problems)
	if doc == nil {
		if len(problems) == 0 {
			problems = yamldoc.Problems{{File: d.File, Line: 1, Column: 1, Message: "the file is empty", Hint: "write a Job of batch/v1"}}
		}
		return Template{}, problems.Err()
	}
	m := &manifest{doc: doc, decl: d, nodes: map[string]*yaml.Node{}, shapes: map[string]*yaml.Node{}, used: map[string]bool{}}
	content := m.value(doc.Root, "")
	if len(problems) > 0 {
		return Template{}, problems.Err()
	}
	job := m.decode(content)
	if len(problems) > 0 {
		return Template{}, problems.Err()
	}
	m.guard(job)
	m.bound(job)
	m.check(job)
	for _, p := range d.Parameters {
		if !m.used[p.Name] {
			m.report("", "write ${"+p.Name+"} as the value of a variable in env, or as an element of args", "parameter %s is not used", p.Name)
		}
	}
	return Template{decl: d, job: job, slots: m.slots}, problems.Err()
}

// manifest is a manifest while it is being read.
type manifest struct {
	doc    *yamldoc.Document
	decl   Declaration
	nodes  map[string]*yaml.Node // by path: spec.template.spec.containers[0].image
	shapes map[string]*yaml.Node // the first of each path without indices
	slots  []slot
	used   map[string]bool // parameters
}

func (m *manifest) report(path, hint, format string, args ...any) {
	n := m.nodes[path]
	for at := path; n == nil && at != ""; n = m.nodes[at] { // what is missing is reported at what is around it
		at = at[:max(0, strings.LastIndexAny(at, ".["))]
	}
	m.doc.Report(n, path, fmt.Sprintf(format, args...), hint)
}

var indices = regexp.MustCompile(`\[\d+\]`)

// value converts a node to what JSON has, and finds the places of values.
func (m *manifest) value(n *yaml.Node, at string) any {
	m.nodes[at] = n
	if shape := indices.ReplaceAllString(at, ""); m.shapes[shape] == nil {
		m.shapes[shape] = n
	}
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		fields := m.doc.Mapping(n, at)
		for _, p := range fields.Pairs {
			below := p.Name
			if at != "" {
				below = at + "." + p.Name
			}
			m.placeholder(p.Key, below, true)
			out[p.Name] = m.value(p.Value, below)
		}
		return out
	case yaml.SequenceNode:
		out := []any{}
		for i, c := range n.Content {
			out = append(out, m.value(c, fmt.Sprintf("%s[%d]", at, i)))
		}
		return out
	}
	m.placeholder(n, at, false)
	return scalar(n)
}

func scalar(n *yaml.Node) any {
	switch n.Tag {
	case "!!null":
		return nil
	case "!!bool":
		b, _ := yamldoc.Bool(n)
		return b
	case "!!int":
		if i, ok := yamldoc.Int(n); ok {
			return i
		}
	case "!!float":
		if f, ok := yamldoc.Float(n); ok {
			return f
		}
	}
	return n.Value
}

var (
	placeholderForm = regexp.MustCompile(`\$\{([^{}]*)\}`)
	place           = regexp.MustCompile(`^spec\.template\.spec\.(initContainers|containers)\[(\d+)\]\.(?:args\[(\d+)\]|env\[(\d+)\]\.value)$`)
)

// placeholder finds the place of a value, and refuses one in the middle of a text or in
// another field. In a text, a name that is no parameter means something to a shell.
func (m *manifest) placeholder(n *yaml.Node, at string, key bool) {
	where := place.FindStringSubmatch(at)
	for _, found := range placeholderForm.FindAllStringSubmatch(n.Value, -1) {
		name, whole := found[1], found[0] == n.Value
		_, declared := m.decl.parameter(name)
		switch {
		case !declared && !whole:
			continue
		case where == nil || key:
			m.doc.Report(n, at, fmt.Sprintf("a parameter cannot stand here: %s", yamldoc.Clip(found[0])), "it stands for the value of a variable in env, or for an element of args, of a container")
		case !whole:
			m.doc.Report(n, at, fmt.Sprintf("parameter %s is a part of a text", name), "a parameter is never put into a text: let it be the whole value of a variable in env, which a script reads as \"$NAME\"")
		case !declared:
			m.doc.Report(n, at, fmt.Sprintf("unknown parameter %q", yamldoc.Clip(name)), yamldoc.DidYouMean(name, m.decl.names()))
		default:
			m.used[name] = true
			m.slots = append(m.slots, slot{parameter: name, init: where[1] == "initContainers", container: number(where[2]), arg: number(where[3]), env: number(where[4])})
		}
	}
}

func (d Declaration) names() []string {
	var out []string
	for _, p := range d.Parameters {
		out = append(out, p.Name)
	}
	return out
}

// number returns an index; -1: there is none.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

// decode decodes the manifest, whose fields must all be known.
func (m *manifest) decode(content any) *batchv1.Job {
	data, err := json.Marshal(content)
	if err != nil {
		m.report("", "", "cannot be encoded: %v", err)
		return nil
	}
	var job batchv1.Job
	strict, err := kjson.UnmarshalStrict(data, &job, kjson.DisallowUnknownFields)
	if err != nil {
		var kind *json.UnmarshalTypeError
		at, message := "", err.Error()
		if errors.As(err, &kind) {
			at, message = kind.Field, fmt.Sprintf("want %s, got %s", kind.Type, kind.Value)
		}
		m.doc.Report(m.shapes[at], at, message, "")
		return nil
	}
	for _, err := range strict {
		at, message := "", err.Error()
		var field kjson.FieldError
		if errors.As(err, &field) {
			at, message = field.FieldPath(), "unknown field"
		}
		m.report(at, "", "%s", message)
	}
	if job.APIVersion != "batch/v1" || job.Kind != "Job" {
		m.report("kind", "write apiVersion: batch/v1 and kind: Job", "want a Job of batch/v1, got %s of %s", cmp.Or(yamldoc.Clip(job.Kind), "nothing"), cmp.Or(yamldoc.Clip(job.APIVersion), "nothing"))
	}
	return &job
}

// bound sets the limits of the Job, and refuses fields that would lift them.
func (m *manifest) bound(job *batchv1.Job) {
	refuse := func(set bool, at, hint string) {
		if set {
			m.report(at, hint, "cannot be set in a template")
		}
	}
	spec := &job.Spec
	refuse(job.Namespace != "", "metadata.namespace", "write namespace in the entry of jobs")
	refuse(job.GenerateName != "", "metadata.generateName", "Responder names the Job, so that it never runs twice")
	refuse(job.OwnerReferences != nil || job.Finalizers != nil, "metadata", "remove ownerReferences and finalizers")
	refuse(spec.ActiveDeadlineSeconds != nil, "spec.activeDeadlineSeconds", "write deadline in the entry of jobs")
	refuse(spec.Template.Spec.ActiveDeadlineSeconds != nil, "spec.template.spec.activeDeadlineSeconds", "write deadline in the entry of jobs")
	refuse(spec.Selector != nil || spec.ManualSelector != nil, "spec.selector", "Kubernetes makes the selector of a Job")
	refuse(spec.Template.Spec.DeprecatedServiceAccount != "", "spec.template.spec.serviceAccount", "write serviceAccountName: this is its old name, and wins")
	refuse(spec.Template.Spec.NodeName != "", "spec.template.spec.nodeName", "use nodeSelector, so that the scheduler has its say")
	refuse(strings.HasPrefix(spec.Template.Spec.PriorityClassName, "system-"), "spec.template.spec.priorityClassName", "a Job must not push serving pods out")
	refuse(spec.Suspend != nil, "spec.suspend", "a Job starts once it is made")
	refuse(spec.ManagedBy != nil, "spec.managedBy", "the Job controller runs it")
	refuse(spec.Parallelism != nil && *spec.Parallelism != 1, "spec.parallelism", "one pod runs at a time")
	refuse(spec.Completions != nil && *spec.Completions != 1, "spec.completions", "one pod ends it")
	refuse(spec.CompletionMode != nil && *spec.CompletionMode != batchv1.NonIndexedCompletion, "spec.completionMode", "one pod ends it")
	job.Status, job.Name = batchv1.JobStatus{}, ""

	// The deadline of a Job deletes its pod, with its log. The kubelet ends the pod a little
	// before, and keeps it; only one that never got to a node waits for the other.
	deadline := int64(m.decl.within().Seconds())
	own := max(1, deadline-max(1, deadline/20))
	spec.ActiveDeadlineSeconds, spec.Template.Spec.ActiveDeadlineSeconds = &deadline, &own
	if spec.BackoffLimit == nil {
		spec.BackoffLimit = new(int32)
	}
	if n := *spec.BackoffLimit; n < 0 || n > mostRetries {
		m.report("spec.backoffLimit", "", "must be between 0 and %d", mostRetries)
	}
	if policy := batchv1.Failed; *spec.BackoffLimit > 0 { // else the next pod may start while the one before still ends
		refuse(spec.PodReplacementPolicy != nil && *spec.PodReplacementPolicy != policy, "spec.podReplacementPolicy", "one pod runs at a time: the next one starts when the one before has ended")
		spec.PodReplacementPolicy = &policy
	}
	if n := spec.Template.Spec.TerminationGracePeriodSeconds; n != nil && (*n < 0 || *n > mostGrace) {
		m.report("spec.template.spec.terminationGracePeriodSeconds", "what takes the Job back starts only when its pods have ended", "must be between 0 and %d", mostGrace)
	}
	keep := int32(defaultKeep)
	if spec.TTLSecondsAfterFinished == nil {
		spec.TTLSecondsAfterFinished = &keep
	}
	if n := *spec.TTLSecondsAfterFinished; n < leastKeep {
		m.report("spec.ttlSecondsAfterFinished", "its end is proven while it is there", "must be at least %d", leastKeep)
	}
	switch pod := &spec.Template.Spec; pod.RestartPolicy {
	case "":
		pod.RestartPolicy = corev1.RestartPolicyNever
	case corev1.RestartPolicyNever:
	default:
		m.report("spec.template.spec.restartPolicy", "write Never; backoffLimit lets it be tried again", "a container that is started again in its pod hides how the one before ended")
	}
}
