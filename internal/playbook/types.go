package playbook

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// typeTable is CEL's view of the language's object types: alert, service and
// the evidence of every kind. It is a types.Provider over the built-in one.
// It is filled while a compiler is made and read-only afterwards.
type typeTable struct {
	*types.Registry
	objects map[string]object
}

// object is a declared object type: its fields by name.
type object map[string]member

type member struct {
	field Field
	cel   *cel.Type
}

func newTypeTable() (*typeTable, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, fmt.Errorf("set up CEL's types: %w", err)
	}
	return &typeTable{Registry: registry, objects: map[string]object{}}, nil
}

// declare adds an object type and, below its name, the object types inside it.
func (t *typeTable) declare(name string, fields []Field) (*cel.Type, error) {
	o := object{}
	for _, f := range fields {
		if f.Name == "" {
			return nil, fmt.Errorf("%s has a field without a name", name)
		}
		if _, twice := o[f.Name]; twice {
			return nil, fmt.Errorf("%s declares the field %s twice", name, f.Name)
		}
		ct, err := t.celType(name+"."+f.Name, f.Type)
		if err != nil {
			return nil, err
		}
		o[f.Name] = member{field: f, cel: ct}
	}
	t.objects[name] = o
	return cel.ObjectType(name), nil
}

// celType maps a type of the language to CEL's.
func (t *typeTable) celType(name string, typ Type) (*cel.Type, error) {
	elem := cel.DynType
	if typ.Elem != nil {
		ct, err := t.celType(name+".item", *typ.Elem)
		if err != nil {
			return nil, err
		}
		elem = ct
	}
	switch typ.Name {
	case String, Query:
		return cel.StringType, nil
	case Int:
		return cel.IntType, nil
	case Double:
		return cel.DoubleType, nil
	case Bool:
		return cel.BoolType, nil
	case Duration:
		return cel.DurationType, nil
	case Timestamp:
		return cel.TimestampType, nil
	case List:
		return cel.ListType(elem), nil
	case Map:
		return cel.MapType(cel.StringType, elem), nil
	case Object:
		return t.declare(name, typ.Fields)
	default:
		return nil, fmt.Errorf("%s has the unknown type %q", name, typ.Name)
	}
}

// FindStructType implements CEL's type provider.
func (t *typeTable) FindStructType(name string) (*types.Type, bool) {
	if _, ok := t.objects[name]; ok {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return t.Registry.FindStructType(name)
}

// FindStructFieldNames implements CEL's type provider.
func (t *typeTable) FindStructFieldNames(name string) ([]string, bool) {
	if o, ok := t.objects[name]; ok {
		return slices.Sorted(maps.Keys(o)), true
	}
	return t.Registry.FindStructFieldNames(name)
}

// FindStructFieldType implements CEL's type provider. At run time an object is
// a map[string]any; a field that is not in it is an error, never a zero.
func (t *typeTable) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	o, ok := t.objects[name]
	if !ok {
		return t.Registry.FindStructFieldType(name, field)
	}
	m, ok := o[field]
	if !ok {
		return nil, false
	}
	return &types.FieldType{
		Type: m.cel,
		IsSet: func(target any) bool {
			values, isMap := target.(map[string]any)
			_, set := values[field]
			return isMap && set
		},
		GetFrom: func(target any) (any, error) {
			values, isMap := target.(map[string]any)
			if !isMap {
				return nil, errors.New("not an object")
			}
			v, set := values[field]
			if !set {
				return nil, fmt.Errorf("there is no %s: guard it with has() where it may be missing", field)
			}
			return v, nil
		},
	}, true
}

// The variables alert and service as conditions see them. Names follow the
// language (snake case), not the JSON of the structs.
func alertFields() []Field {
	text := Type{Name: String}
	return []Field{
		{Name: "fingerprint", Type: text},
		{Name: "status", Type: text, Enum: []string{string(Firing), string(Resolved)}},
		{Name: "labels", Type: Type{Name: Map, Elem: &text}},
		{Name: "annotations", Type: Type{Name: Map, Elem: &text}},
		{Name: "starts_at", Type: Type{Name: Timestamp}},
		{Name: "ends_at", Type: Type{Name: Timestamp}},
		{Name: "generator_url", Type: text},
	}
}

func serviceFields() []Field {
	text, whole, ratio := Type{Name: String}, Type{Name: Int}, Type{Name: Double}
	return []Field{
		{Name: "name", Type: text},
		{Name: "namespace", Type: text},
		{Name: "workload", Type: Type{Name: Object, Fields: []Field{{Name: "kind", Type: text}, {Name: "name", Type: text}}}},
		{Name: "container", Type: text},
		{Name: "engine", Type: text},
		{Name: "model", Type: text},
		{Name: "endpoint", Type: text},
		{Name: "slos", Type: Type{Name: List, Elem: &Type{Name: Object, Fields: []Field{
			{Name: "name", Type: text},
			{Name: "objective", Type: ratio},
			{Name: "window", Type: Type{Name: Duration}},
			{Name: "threshold", Type: ratio},
		}}}},
		{Name: "gitops", Type: Type{Name: Object, Fields: []Field{
			{Name: "application", Type: text}, {Name: "repository", Type: text}, {Name: "path", Type: text},
		}}},
		{Name: "owners", Type: Type{Name: List, Elem: &text}},
		{Name: "autonomy", Type: text, Enum: []string{"observe", "suggest", "auto"}},
		{Name: "min_ready", Type: whole},
		{Name: "max_scale", Type: whole},
		{Name: "selector", Type: text},
	}
}

// alertValue is an alert as the variable alert. A missing end is left out, so
// that a condition on it fails instead of reading the year 1.
func alertValue(a Alert) map[string]any {
	v := map[string]any{
		"fingerprint":   a.Fingerprint,
		"status":        string(a.Status),
		"labels":        textMap(a.Labels),
		"annotations":   textMap(a.Annotations),
		"starts_at":     a.StartsAt,
		"generator_url": a.GeneratorURL,
	}
	if !a.EndsAt.IsZero() {
		v["ends_at"] = a.EndsAt
	}
	return v
}

// serviceValue is a service as the variable service.
func serviceValue(s Service) map[string]any {
	slos := make([]any, len(s.SLOs))
	for i, o := range s.SLOs {
		slos[i] = map[string]any{"name": o.Name, "objective": o.Objective, "window": o.Window, "threshold": o.Threshold}
	}
	owners := make([]any, len(s.Owners))
	for i, o := range s.Owners {
		owners[i] = o
	}
	return map[string]any{
		"name":      s.Name,
		"namespace": s.Namespace,
		"workload":  map[string]any{"kind": s.Workload.Kind, "name": s.Workload.Name},
		"container": s.Container,
		"engine":    s.Engine,
		"model":     s.Model,
		"endpoint":  s.Endpoint,
		"slos":      slos,
		"gitops": map[string]any{
			"application": s.GitOps.Application, "repository": s.GitOps.Repository, "path": s.GitOps.Path,
		},
		"owners":    owners,
		"autonomy":  s.Autonomy.String(),
		"min_ready": int64(s.MinReady),
		"max_scale": int64(s.MaxScale),
		"selector":  s.Selector,
	}
}

func textMap(m map[string]string) map[string]any {
	v := make(map[string]any, len(m))
	for k, text := range m {
		v[k] = text
	}
	return v
}
