package helm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/command"
	"github.com/inference-responder/responder/internal/gitops/edit"
)

// Chart is the values of one chart.
type Chart struct {
	values *edit.Object
	root   *yaml.Node
	name   string // in the chart that depends on it; empty: it is the chart itself

	release string
}

// Charts returns the values of the chart itself and of every chart that it may depend
// on. release is Helm's, with which the charts begin the names of their workloads;
// empty: not known, and the end of a name decides whose it is.
func Charts(values *edit.Object, release string) []Chart {
	out := []Chart{{values: values, root: values.Root, release: release}}
	for i := 0; i+1 < len(values.Root.Content); i += 2 {
		if child := edit.Deref(values.Root.Content[i+1]); edit.IsMap(child) {
			out = append(out, Chart{values, child, values.Root.Content[i].Value, release})
		}
	}
	return out
}

// prefix begins the paths of its values.
func (c Chart) prefix() string {
	if c.name == "" {
		return ""
	}
	return c.name + "."
}

// Model is a model of the vLLM production stack's chart.
type Model struct {
	values *edit.Object
	path   string
	node   *yaml.Node
}

// Models returns the models of the vLLM production stack that a workload serves.
func (c Chart) Models(w Workload) []Model {
	var out []Model
	if off(c.root, "servingEngineSpec", "enableEngine") {
		return nil
	}
	for i, spec := range edit.List(c.root, "servingEngineSpec", "modelSpec") {
		if c.serves(w, spec) && !off(spec, "enabled") && !on(spec, "raySpec", "enabled") {
			out = append(out, Model{c.values, fmt.Sprintf("%sservingEngineSpec.modelSpec[%d]", c.prefix(), i), spec})
		}
	}
	return out
}

// serves reports whether the production stack gives what it makes of a model the workload's
// kind and name: RELEASE-MODEL-deployment-vllm, or RELEASE-MODEL-lws over several nodes.
func (c Chart) serves(w Workload, spec *yaml.Node) bool {
	model := edit.Str(spec, "name")
	for end, kind := range map[string]string{"-deployment-vllm": "Deployment", "-lws": "LeaderWorkerSet"} {
		release, ok := strings.CutSuffix(w.Name, "-"+model+end)
		several := on(spec, "lwsSpec", "enabled")
		if ok && model != "" && (c.release == "" || release == c.release && w.Kind == kind && several == (end == "-lws")) {
			return true
		}
	}
	return false
}

// on and off report what a value says that a chart takes for a condition, in any of YAML's
// words for it.
func on(n *yaml.Node, path ...string) bool {
	return slices.Contains([]string{"true", "yes", "on", "y"}, strings.ToLower(edit.Str(n, path...)))
}

func off(n *yaml.Node, path ...string) bool {
	return slices.Contains([]string{"false", "no", "off", "n"}, strings.ToLower(edit.Str(n, path...)))
}

// modelKeys has the keys that the production stack's chart makes flags of.
var modelKeys = map[string]string{
	"max-num-seqs": "maxNumSeqs", "max-model-len": "maxModelLen", "gpu-memory-utilization": "gpuMemoryUtilization",
	"tensor-parallel-size": "tensorParallelSize", "dtype": "dtype", "max-loras": "maxLoras",
	"enable-prefix-caching": "enablePrefixCaching", "enable-chunked-prefill": "enableChunkedPrefill",
}

// Replicas returns the site of the replicas, or of a bound of the autoscaler.
func (m Model) Replicas(bound string) (*edit.Site, error) {
	if edit.Str(m.node, "keda", "enabled") == "true" {
		return m.values.Part(m.node, m.path).Bound(bound, "the chart's autoscaler owns the replicas", []string{"keda"}, "minReplicaCount", "maxReplicaCount")
	}
	return m.values.Part(m.node, m.path).Number("the chart makes it spec.replicas", "replicaCount")
}

// Env returns the container whose environment variables the values set.
func (m Model) Env() command.Container {
	return command.Container{Object: m.values, Name: "vllm", Path: m.path, Node: m.node}
}

// Config returns the container whose flags the values set, and false if they set none.
func (m Model) Config() (command.Container, bool) {
	config := edit.Get(m.node, "vllmConfig")
	return command.Container{Object: m.values, Name: "vllm", Path: m.path + ".vllmConfig", Node: config}, edit.IsMap(config) && len(config.Content) > 0
}

// NewConfig returns the site of a flag in a new vllmConfig. With one the chart turns
// prefix caching off unless it is named.
func (m Model) NewConfig(flag command.Flag) (*edit.Site, error) {
	doc := m.values.DocOf(m.node)
	if doc == nil || edit.Get(m.node, "vllmConfig") != nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s: %s has no vllmConfig to add --%s to", m.values.Docs[0].File, m.path, flag.Name)}
	}
	name := command.Dashes(flag.Name)
	key := modelKeys[name]
	s := m.values.Site(doc, m.node, edit.Site{
		Path: m.path + ".vllmConfig[--" + name + "]", Form: "values", Missing: true, Container: "vllm",
		Why: "not set; the model has no vllmConfig yet, and with one that does not name prefix caching the chart would turn that off",
	})
	s.Set = func(to string) (edit.Splice, error) {
		setting := key + ": " + to
		if key == "" {
			words, err := command.FlagWords(flag, to, false, false)
			if err != nil {
				return edit.Splice{}, err
			}
			setting = fmt.Sprintf("extraArgs: [%q]", words[0])
		}
		if key != "enablePrefixCaching" {
			setting = "enablePrefixCaching: true, " + setting
		}
		return doc.AddText(m.node, "vllmConfig", "{"+setting+"}")
	}
	return s, nil
}

// Alone makes a site remove the vllmConfig that has nothing but its value, as
// [Model.NewConfig] writes it.
func (m Model) Alone(s *edit.Site) {
	config := edit.Get(m.node, "vllmConfig")
	doc := m.values.DocOf(m.node)
	if doc == nil || config.Style&yaml.FlowStyle == 0 || s.Missing {
		return
	}
	n := len(config.Content) / 2
	if edit.Str(config, "enablePrefixCaching") == "true" && !strings.HasSuffix(s.Path, ".enablePrefixCaching") {
		n--
	}
	if n == 1 && len(edit.List(config, "extraArgs")) <= 1 {
		s.Unset = func() (edit.Splice, error) { return doc.RemoveKey(m.node, "vllmConfig") }
	}
}

// ExtraArgs returns the arguments that the chart puts last, so that they override
// its keys. config is that of the model.
func ExtraArgs(config command.Container) (*command.Line, error) {
	return command.ReadList(config, edit.Get(config.Node, "extraArgs"), config.Path+".extraArgs")
}

// Setting returns the site of the key that the chart makes a flag of. It is nil if
// the values do not have the key. config is that of the model.
func Setting(config command.Container, flag command.Flag) (*edit.Site, error) {
	o, key, name := config.Object, modelKeys[command.Dashes(flag.Name)], command.Dashes(flag.Name)
	n := edit.Get(config.Node, key)
	if n == nil {
		return nil, nil
	}
	doc := o.DocOf(n)
	if !edit.IsText(n) || doc == nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s: %s.%s is not a value that can be set", o.Docs[0].File, config.Path, key)}
	}
	why := "the chart makes it --" + name
	if o.Why != "" {
		why += "; " + o.Why
	}
	s := o.Site(doc, n, edit.Site{Path: config.Path + "." + key, Form: "values", Value: n.Value, Why: why})
	s.Set = func(to string) (edit.Splice, error) { return doc.SetAny(n, to) }
	s.Unset = func() (edit.Splice, error) { return doc.RemoveKey(config.Node, key) }
	return s, nil
}

// NewSetting returns the site of a new key, or of a new list of further arguments
// if the chart has no key for the flag. config is that of the model.
func NewSetting(config command.Container, flag command.Flag) (*edit.Site, error) {
	key, name := modelKeys[command.Dashes(flag.Name)], command.Dashes(flag.Name)
	doc := config.Object.DocOf(config.Node)
	if doc == nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s is merged from several value files: set --%s in one of them", config.Path, flag.Name)}
	}
	place := edit.Site{Path: config.Path + "." + key, Form: "values", Missing: true, Why: "not set; the chart makes it --" + name}
	switch key {
	case "enablePrefixCaching":
		place.Value, place.Why = "false", "not set, and without the key the chart renders --no-"+name
	case "":
		place.Path, place.Why = config.Path+".extraArgs[--"+name+"]", "not set; the chart has no key for it and gives extraArgs as they are"
	}
	s := config.Object.Site(doc, config.Node, place)
	s.Set = func(to string) (edit.Splice, error) {
		if key != "" {
			return doc.AddScalar(config.Node, key, to)
		}
		words, err := command.FlagWords(flag, to, false, false)
		if err != nil {
			return edit.Splice{}, err
		}
		return doc.AddList(config.Node, "extraArgs", words[0])
	}
	return s, nil
}

// Section is decode or prefill of llm-d's modelservice chart.
type Section struct {
	Name string
	Path string
	Node *yaml.Node

	values *edit.Object
}

// sections are those of llm-d's modelservice chart that it makes workloads of.
var sections = []string{"decode", "prefill"}

// Section returns the section that a workload is made of, or nil if the values have
// none that sets the replicas or, if replicas is false, a container.
func (c Chart) Section(w Workload, component string, replicas bool) (*Section, error) {
	names := sections
	if i := slices.IndexFunc(names, func(s string) bool { return strings.HasSuffix(w.Name, "-"+s) || component == s }); i >= 0 {
		names = names[i : i+1]
	}
	var found []*Section
	for _, name := range names {
		if n := edit.Get(c.root, name); c.creates(name) && (replicas || edit.IsList(edit.Get(n, "containers"))) && (c.release == "" || c.calls(w, name)) {
			found = append(found, &Section{name, c.prefix() + name, n, c.values})
		}
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	return nil, &fault.Error{Reason: fault.Ambiguous, Message: fmt.Sprintf("%s: the values have %sdecode and %sprefill, and %s is neither by its name: name the component", c.values.Docs[0].File, c.prefix(), c.prefix(), w.Name)}
}

// creates reports whether the values have the section, and it makes a workload.
func (c Chart) creates(section string) bool {
	n := edit.Get(c.root, section)
	return edit.IsMap(n) && !off(n, "create")
}

// calls reports whether llm-d's chart gives what it makes of a section the workload's kind
// and name, by llm-d-modelservice.fullname of its templates/_helpers.tpl.
func (c Chart) calls(w Workload, section string) bool {
	const most = 55
	full := edit.Str(c.root, "fullnameOverride")
	if full == "" {
		full = c.release
		if name := cmp.Or(edit.Str(c.root, "nameOverride"), c.name, "llm-d-modelservice"); !strings.Contains(full, name) {
			full += "-" + name
		}
	}
	kind := cmp.Or(edit.Str(c.root, section, "workloadKind"), edit.Str(c.root, "workloadKind"), "Deployment")
	switch {
	case on(c.root, "multinode"):
		kind = "LeaderWorkerSet"
	case on(c.root, "requester", "enable") && section == "decode":
		kind = "ReplicaSet"
	}
	return w.Kind == kind && w.Name == strings.TrimSuffix(full[:min(len(full), most)], "-")+"-"+section
}

// Replicas returns the site of the section's replicas.
func (s *Section) Replicas() (*edit.Site, error) {
	if edit.Str(s.Node, "autoscaling", "enabled") == "true" {
		return nil, &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf("%s: an autoscaler owns the replicas of %s (autoscaling.enabled)", s.values.Docs[0].File, s.Path)}
	}
	return s.values.Part(s.Node, s.Path).Number("the chart makes it spec.replicas", "replicas")
}
