package kube

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/jobs"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// JobRunKind declares job.run.
func JobRunKind() playbook.Kind {
	return playbook.Kind{
		Name: jobRun,
		Role: playbook.RoleLever,
		Doc: `Runs a Kubernetes Job of a template that the platform team wrote (` + "`jobs`" + ` in the configuration): for what no other lever does. A playbook gives
values for the template's parameters, and nothing else: they become whole values of environment variables or whole arguments, never a part of a text, and never
the image, the account or another field.

It always asks people, also at level auto, unless the template's entry says ` + "`autonomy: auto`" + `. It is in effect when the Job has ended well; the exit code, the reason
and the last lines of its log are evidence, with credentials redacted (role responder-lever-job grants pods/log). Until then the run tells why its pod does
not start. A Job that fails or runs into its deadline did not come into effect.

Undo stops a Job that still runs, then runs the template that its entry names in ` + "`undo`" + `, with the same values, as it was approved with the plan. Without one the
change cannot be taken back: it stays whatever the proof says, and the plan says so. A Job without one that has not ended in time, or waits for its start (Kueue), is
stopped all the same, so that it does not run when nobody looks.

Refused for a template that is not known or is not for the service, values that do not fit their parameters, and when a Job of the same name is there.`,
		// The name of the Job is that of the run and the visit, so it never runs twice while it
		// is there. One that is gone before it was seen is for people: see Plan.Unrepeatable.
		Idempotent: true,
		With:       step.Fields[jobWith](),
		Lint:       jobLint,
	}
}

// jobLint refuses a template that only a run would know: which templates a playbook may run
// is read in it, and reviewed with it.
func jobLint(with map[string]any) []playbook.Complaint {
	if v, given := with["template"]; !given || v != nil {
		return nil
	}
	return []playbook.Complaint{{At: []string{"template"}, Message: "the name of a template cannot be an expression", Hint: "write the name out; a state for each template chooses between them"}}
}

const jobRun = "job.run"

type jobWith struct {
	Template   string            `json:"template" required:"yes" doc:"Name of the template in jobs of the configuration. It is written out: no ${...}."`
	Parameters map[string]string `json:"parameters" doc:"Values of the template's parameters. Numbers are in quotes."`
}

type runJob struct {
	w         step.Workloads
	jobs      step.Jobs
	logs      step.Logs
	templates *jobs.Set
	services  func() []playbook.Service
}

// NewJobRun returns the lever job.run.
func NewJobRun(d step.Deps) step.Lever {
	return runJob{d.Workloads, d.Jobs, d.Logs, d.Templates, d.Services}
}

// jobPayload is the payload of a plan of job.run. It holds the Jobs themselves: what is
// approved is what runs, and what takes it back.
type jobPayload struct {
	Values   map[string]string `json:"values"` // of the parameters
	Job      plannedJob        `json:"job"`
	Undo     *plannedJob       `json:"undo,omitempty"` // nil: nothing takes it back
	ReadOnly bool              `json:"readOnly,omitempty"`
}

// plannedJob is a Job that a plan makes.
type plannedJob struct {
	Template  string          `json:"template"`
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	Manifest  json.RawMessage `json:"manifest"`
}

func (j plannedJob) String() string { return "Job " + j.Namespace + "/" + j.Name }

// labelDigest is the label with the digest of the manifest, by which a Job of this plan is
// told from one of a plan before it.
const labelDigest = "responder.dev/job-digest"

func (j plannedJob) labels() map[string]string {
	return map[string]string{jobs.LabelTemplate: j.Template, labelDigest: short(string(j.Manifest))}
}

func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:10]
}

func (j plannedJob) creation(in step.Input, dryRun bool) kube.JobCreation {
	return kube.JobCreation{Namespace: j.Namespace, Name: j.Name, Manifest: j.Manifest, Labels: j.labels(), DryRun: dryRun, Run: in.Run, Key: in.Key}
}

// plannedOf returns the Jobs of a plan. Their names are the same for every attempt of one
// visit of the state.
func plannedOf(in step.Input, f jobs.Filled, undo *jobs.Filled) jobPayload {
	name := f.Template + "-" + short(step.Visit(in.Key))
	of := func(f jobs.Filled, name string) plannedJob {
		return plannedJob{Template: f.Template, Namespace: cmp.Or(f.Namespace, in.Service.Namespace), Name: name, Manifest: f.Manifest}
	}
	p := jobPayload{Values: f.Values, Job: of(f, name), ReadOnly: f.ReadOnly}
	if undo != nil {
		back := of(*undo, name+"-undo")
		p.Undo = &back
	}
	return p
}

// fill returns the Job of a template for a service, and the one that takes it back; nil:
// none does.
func (l runJob) fill(service, template string, values map[string]string) (f jobs.Filled, undo *jobs.Filled, err error) {
	t, ok := l.templates.Template(template)
	switch {
	case !ok && len(l.templates.Names()) == 0:
		return f, nil, step.Invalid("%s: no templates of Jobs are configured: set jobs", jobRun)
	case !ok:
		return f, nil, step.Invalid("%s: unknown template %q; configured are %s", jobRun, template, strings.Join(l.templates.Names(), ", "))
	case !t.Fits(service):
		return f, nil, &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf("%s: template %s is for the services %s, not for %s", jobRun, template, strings.Join(t.Services(), ", "), service)}
	}
	if f, err = t.Fill(values, false); err != nil {
		return f, nil, step.Invalid("%s: %v", jobRun, err)
	}
	if f.Undo == "" {
		return f, nil, nil
	}
	back, ok := l.templates.Template(f.Undo)
	if !ok {
		return f, nil, step.Invalid("%s: template %s is taken back by %s, which is not configured", jobRun, template, f.Undo) // unreachable unless the list was not checked
	}
	u, err := back.Fill(f.Values, true)
	if err != nil {
		return f, nil, step.Invalid("%s: what takes it back: %v", jobRun, err)
	}
	return f, &u, nil
}

// Plan implements [step.Lever].
func (l runJob) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	with, err := step.Decode[jobWith](JobRunKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	if l.w == nil || l.jobs == nil {
		return machine.Plan{}, step.NotConfigured("cluster", "kubernetes")
	}
	f, undo, err := l.fill(in.Service.Name, with.Template, with.Parameters)
	if err != nil {
		return machine.Plan{}, err
	}
	w, err := l.w.Workload(ctx, step.RefOf(in.Service))
	if err != nil {
		return machine.Plan{}, err
	}
	p := plannedOf(in, f, undo)
	touched, err := l.touched(in.Service, f.Touches, p.Job.Namespace)
	if err != nil {
		return machine.Plan{}, err
	}
	plan := jobPlan(in, f, undo, p)
	plan.Capacity = machine.Capacity{ReadyNow: w.Ready, LowestReady: w.Ready, ReadyAfter: w.Ready}
	plan.Touches, plan.Locks = touched, append(step.Locks(in.Service), step.TouchedLocks(touched)...)
	plan.Lacks, err = l.tried(ctx, in, p)
	return plan, err
}

// touched returns what else a template acts on: services by their names, and another
// namespace.
func (l runJob) touched(own playbook.Service, names []string, namespace string) ([]machine.Touched, error) {
	var catalog []playbook.Service
	if l.services != nil {
		catalog = l.services()
	}
	var out []machine.Touched
	for _, name := range names {
		if name == own.Name {
			continue
		}
		i := slices.IndexFunc(catalog, func(s playbook.Service) bool { return s.Name == name })
		if i < 0 {
			return nil, &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf("%s: the template acts on service %s, which the catalog does not have", jobRun, name)}
		}
		out = append(out, machine.Touched{Service: name, Namespace: catalog[i].Namespace, Owners: slices.Clone(catalog[i].Owners)})
	}
	if namespace != own.Namespace && !slices.ContainsFunc(out, func(t machine.Touched) bool { return t.Namespace == namespace }) {
		out = append(out, machine.Touched{Namespace: namespace})
	}
	return out, nil
}

// tried dry-runs the Jobs of a plan. It refuses a name that is taken, and returns a missing
// right.
func (l runJob) tried(ctx context.Context, in step.Input, p jobPayload) (lacks string, err error) {
	for _, j := range p.all() {
		there, err := l.jobs.Job(ctx, j.Namespace, j.Name)
		switch {
		case err == nil:
			return "", &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: %s is there already, %s", jobRun, j, madeBy(there))}
		case !step.HasReason(err, fault.NotFound):
			if lacks, err = step.LackedRight(err); err != nil {
				return "", err
			}
		}
		if lacks == "" {
			_, err = l.jobs.CreateJob(ctx, j.creation(in, true))
			if lacks, err = step.LackedRight(err); err != nil {
				return "", err
			}
		}
		if lacks != "" {
			return lacks, nil
		}
	}
	return "", nil
}

// all returns the Jobs of a plan.
func (p jobPayload) all() []plannedJob {
	if p.Undo == nil {
		return []plannedJob{p.Job}
	}
	return []plannedJob{p.Job, *p.Undo}
}

func madeBy(j kube.Job) string {
	if run := j.Annotations[kube.AnnotationRun]; run != "" {
		return "made by run " + run
	}
	return "made by somebody else"
}

func jobPlan(in step.Input, f jobs.Filled, undo *jobs.Filled, p jobPayload) machine.Plan {
	plan := machine.Plan{
		Step: jobRun, Target: machine.Target{APIVersion: "batch/v1", Kind: "Job", Namespace: p.Job.Namespace, Name: p.Job.Name},
		Summary: fmt.Sprintf("run Job %s for %s: %s", f.Template, in.Service.Name, cmp.Or(f.Description, "no description")),
		Diff:    append([]machine.FieldChange{{Path: "Job", To: p.Job.Namespace + "/" + p.Job.Name}}, jobDiff("", f)...),
		Payload: step.EncodeJSON(p),
	}
	plan.Notes = append(jobNotes(f), fmt.Sprintf("the Job is deleted %s after its end", step.DurationText(f.Keep)))
	switch {
	case undo != nil:
		plan.Undo = fmt.Sprintf("stop the Job if it still runs, then run the Job of template %s with the same values", undo.Template)
		plan.Diff = append(plan.Diff, jobDiff("undo.", *undo)...)
		plan.Notes = append(plan.Notes, jobNotes(*undo)...)
		plan.Risk, plan.Why = machine.RiskMedium, "it does what its image does; template "+undo.Template+" takes it back"
	case f.ReadOnly:
		plan.Class = playbook.ClassHardware // what changes nothing stays, whatever the proof says
		plan.Undo = "nothing to take back: the template changes nothing; a Job that waits or runs is stopped"
		plan.Risk, plan.Why = machine.RiskLow, "the template changes nothing, as the platform team says"
	default:
		plan.Class = playbook.ClassHardware
		plan.Undo = "cannot be taken back: the template names no undo; a Job that waits or runs is stopped, and what it did until then stays"
		plan.Risk, plan.Why = machine.RiskHigh, "it cannot be taken back"
	}
	plan.Stops = undo == nil
	plan.Unrepeatable = !f.ReadOnly // gone before it was seen, it may have run: people say what is true
	if len(f.Allow) > 0 || undo != nil && len(undo.Allow) > 0 {
		plan.Risk, plan.Why = machine.RiskHigh, plan.Why+"; it reaches beyond its pod"
	}
	if !f.Auto {
		plan.Asks = "template " + f.Template + " runs after approval only (jobs in the configuration)"
		plan.Notes = append(plan.Notes, "people are asked at any level: "+plan.Asks)
	}
	return plan
}

// jobDiff shows the fields of a Job that decide what it does.
func jobDiff(prefix string, f jobs.Filled) []machine.FieldChange {
	var out []machine.FieldChange
	add := func(path, to string) { out = append(out, machine.FieldChange{Path: prefix + path, To: to}) }
	add("template", f.Template)
	for _, name := range slices.Sorted(maps.Keys(f.Values)) {
		add("parameters["+name+"]", f.Values[name])
	}
	for _, c := range f.Containers {
		list := "containers"
		if c.Init {
			list = "initContainers"
		}
		add(list+"["+c.Name+"].image", c.Image)
		if len(c.Command) > 0 {
			add(list+"["+c.Name+"].command", quoted(c.Command))
		}
	}
	for _, v := range f.Variables {
		add(v.Path, v.Value)
	}
	add("serviceAccountName", cmp.Or(f.Account, "default"))
	add("activeDeadlineSeconds", strconv.Itoa(int(f.Deadline.Seconds())))
	add("backoffLimit", strconv.Itoa(f.Retries))
	if len(f.Allow) > 0 {
		add("allow", strings.Join(f.Allow, ", "))
	}
	return out
}

// quoted returns a command with what has blanks in quotes.
func quoted(command []string) string {
	var out []string
	for _, c := range command {
		if c == "" || strings.ContainsAny(c, " \t\n\"'\\") {
			c = strconv.Quote(c)
		}
		out = append(out, c)
	}
	text := strings.Join(out, " ")
	if len(text) > maxLogLine {
		text = fmt.Sprintf("%s... (%d bytes, sha256:%.6x)", strings.ToValidUTF8(text[:maxLogLine], ""), len(text), sha256.Sum256([]byte(text)))
	}
	return text
}

// jobNotes names images that may be another one each time.
func jobNotes(f jobs.Filled) []string {
	var out []string
	for _, c := range f.Containers {
		if !strings.Contains(c.Image, "@sha256:") {
			out = append(out, fmt.Sprintf("image %s of template %s has no digest: what runs is what the registry has under that tag", c.Image, f.Template))
		}
	}
	return out
}
