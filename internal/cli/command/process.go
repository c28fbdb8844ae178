package command

import (
	"io"
	"time"
)

// Process is what a command may use of the process it runs in.
type Process struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Temp           *Temporary
	Zone           *time.Location // of the person; nil: UTC
}

// CodedError ends the program with a code other than 1. Without a cause it
// ends silently, because the command has already printed its answer.
type CodedError struct {
	Code int
	err  error
}

// Error is the cause's message, or nothing.
func (e *CodedError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

// Unwrap returns the cause.
func (e *CodedError) Unwrap() error { return e.err }

// ExitCode is an error that only carries a code.
func ExitCode(code int) error {
	if code == ExitOK {
		return nil
	}
	return &CodedError{Code: code}
}

// The exit codes. Every command uses 0 and 1; dry-run uses the others too.
const (
	ExitOK       = 0
	ExitError    = 1 // could not do what was asked; stderr says why
	ExitWouldAct = 2 // dry-run: a lever would be applied, or proposed for approval
	ExitRefused  = 3 // dry-run: a guard or the lever itself refused
	ExitNoMatch  = 4 // dry-run: no playbook matched, or no service was found
	ExitUnsigned = 2 // audit verify: consistent, but not signed where it must be
)
