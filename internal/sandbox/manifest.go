package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
)

// Object implements [step.Objects]: a workload with the image and the arguments of its
// engine's container.
func (w *World) Object(_ context.Context, id kube.ObjectID) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	f := w.fleet(kube.Ref{Kind: id.Kind, Namespace: id.Namespace, Name: id.Name})
	if f == nil {
		return nil, &fault.Error{Reason: fault.NotFound, Message: id.String() + " does not exist"}
	}
	name, fields := f.dialect().name, f.current().fields
	args := []string{}
	for _, a := range arguments(name, fields) {
		if args = append(args, a.flag); a.value != "" {
			args = append(args, a.value)
		}
	}
	type object = map[string]any
	container := object{"name": name, "image": fields["containers["+name+"].image"], "args": args}
	meta := object{"namespace": id.Namespace, "name": id.Name}
	if f.app != nil {
		meta["annotations"] = object{trackingID: f.tracking()}
	}
	data, err := json.Marshal(object{
		"apiVersion": "apps/v1", "kind": id.Kind, "metadata": meta,
		"spec": object{"replicas": f.replicas, "template": object{"spec": object{"containers": []object{container}}}},
	})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", id, err) // unreachable: it holds texts and numbers
	}
	return data, nil
}

// argument is an option of an engine as a flattened pod template has it.
type argument struct{ flag, value string }

// arguments returns the options of a container, by name.
func arguments(container string, fields map[string]string) []argument {
	var out []argument
	prefix := "containers[" + container + "].args["
	for _, path := range slices.Sorted(maps.Keys(fields)) {
		flag, ok := strings.CutPrefix(path, prefix)
		if flag = strings.TrimSuffix(flag, "]"); ok && strings.HasPrefix(flag, "--") {
			out = append(out, argument{flag, fields[path]})
		}
	}
	return out
}

// deployment is a manifest as Git has it, as far as the simulated cluster knows it.
type deployment struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name      string `yaml:"name"`
		Namespace string `yaml:"namespace"`
	} `yaml:"metadata"`
	Spec struct {
		Replicas *int `yaml:"replicas,omitempty"` // nil: an autoscaler sets them
		Template struct {
			Spec struct {
				Containers []container `yaml:"containers"`
			} `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

type container struct {
	Name      string                       `yaml:"name"`
	Image     string                       `yaml:"image"`
	Args      []string                     `yaml:"args"`
	Resources map[string]map[string]string `yaml:"resources,omitempty"`
}

// resourceKinds are the lists of resources that a flattened pod template has.
var resourceKinds = []string{"limits", "requests"}

// write returns the manifest of a workload.
func (f *fleet) write(replicas int, fields map[string]string) []byte {
	var d deployment
	d.APIVersion, d.Kind, d.Metadata.Name, d.Metadata.Namespace = "apps/v1", f.ref.Kind, f.ref.Name, f.ref.Namespace
	if f.hpa == nil {
		d.Spec.Replicas = &replicas
	}
	name := f.dialect().name
	prefix := "containers[" + name + "]."
	c := container{Name: name, Image: fields[prefix+"image"]}
	for _, a := range arguments(name, fields) {
		if a.value != "" {
			a.flag += "=" + a.value
		}
		c.Args = append(c.Args, a.flag)
	}
	for path, value := range fields {
		for _, kind := range resourceKinds {
			if what, ok := strings.CutPrefix(path, prefix+"resources."+kind+"["); ok {
				if c.Resources == nil {
					c.Resources = map[string]map[string]string{}
				}
				if c.Resources[kind] == nil {
					c.Resources[kind] = map[string]string{}
				}
				c.Resources[kind][strings.TrimSuffix(what, "]")] = value
			}
		}
	}
	d.Spec.Template.Spec.Containers = []container{c}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(d); err != nil {
		panic(fmt.Sprintf("write the manifest of %s: %s", f.ref.Name, err)) // unreachable: it holds texts and numbers
	}
	return b.Bytes()
}

// parse returns the replicas and the flattened pod template of a manifest. replicas is -1
// where it has none.
func parse(data []byte) (replicas int, fields map[string]string, err error) {
	var d deployment
	if err := yaml.Unmarshal(data, &d); err != nil {
		return 0, nil, fmt.Errorf("read a manifest: %w", err)
	}
	if d.Kind == "" || len(d.Spec.Template.Spec.Containers) == 0 {
		return 0, nil, errors.New("read a manifest: it is no workload with containers")
	}
	replicas, fields = -1, map[string]string{}
	if d.Spec.Replicas != nil {
		replicas = *d.Spec.Replicas
	}
	for _, c := range d.Spec.Template.Spec.Containers {
		prefix := "containers[" + c.Name + "]."
		fields[prefix+"image"] = c.Image
		for i := 0; i < len(c.Args); i++ {
			flag, value, set := strings.Cut(c.Args[i], "=")
			if !set && i+1 < len(c.Args) && !strings.HasPrefix(c.Args[i+1], "--") {
				i++
				value = c.Args[i]
			}
			fields[prefix+"args["+flag+"]"] = value
		}
		for kind, list := range c.Resources {
			for what, value := range list {
				fields[prefix+"resources."+kind+"["+what+"]"] = value
			}
		}
	}
	return replicas, fields, nil
}

// Try implements [step.Objects]: the simulated API server stores a workload as it is
// written.
func (w *World) Try(_ context.Context, _ string, manifest []byte) ([]byte, error) {
	var object map[string]any
	_, _, err := parse(manifest)
	if err == nil {
		err = yaml.Unmarshal(manifest, &object)
	}
	if err != nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: "the simulated cluster applies manifests of workloads alone", Err: err}
	}
	data, err := json.Marshal(object)
	if err != nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: "encode the manifest", Err: err}
	}
	return data, nil
}
