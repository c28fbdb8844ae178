package gitops

import "errors"

// ErrProtected is in an error of a push that was refused because the branch
// is protected: it takes a pull request, or another identity.
var ErrProtected = errors.New("the branch is protected")

// ErrUnset is in an error about a variable that is certainly not set, where the
// place to add it is not known.
var ErrUnset = errors.New("the variable is not set")

// isUnset marks an error with [ErrUnset]; the places of an ambiguous one stay.
func isUnset(err error) error {
	if several := new(ambiguousError); errors.As(err, &several) {
		return &ambiguousError{several.places, unset{several.err}}
	}
	return unset{err}
}

// unset marks an error with [ErrUnset] and leaves its text as it is.
type unset struct{ error }

// Is reports whether target is ErrUnset.
func (u unset) Is(target error) bool { return target == ErrUnset }

// Unwrap returns the [*fault.Error].
func (u unset) Unwrap() error { return u.error }
