package gitops

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
)

// Reading is the value of a variable in a live object.
type Reading struct {
	Value string
	Set   bool
}

// String returns the reading in words.
func (r Reading) String() string {
	if !r.Set {
		return "(not set)"
	}
	return r.Value
}

// Live reads a variable from objects as the cluster has them, each one JSON,
// by the rules by which [Locate] finds it in Git. The target is the object to
// read it from; others may be autoscalers of it. A container of the target that
// is not there is NotFound.
//
// The error is a [*fault.Error] if it cannot be read: the objects do not hold the value but
// a reference to it (a ConfigMap, a variable that is filled in when the pod
// starts), or there are several. That something is not set is only said where
// nothing else may set it.
func Live(objects [][]byte, t Target, v Variable) (Reading, error) {
	files := make([]File, len(objects))
	for i, data := range objects {
		files[i] = File{Path: fmt.Sprintf("live-%d.json", i), Data: data}
	}
	t.Path, t.ValueFiles, t.Release = "", nil, ""
	tr, err := newTree(files, t)
	if err != nil {
		return Reading{}, withoutFile(err)
	}
	s, err := tr.resolve(v)
	if several := new(ambiguousError); errors.As(err, &several) {
		return Reading{}, &fault.Error{Reason: fault.Ambiguous, Message: fmt.Sprintf("%s is set in %d places of the live %s %s/%s", v, len(several.places), t.Kind, t.Namespace, t.Name)}
	}
	if err != nil {
		return Reading{}, withoutFile(err)
	}
	if !s.Missing {
		return Reading{Value: s.Value, Set: true}, nil
	}
	if s.Form == "env" && edit.IsMap(s.Node) {
		return Reading{}, notFound("%s: its container has no env, so where %s comes from is not known", s.Object, v)
	}
	if from := tr.envSources(s.Object, t); from != "" && !v.Replicas {
		return Reading{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("the live %s does not set %s itself, and takes variables from %s", s.Object, v, from)}
	}
	return Reading{}, nil
}

// withoutFile returns an error without the place in the JSON, which nobody sees.
func withoutFile(err error) error {
	e := new(fault.Error)
	if !errors.As(err, &e) {
		return err // unreachable: resolve gives no other errors
	}
	out := *e
	if rest, ok := strings.CutPrefix(e.Message, "live-"); ok {
		if _, text, ok := strings.Cut(rest, ": "); ok {
			out.Message = text
		}
	}
	return &out
}

// envSources returns where a container of the target takes variables from that are
// not in the object, or "".
func (tr *tree) envSources(o *edit.Object, t Target) string {
	for _, c := range tr.containers(o) {
		if t.Container != "" && c.Name != t.Container {
			continue
		}
		for _, from := range edit.List(c.Node, "envFrom") {
			for _, kind := range []string{"configMapRef", "secretRef"} {
				if name := edit.Str(from, kind, "name"); name != "" {
					return strings.TrimSuffix(kind, "Ref") + " " + name
				}
			}
		}
	}
	return ""
}

// LiveImage reads the image of the target's container: the named one, which is
// NotFound where it is not there, or without a name the only one that runs an
// engine.
func LiveImage(data []byte, t Target) (Reading, error) {
	tr, err := newTree([]File{{Path: "live-0.json", Data: data}}, t)
	if err != nil {
		return Reading{}, err
	}
	all, err := tr.objects()
	if err != nil {
		return Reading{}, withoutFile(err)
	}
	var containers []container
	for _, c := range tr.candidates(all) {
		named := tr.matchingContainers(c.object, t, c.component)
		if len(named) == 0 {
			return Reading{}, notFound("%s has no container %q (it has: %s)", c.object, edit.Clip(t.Container), tr.containerNames(c.object))
		}
		containers = append(containers, named...)
	}
	if len(containers) > 1 {
		containers = slices.DeleteFunc(containers, func(c container) bool {
			l, err := c.commandLine()
			return err != nil || !l.Program().Engine
		})
	}
	if len(containers) != 1 {
		return Reading{}, &fault.Error{Reason: fault.Ambiguous, Message: fmt.Sprintf("the engine's container of %s %s/%s is unknown", t.Kind, t.Namespace, t.Name)}
	}
	image := edit.Str(containers[0].Node, "image")
	return Reading{Value: image, Set: image != ""}, nil
}

// Same reports whether two texts are one value: the same number may be written
// in two ways, and a chart or the API server writes it in its own.
func Same(a, b string) bool {
	if a == b {
		return true
	}
	x, err := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return err == nil && err2 == nil && x == y
}
