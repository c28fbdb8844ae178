// Package expression compiles and evaluates CEL over declared fields.
// Conditions of playbooks and rules of policies use it. Their owners declare
// the types as plain [Field] lists.
//
// [Types] is the table of declared object types and makes the environment.
// [Compile] checks a source and places every error at its character, with the
// nearest known word. Comparing an enumerated field with a word it never has is
// also an error, because such a condition silently never holds.
//
// An [Expression] is typed. Its size, nesting and run-time cost are bounded.
// What it cannot evaluate is an error, never false or zero. has() tests for a
// field that a value may lack; reading such a field is an error.
//
// The package knows neither playbooks nor policies, and reads no clock.
package expression
