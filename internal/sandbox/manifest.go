package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

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
	prefix := "containers[" + name + "].args["
	args := []string{}
	for _, path := range slices.Sorted(maps.Keys(fields)) {
		flag, ok := strings.CutPrefix(path, prefix)
		if flag = strings.TrimSuffix(flag, "]"); !ok || !strings.HasPrefix(flag, "--") {
			continue
		}
		if args = append(args, flag); fields[path] != "" {
			args = append(args, fields[path])
		}
	}
	type object = map[string]any
	container := object{"name": name, "image": fields["containers["+name+"].image"], "args": args}
	data, err := json.Marshal(object{
		"apiVersion": "apps/v1", "kind": id.Kind, "metadata": object{"namespace": id.Namespace, "name": id.Name},
		"spec": object{"replicas": f.replicas, "template": object{"spec": object{"containers": []object{container}}}},
	})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", id, err) // unreachable: it holds texts and numbers
	}
	return data, nil
}

// Try implements [step.Objects].
func (w *World) Try(_ context.Context, _ string, _ []byte) ([]byte, error) {
	return nil, &fault.Error{Reason: fault.Invalid, Message: "the simulated cluster applies no manifests"}
}
