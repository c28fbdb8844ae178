package jobs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// LabelTemplate is the label with the template's name, on the Job and on its pods.
const LabelTemplate = "responder.dev/job-template"

// Template is a template that was read and checked.
type Template struct {
	decl  Declaration
	job   *batchv1.Job
	slots []slot
}

// slot is a place for a value.
type slot struct {
	parameter string
	init      bool // of an init container
	container int  // index
	env, arg  int  // index; -1: the other one
}

// Filled is the Job of a template and its values.
type Filled struct {
	Template    string
	Description string
	Namespace   string // empty: that of the service
	Deadline    time.Duration
	Values      map[string]string // as the containers get them, with defaults
	Undo        string            // template that takes it back; empty: none
	ReadOnly    bool
	Auto        bool     // it needs no approval of its own
	Touches     []string // further services
	Allow       []string // what it may ask of its node
	Account     string   // service account
	Containers  []Container
	Variables   []Variable      // of the environment, that hold values
	Retries     int             // backoffLimit
	Keep        time.Duration   // how long the Job stays after its end
	Manifest    json.RawMessage // of batch/v1, without a name and a namespace
}

// Container is a container of a Job.
type Container struct {
	Name, Image string
	Command     []string // with args
	Init        bool
}

// Variable is a variable of a container that holds a value.
type Variable struct{ Path, Value string }

// Fits reports whether the template may run for a service.
func (t Template) Fits(service string) bool {
	flat := strings.NewReplacer("/", "\x00") // names have a slash, which * stands for, too
	return len(t.decl.Services) == 0 || slices.ContainsFunc(t.decl.Services, func(glob string) bool {
		ok, err := path.Match(flat.Replace(glob), flat.Replace(service))
		return ok && err == nil
	})
}

// Services returns the names of the services it may run for, which may have *; none: all.
func (t Template) Services() []string { return slices.Clone(t.decl.Services) }

// Undo returns the name of the template that takes it back; empty: none does.
func (t Template) Undo() string { return t.decl.Undo }

// Fill makes the Job of the template. Values of parameters that are not declared are an
// error, unless more is set: then they are left out, as for the template of an undo.
func (t Template) Fill(values map[string]string, more bool) (Filled, error) {
	given, err := t.values(values, more)
	if err != nil {
		return Filled{}, err
	}
	job := t.job.DeepCopy()
	out := Filled{
		Template: t.decl.Name, Description: t.decl.Description, Namespace: t.decl.Namespace, Deadline: t.decl.within(), Values: given,
		Undo: t.decl.Undo, ReadOnly: t.decl.ReadOnly, Auto: t.decl.auto(), Touches: slices.Clone(t.decl.Touches), Allow: slices.Clone(t.decl.Allow),
		Retries: int(*job.Spec.BackoffLimit), Keep: time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second,
		Account: job.Spec.Template.Spec.ServiceAccountName,
	}
	for _, s := range t.slots {
		spec := &job.Spec.Template.Spec
		c, list := &spec.Containers, "containers"
		if s.init {
			c, list = &spec.InitContainers, "initContainers"
		}
		to, value := &(*c)[s.container], given[s.parameter]
		if s.arg >= 0 {
			to.Args[s.arg] = value // the command shows it
			continue
		}
		to.Env[s.env].Value = value
		out.Variables = append(out.Variables, Variable{fmt.Sprintf("%s[%s].env[%s]", list, to.Name, to.Env[s.env].Name), value})
	}
	out.Containers = append(containers(job.Spec.Template.Spec.InitContainers, true), containers(job.Spec.Template.Spec.Containers, false)...)
	if out.Manifest, err = json.Marshal(job); err != nil {
		return Filled{}, fmt.Errorf("template %s: %w", t.decl.Name, err)
	}
	return out, nil
}

func containers(list []corev1.Container, init bool) []Container {
	var out []Container
	for _, c := range list {
		out = append(out, Container{Name: c.Name, Image: c.Image, Command: slices.Concat(c.Command, c.Args), Init: init})
	}
	return out
}

// values checks the given values, and adds defaults.
func (t Template) values(given map[string]string, more bool) (map[string]string, error) {
	out := map[string]string{}
	var problems []string
	for _, p := range t.decl.Parameters {
		v, ok := given[p.Name]
		if !ok && p.Default == "" {
			problems = append(problems, "parameter "+p.Name+" is missing")
			continue
		}
		if !ok {
			v = p.Default
		}
		text, err := p.value(v)
		if err != nil {
			problems = append(problems, err.Error())
		}
		out[p.Name] = text
	}
	names := t.decl.names()
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !more && !slices.Contains(names, name) {
			problems = append(problems, fmt.Sprintf("unknown parameter %q; it knows %s", yamldoc.Clip(name), cmp.Or(strings.Join(names, ", "), "none")))
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("template %s: %s", t.decl.Name, strings.Join(problems, "; "))
	}
	return out, nil
}
