// Package expression is CEL over declared fields: conditions of playbooks and
// rules of policies are compiled here, against types that their owners declare
// as plain [Field] lists.
//
// [Types] is the table of declared object types and makes the environment;
// [Compile] checks a source and places every complaint at its character, with
// the nearest word that does exist. A field of enumerated words that is compared
// with a word it never has is a complaint too: such a condition silently never
// holds.
//
// What holds: an [Expression] is typed and bounded in size, nesting and, when it
// runs, in cost. What it cannot evaluate is an error, never false or zero; a
// field that a value lacks can be asked for with has() and is an error otherwise.
//
// The package knows neither playbooks nor policies, and it reads no clock.
package expression
