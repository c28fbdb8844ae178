package expression

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// Types is the table of declared object types. It is a types.Provider on top of
// the built-in one. Fill it first: once an expression is compiled it is
// read-only.
type Types struct {
	*types.Registry
	objects map[string]object
}

// object is a declared object type: its fields by name.
type object map[string]member

type member struct {
	field Field
	cel   *cel.Type
}

// NewTypes returns an empty table.
func NewTypes() (*Types, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, fmt.Errorf("set up CEL's types: %w", err)
	}
	return &Types{Registry: registry, objects: map[string]object{}}, nil
}

// Declare adds an object type and, below its name, the object types inside it.
func (t *Types) Declare(name string, fields []Field) (*cel.Type, error) {
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

// celType maps a declared type to CEL's.
func (t *Types) celType(name string, typ Type) (*cel.Type, error) {
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
		return t.Declare(name, typ.Fields)
	default:
		return nil, fmt.Errorf("%s has the unknown type %q", name, typ.Name)
	}
}

// FindStructType implements CEL's type provider.
func (t *Types) FindStructType(name string) (*types.Type, bool) {
	if _, ok := t.objects[name]; ok {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return t.Registry.FindStructType(name)
}

// FindStructFieldNames implements CEL's type provider.
func (t *Types) FindStructFieldNames(name string) ([]string, bool) {
	if o, ok := t.objects[name]; ok {
		return slices.Sorted(maps.Keys(o)), true
	}
	return t.Registry.FindStructFieldNames(name)
}

// FindStructFieldType implements CEL's type provider. At run time an object is
// a map[string]any. A missing field is an error, never a zero.
func (t *Types) FindStructFieldType(name, field string) (*types.FieldType, bool) {
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
				return nil, fmt.Errorf("no field %s: guard it with has() if it may be missing", field)
			}
			return v, nil
		},
	}, true
}
