package gitops

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/command"
	"github.com/inference-responder/responder/internal/gitops/edit"
	"github.com/inference-responder/responder/internal/gitops/kustomize"
	"go.yaml.in/yaml/v3"
)

const (
	helmValues = "helm values" // the role of such a file
)

// inChart reports whether a file is a template of a Helm chart, which is not
// edited: its values are.
func (tr *tree) inChart(p string) bool {
	for dir := path.Dir(p); ; dir = path.Dir(dir) {
		if tr.File(path.Join(dir, "Chart.yaml")) != nil {
			for _, sub := range []string{"templates", "crds", "charts"} {
				if edit.Below(p, path.Join(dir, sub)) {
					return true
				}
			}
		}
		if dir == "." || dir == "/" {
			return false
		}
	}
}

// fromValues locates the variable in Helm values, when no manifest of the
// target is in the tree.
func (tr *tree) fromValues(v Variable) (*edit.Site, error) {
	layers, err := tr.valueLayers()
	if err != nil {
		return nil, err
	}
	var present, absent []*edit.Site
	for _, o := range layers {
		sites, err := tr.inValues(o, tr.target, v)
		if err != nil {
			return nil, err
		}
		for _, s := range sites {
			if s.Missing {
				absent = append(absent, s)
			} else {
				present = append(present, s)
			}
		}
	}
	all := present
	if len(present) == 0 {
		all = absent
	}
	switch len(all) {
	case 0:
		return nil, tr.nothing(layers)
	case 1:
		return all[0], nil
	}
	return nil, ambiguous(placesOf(all), "several Helm values are for "+tr.target.Kind+" "+tr.target.Name)
}

// nothing says what was looked at.
func (tr *tree) nothing(layers []*edit.Object) error {
	looked := 0
	for _, p := range tr.Paths() {
		if edit.Below(p, tr.target.Path) {
			looked++
		}
	}
	if looked == 0 && tr.target.Path != "" {
		return notFound("there is no directory %s, or no manifest is in it", edit.Clip(tr.target.Path))
	}
	message := fmt.Sprintf("no manifest and no Helm values of %s %s/%s among %d files", tr.target.Kind, tr.target.Namespace, tr.target.Name, looked)
	if tr.target.Path != "" {
		message += " below " + edit.Clip(tr.target.Path)
	}
	if len(tr.elsewhere) > 0 {
		message += "; " + strings.Join(tr.elsewhere[:min(3, len(tr.elsewhere))], ", ")
	}
	for _, o := range layers {
		message += "; " + o.Docs[0].File + " has values, but none for this name"
	}
	for _, a := range tr.builds.Absent() {
		message += "; " + a
	}
	for _, p := range tr.Paths() {
		if tr.inChart(p) && path.Ext(p) == ".yaml" {
			message += "; the templates of a Helm chart are not edited"
			break
		}
	}
	return &fault.Error{Reason: fault.NotFound, Message: message + tr.unread()}
}

// unread names what could not be read and did not seem to speak of the target:
// it may, where its text is not what is deployed.
func (tr *tree) unread() string {
	const most = 3
	var causes []string
	errs := tr.builds.Failures(tr.target.Path)
	for _, p := range tr.Paths() {
		if edit.Below(p, tr.target.Path) {
			errs = append(errs, tr.Failures(p)...)
		}
	}
	for _, err := range errs {
		if !slices.Contains(causes, err.Error()) {
			causes = append(causes, err.Error())
		}
	}
	switch n := len(causes); {
	case n == 0:
		return ""
	case n > most:
		causes = append(causes[:most:most], fmt.Sprintf("and %d more", n-most))
	}
	return "; not read: " + strings.Join(causes, ", ")
}

// valueLayers gives the values that may be deployed: those that the target
// names, merged as Helm does, or else each file that looks like values.
func (tr *tree) valueLayers() ([]*edit.Object, error) {
	if len(tr.target.ValueFiles) > 0 {
		o, err := tr.mergedValues()
		if err != nil {
			return nil, err
		}
		return []*edit.Object{o}, nil
	}
	var out []*edit.Object
	for _, p := range tr.Paths() {
		if !edit.Below(p, tr.target.Path) || !edit.IsYAML(p) || tr.inChart(p) {
			continue
		}
		if text := string(tr.File(p)); !strings.Contains(text, "modelSpec") && !strings.Contains(text, "decode") && !strings.Contains(text, "prefill") {
			continue
		}
		docs, err := tr.Open(p)
		if err != nil {
			return nil, err
		}
		if len(docs) != 1 {
			continue
		}
		root, err := docs[0].Parse()
		if err != nil {
			return nil, err
		}
		if kustomize.IsKustomization(p) {
			for _, chart := range edit.List(root, "helmCharts") {
				if inline := edit.Get(chart, "valuesInline"); edit.IsMap(inline) {
					out = append(out, tr.values(p, inline, docs))
				}
			}
		} else if edit.IsMap(root) && edit.Str(root, "kind") == "" {
			docs[0].Role = helmValues
			out = append(out, tr.values(p, root, docs))
		}
	}
	return out, nil
}

func (tr *tree) values(file string, root *yaml.Node, docs []*edit.Document) *edit.Object {
	return &edit.Object{Root: root, Docs: docs, Kind: edit.ValuesKind, Name: file}
}

// mergedValues merges the target's value files in their order.
func (tr *tree) mergedValues() (*edit.Object, error) {
	o := tr.values(tr.target.ValueFiles[0], &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, nil)
	for _, p := range tr.target.ValueFiles {
		if tr.File(p) == nil {
			return nil, notFound("the value file %s is not in the tree", edit.Clip(p))
		}
		docs, err := tr.Open(p)
		if err != nil {
			return nil, err
		}
		if len(docs) == 0 {
			continue
		}
		root, err := docs[0].Parse()
		if err != nil {
			return nil, err
		}
		if len(docs) > 1 || !edit.IsMap(root) {
			return nil, edit.InvalidAt(p, 1, 1, "a value file is one mapping")
		}
		docs[0].Role = helmValues
		o.Docs = append(o.Docs, docs[0])
		if o.Root, err = edit.Merge(docs[0], o.Root, root, false); err != nil {
			return nil, err
		}
	}
	if len(o.Docs) == 0 {
		return nil, notFound("the value files are empty")
	}
	if len(o.Docs) > 1 {
		o.Why = "of the value files it is the last one that has it"
	}
	return o, nil
}

// inValues finds the variable in the shapes that are known, at the top or
// below the name of a chart that this one depends on.
func (tr *tree) inValues(o *edit.Object, t Target, v Variable) ([]*edit.Site, error) {
	roots := map[string]*yaml.Node{"": o.Root}
	names := []string{""}
	for i := 0; i+1 < len(o.Root.Content); i += 2 {
		if child := edit.Deref(o.Root.Content[i+1]); edit.IsMap(child) {
			roots[o.Root.Content[i].Value+"."] = child
			names = append(names, o.Root.Content[i].Value+".")
		}
	}
	var out []*edit.Site
	for _, at := range names {
		for i, spec := range edit.List(roots[at], "servingEngineSpec", "modelSpec") {
			if !stackModel(t.Name, edit.Str(spec, "name")) || edit.Str(spec, "enabled") == "false" {
				continue
			}
			s, err := tr.stackSpec(o, spec, fmt.Sprintf("%sservingEngineSpec.modelSpec[%d]", at, i), v)
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		}
		s, err := tr.modelService(o, roots[at], at, t, v)
		if err != nil {
			return nil, err
		}
		if s != nil {
			out = append(out, s)
		}
	}
	return out, nil
}

// stackModel reports whether a workload is the production stack's for a model:
// the chart calls it RELEASE-MODEL-deployment-vllm, or RELEASE-MODEL-lws.
func stackModel(workload, model string) bool {
	return model != "" && (strings.HasSuffix(workload, "-"+model+"-deployment-vllm") || strings.HasSuffix(workload, "-"+model+"-lws"))
}

// stackKeys are the keys of the vLLM production stack's chart.
var stackKeys = map[string]string{
	"max-num-seqs": "maxNumSeqs", "max-model-len": "maxModelLen", "gpu-memory-utilization": "gpuMemoryUtilization",
	"tensor-parallel-size": "tensorParallelSize", "dtype": "dtype", "max-loras": "maxLoras",
	"enable-prefix-caching": "enablePrefixCaching", "enable-chunked-prefill": "enableChunkedPrefill",
}

// stackSpec finds the variable in a model of the vLLM production stack. Its
// chart gives extraArgs last, so that they win over the keys.
func (tr *tree) stackSpec(o *edit.Object, spec *yaml.Node, at string, v Variable) (*edit.Site, error) {
	switch {
	case v.Replicas && edit.Str(spec, "keda", "enabled") == "true":
		return boundSite(o.Part(spec, at), v, "the chart's autoscaler owns the replicas", []string{"keda"}, "minReplicaCount", "maxReplicaCount")
	case v.Replicas:
		return numberSite(o.Part(spec, at), "the chart makes it spec.replicas", "replicaCount")
	}
	config := edit.Get(spec, "vllmConfig")
	if !edit.IsMap(config) {
		return nil, notFound("%s: %s has no vllmConfig", o.Docs[0].File, at)
	}
	at += ".vllmConfig"
	c := tr.newContainer(command.Container{Object: o, Name: "vllm", Path: at, Node: config}, "", nil)
	if envName.MatchString(v.Flag) {
		c := command.Container{Object: o, Name: "vllm", Path: strings.TrimSuffix(at, ".vllmConfig"), Node: spec}
		return findEnv([]container{tr.newContainer(c, "", nil)}, v)
	}
	args, err := command.ReadList(c.Container, edit.Get(config, "extraArgs"), at+".extraArgs")
	if err != nil {
		return nil, err
	}
	l := line{args, c}
	s, err := l.find(v)
	if s != nil || err != nil {
		return s, err
	}
	key := stackKeys[command.Dashes(v.Flag)]
	if edit.Get(config, key) != nil {
		return settingSite(o.Part(config, at), key, "the chart makes it --"+command.Dashes(v.Flag))
	}
	if !l.Empty() {
		return l.missing(v)
	}
	return newSetting(o, config, at, key, v)
}

// setting is a key of the values that is there.
func settingSite(o *edit.Object, key, why string) (*edit.Site, error) {
	n := edit.Get(o.Root, key)
	doc := o.DocOf(n)
	if !edit.IsText(n) || doc == nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s: %s%s is no value that can be set", o.Docs[0].File, o.Prefix, key)}
	}
	if o.Why != "" {
		why += "; " + o.Why
	}
	s := o.Site(doc, n, edit.Site{Path: o.Prefix + key, Form: "values", Value: n.Value, Why: why})
	s.Set = func(to string) (edit.Splice, error) { return doc.SetAny(n, to) }
	s.Unset = func() (edit.Splice, error) { return doc.RemoveKey(o.Root, key) }
	return s, nil
}

// newSetting adds a key, or the list of further arguments where the chart has
// no key for the flag.
func newSetting(o *edit.Object, config *yaml.Node, at, key string, v Variable) (*edit.Site, error) {
	doc := o.DocOf(config)
	if doc == nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s is put together from several value files: set --%s in one of them", at, v.Flag)}
	}
	place := edit.Site{Path: at + "." + key, Form: "values", Missing: true, Why: "not set; the chart makes it --" + command.Dashes(v.Flag)}
	if key == "" {
		place.Path, place.Why = at+".extraArgs[--"+command.Dashes(v.Flag)+"]", "not set; the chart has no key for it and gives extraArgs as they are"
	}
	s := o.Site(doc, config, place)
	s.Set = func(to string) (edit.Splice, error) {
		if key != "" {
			return doc.AddScalar(config, key, to)
		}
		words, err := command.FlagWords(v.flag(), to, false, false)
		if err != nil {
			return edit.Splice{}, err
		}
		return doc.AddList(config, "extraArgs", words[0])
	}
	return s, nil
}

// modelService finds the variable in llm-d's values: decode and prefill.
func (tr *tree) modelService(o *edit.Object, root *yaml.Node, at string, t Target, v Variable) (*edit.Site, error) {
	sections := []string{"decode", "prefill"}
	if i := slices.IndexFunc(sections, func(s string) bool { return strings.HasSuffix(t.Name, "-"+s) || t.Component == s }); i >= 0 {
		sections = sections[i : i+1]
	}
	type part struct {
		name string
		node *yaml.Node
	}
	var parts []part
	for _, name := range sections {
		if n := edit.Get(root, name); edit.IsMap(n) && edit.Str(n, "create") != "false" && (v.Replicas || edit.IsList(edit.Get(n, "containers"))) {
			parts = append(parts, part{name, n})
		}
	}
	if len(parts) > 1 {
		return nil, &fault.Error{Reason: fault.Ambiguous, Message: fmt.Sprintf("%s: the values have %sdecode and %sprefill, and %s is neither by its name: name the component", o.Docs[0].File, at, at, t.Name)}
	}
	if len(parts) == 0 {
		return nil, nil
	}
	p := parts[0]
	if v.Replicas && edit.Str(p.node, "autoscaling", "enabled") == "true" {
		return nil, &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf("%s: an autoscaler owns the replicas of %s%s (autoscaling.enabled)", o.Docs[0].File, at, p.name)}
	}
	if v.Replicas {
		return numberSite(o.Part(p.node, at+p.name), "the chart makes it spec.replicas", "replicas")
	}
	return findIn(tr.podContainers(o, p.node, p.name, at+p.name), t, v)
}
