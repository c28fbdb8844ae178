package policy

import (
	"fmt"
	"reflect"
	"time"
	_ "time/tzdata" // an image without zone files must not turn a loaded policy into denials

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// clock is the variable time: a CEL object that functions can distinguish from
// other objects. It is for one evaluation in one goroutine.
type clock struct {
	now    time.Time
	fields map[string]any
	local  map[string]ref.Val // by zone, on demand
}

func clockAt(now time.Time) *clock {
	return &clock{now: now, fields: map[string]any{"now": now.UTC()}, local: map[string]ref.Val{}}
}

// ConvertToNative implements ref.Val; no conversion is supported.
func (c *clock) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("cannot convert time to %s", t)
}

// ConvertToType implements ref.Val; no conversion is supported.
func (c *clock) ConvertToType(t ref.Type) ref.Val {
	return types.NewErr("cannot convert time to %s", t.TypeName())
}

// Equal implements ref.Val.
func (c *clock) Equal(other ref.Val) ref.Val {
	o, ok := other.(*clock)
	return types.Bool(ok && o.now.Equal(c.now))
}

// Type implements ref.Val.
func (c *clock) Type() ref.Type { return cel.ObjectType("time.type") }

// Value implements ref.Val. It returns the fields.
func (c *clock) Value() any { return c.fields }

// zoneNames reports names of unknown time zones when a policy is loaded, not at
// the next incident.
type zoneNames struct{}

// Name implements CEL's validator of expressions.
func (zoneNames) Name() string { return "policy.zone" }

// Validate implements CEL's validator of expressions.
func (zoneNames) Validate(_ *cel.Env, _ cel.ValidatorConfig, tree *ast.AST, issues *cel.Issues) {
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		call := e.AsCall()
		var name ast.Expr
		switch call.FunctionName() {
		case "zone", "getHours", "getMinutes", "getSeconds", "getMilliseconds", "getDayOfWeek", "getDayOfMonth", "getDayOfYear", "getDate", "getMonth", "getFullYear":
			if len(call.Args()) == 1 {
				name = call.Args()[0]
			}
		}
		if name == nil || name.Kind() != ast.LiteralKind {
			return
		}
		if text, ok := name.AsLiteral().(types.String); ok {
			if _, err := loadZone(string(text)); err != nil {
				issues.ReportErrorAtID(name.ID(), "%s", err.Error())
			}
		}
	}))
}
