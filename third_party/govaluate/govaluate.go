// Package govaluate evaluates nothing.
package govaluate

import "errors"

var errStandIn = errors.New("this build of govaluate evaluates no expressions")

// ExpressionFunction is a function that expressions may call.
type ExpressionFunction func(arguments ...any) (any, error)

// Parameters gives an expression's parameters.
type Parameters interface {
	Get(name string) (any, error)
}

// EvaluableExpression is an expression that cannot be evaluated.
type EvaluableExpression struct{}

// NewEvaluableExpressionWithFunctions fails.
func NewEvaluableExpressionWithFunctions(string, map[string]ExpressionFunction) (*EvaluableExpression, error) {
	return nil, errStandIn
}

// Eval fails.
func (EvaluableExpression) Eval(Parameters) (any, error) { return nil, errStandIn }

// Evaluate fails.
func (EvaluableExpression) Evaluate(map[string]any) (any, error) { return nil, errStandIn }
