package jobs

import (
	"fmt"
	"path"
	"reflect"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/inference-responder/responder/internal/setting"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// Bounds of a template.
const (
	// mostDeadline is less than the time within which a change, or its undo, has to be in
	// effect.
	mostDeadline = 25 * time.Minute

	defaultDeadline = 5 * time.Minute
	mostParameters  = 20
	mostTemplates   = 200
)

// Declaration is an entry of the list jobs in responder.yaml: a template of a Job that
// playbooks may run by the lever job.run.
type Declaration struct {
	Name        string        `yaml:"name" doc:"Unique, as playbooks name it: lower-case letters, digits and -, at most 40."`
	Description string        `yaml:"description" doc:"What it does, for those who are asked to approve it."`
	File        string        `yaml:"manifest_file" doc:"File with the Job, a plain manifest of batch/v1. Its name is replaced, and a value stands where it has ${PARAMETER} as the value of a variable in env or as an element of args. It is read at the start."`
	Namespace   string        `yaml:"namespace" doc:"Namespace that the Job runs in. Empty: that of the service."`
	Deadline    time.Duration `yaml:"deadline" doc:"activeDeadlineSeconds of the Job, at most 25m, which includes the start of its pod. 0: 5m. The pod itself ends a little earlier, so that its log is kept."`
	Parameters  []Parameter   `yaml:"parameters" doc:"What the playbook gives."`
	Undo        string        `yaml:"undo" doc:"Name of the template that takes back what this one changed. It gets the parameters that it declares, which this one has to declare in the same way. Empty: what the Job changes cannot be taken back, unless it is read_only."`
	ReadOnly    bool          `yaml:"read_only" doc:"It changes nothing, so there is nothing to take back."`
	Services    []string      `yaml:"services" doc:"Names of services that it may run for; * stands for any text. Empty: all."`
	Touches     []string      `yaml:"touches" doc:"Names of further services of the catalog that it acts on. Their owners are asked, too, and their locks are taken."`
	Autonomy    string        `yaml:"autonomy" enum:"suggest,auto" doc:"auto lets the lever act without approval where everything else allows it: the levels of the installation, the service, the playbook and the state. Needs undo or read_only. Empty: suggest, people are always asked."`
	Allow       []string      `yaml:"allow" enum:"host_network,host_pid,host_ipc,host_path,host_port,privileged" doc:"What its pods may ask for of their node. Empty: nothing of these. privileged covers added capabilities, too."`
}

var nameForm = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$`)

// auto reports whether the platform lets the template run without approval.
func (d Declaration) auto() bool { return d.Autonomy == "auto" }

// within returns the deadline.
func (d Declaration) within() time.Duration {
	if d.Deadline == 0 {
		return defaultDeadline
	}
	return d.Deadline
}

// parameter returns the parameter with that name.
func (d Declaration) parameter(name string) (Parameter, bool) {
	i := slices.IndexFunc(d.Parameters, func(p Parameter) bool { return p.Name == name })
	if i < 0 {
		return Parameter{}, false
	}
	return d.Parameters[i], true
}

// Check reports what is wrong with the list of templates at a path.
func Check(list []Declaration, at string, bad setting.Report) {
	if len(list) > mostTemplates {
		bad(at, "", "more than %d templates", mostTemplates)
	}
	for i, d := range list {
		here := fmt.Sprintf("%s[%d]", at, i)
		if j := slices.IndexFunc(list[:i], func(o Declaration) bool { return o.Name == d.Name }); j >= 0 && d.Name != "" {
			bad(here+".name", "names are unique", "duplicate name %q, also at %s[%d]", d.Name, at, j)
		}
		d.check(here, bad)
		d.checkUndo(list, here, bad)
	}
}

func (d Declaration) check(at string, bad setting.Report) {
	if !nameForm.MatchString(d.Name) {
		bad(at+".name", "lower-case letters, digits and -, at most 40, e.g. clear-cache", "%q does not name a template", yamldoc.Clip(d.Name))
	}
	if d.File == "" {
		bad(at+".manifest_file", "", "must name the file of a Job")
	}
	if d.Namespace != "" && len(validation.IsDNS1123Label(d.Namespace)) > 0 {
		bad(at+".namespace", "", "%q is no namespace", yamldoc.Clip(d.Namespace))
	}
	if d.Deadline != 0 && (d.Deadline < time.Second || d.Deadline > mostDeadline) {
		bad(at+".deadline", "e.g. 5m", "must be between 1s and %s", mostDeadline)
	}
	if len(d.Parameters) > mostParameters {
		bad(at+".parameters", "", "more than %d", mostParameters)
	}
	for i, p := range d.Parameters {
		here := fmt.Sprintf("%s.parameters[%d]", at, i)
		p.check(here, bad)
		if slices.ContainsFunc(d.Parameters[:i], func(o Parameter) bool { return o.Name == p.Name }) {
			bad(here+".name", "names are unique", "duplicate name %q", p.Name)
		}
	}
	for i, glob := range d.Services {
		if _, err := path.Match(glob, ""); err != nil || glob == "" {
			bad(fmt.Sprintf("%s.services[%d]", at, i), "a name, or chat-*", "%q names no services", yamldoc.Clip(glob))
		}
	}
	if d.auto() && d.Undo == "" && !d.ReadOnly {
		bad(at+".autonomy", "name a template in undo, or write read_only: true if it changes nothing", "auto is for what can be taken back")
	}
}

// checkUndo checks the template that takes this one back.
func (d Declaration) checkUndo(list []Declaration, at string, bad setting.Report) {
	if d.Undo == "" {
		return
	}
	if d.ReadOnly {
		bad(at+".undo", "keep one", "undo and read_only exclude each other")
	}
	i := slices.IndexFunc(list, func(o Declaration) bool { return o.Name == d.Undo })
	if i < 0 || d.Undo == d.Name {
		bad(at+".undo", "name another template of this list", "%q is no other template", yamldoc.Clip(d.Undo))
		return
	}
	undo := list[i]
	if d.auto() && !undo.auto() {
		bad(at+".undo", "let people decide about both, or about none", "template %s asks people, and this one does not", undo.Name)
	}
	if undo.Namespace != d.Namespace {
		bad(at+".undo", "", "template %s runs in another namespace", undo.Name)
	}
	for _, p := range undo.Parameters {
		own, ok := d.parameter(p.Name)
		switch {
		case ok && !reflect.DeepEqual(own, p):
			bad(at+".undo", "declare it in the same way in both", "parameter %s of template %s differs from that of this one", p.Name, undo.Name)
		case !ok && p.Default == "":
			bad(at+".undo", "declare it here, too, or give it a default there", "parameter %s of template %s would have no value", p.Name, undo.Name)
		}
	}
}
