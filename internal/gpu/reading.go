package gpu

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
)

// Absence is why a value is unknown.
type Absence string

// The reasons why a value is unknown.
const (
	NotRead      Absence = "not_read"      // nobody tried; what the zero Reading says
	NotSupported Absence = "not_supported" // the GPU has no such value, or is in a mode without it
	OldDriver    Absence = "old_driver"    // the driver library lacks the call
	Lost         Absence = "lost"          // the GPU has fallen off the bus
	NeedsReset   Absence = "needs_reset"   // the GPU answers nothing until it is reset
	Timeout      Absence = "timeout"       // the call did not return in time
	Denied       Absence = "denied"        // no permission
	Failed       Absence = "failed"        // any other error of the driver
	Implausible  Absence = "implausible"   // a value was read that cannot be true
	NotExported  Absence = "not_exported"  // the exporter that was asked does not give it
	Stale        Absence = "stale"         // the last value is too old
)

var absences = map[Absence]string{
	NotRead:      "was not read",
	NotSupported: "is not supported by this GPU",
	OldDriver:    "is not known to this driver",
	Lost:         "cannot be read: the GPU is lost",
	NeedsReset:   "cannot be read: the GPU needs a reset before it can be used again",
	Timeout:      "was not answered in time",
	Denied:       "may not be read",
	Failed:       "could not be read",
	Implausible:  "is implausible",
	NotExported:  "is not exported",
	Stale:        "is too old",
}

// Absences lists all reasons.
func Absences() []Absence { return slices.Sorted(maps.Keys(absences)) }

// Text returns the reason as a predicate, such as "was not read".
func (a Absence) Text() string { return absences[a] }

// Reading is a value, or the reason why there is none. The zero Reading is
// unknown, so that a missing value is never mistaken for a zero.
type Reading[T any] struct {
	value T
	known bool
	why   Absence
}

// Known returns a value that was read.
func Known[T any](v T) Reading[T] { return Reading[T]{value: v, known: true} }

// Unknown returns a value that was not read.
func Unknown[T any](why Absence) Reading[T] { return Reading[T]{why: why} }

// Get returns the value, and whether it is known.
func (r Reading[T]) Get() (T, bool) { return r.value, r.known }

// MarkAbsent sets the reason of a reading that nobody filled in.
func (r *Reading[T]) MarkAbsent(why Absence) {
	if r.IsZero() {
		r.why = why
	}
}

// Why returns why there is no value; empty when there is one.
func (r Reading[T]) Why() Absence {
	switch {
	case r.known:
		return ""
	case r.why == "":
		return NotRead
	default:
		return r.why
	}
}

// String returns the value, or in brackets why there is none.
func (r Reading[T]) String() string {
	if r.known {
		return fmt.Sprint(r.value)
	}
	return "[" + string(r.Why()) + "]"
}

// IsZero reports whether nobody tried to read the value; encoding/json omits it then.
func (r Reading[T]) IsZero() bool { return r.Why() == NotRead }

// Equal compares values and reasons, for tests.
func (r Reading[T]) Equal(o Reading[T]) bool {
	return r.known == o.known && r.Why() == o.Why() && reflect.DeepEqual(r.value, o.value)
}

// unknownJSON is how a value that was tried and not read is written.
type unknownJSON struct {
	Unknown Absence `json:"unknown"`
}

// MarshalJSON writes the value itself, or {"unknown": why}.
func (r Reading[T]) MarshalJSON() ([]byte, error) {
	if !r.known {
		return json.Marshal(unknownJSON{r.Why()})
	}
	b, err := json.Marshal(r.value)
	if bytes.Equal(b, []byte("null")) {
		return []byte("[]"), err // a list that was read and is empty
	}
	return b, err
}

// UnmarshalJSON reads what MarshalJSON wrote. Null is refused: it is neither a
// value nor a reason.
func (r *Reading[T]) UnmarshalJSON(data []byte) error {
	*r = Reading[T]{}
	if bytes.Equal(data, []byte("null")) {
		return errors.New("null is neither a value nor a reason; leave the field out, or write {\"unknown\": \"not_read\"}")
	}
	if bytes.HasPrefix(data, []byte("{")) {
		if why, ok := plainReason(data); ok {
			r.why = why
			return nil
		}
		var u unknownJSON
		if err := strict(data, &u); err != nil {
			return err
		}
		if _, ok := absences[u.Unknown]; !ok {
			return fmt.Errorf("unknown: %q is not a known reason", clip(string(u.Unknown)))
		}
		r.why = u.Unknown
		return nil
	}
	if err := r.read(data); err != nil {
		return err
	}
	r.known = true
	return nil
}

// plainReason is the reason in what MarshalJSON writes for it, byte for byte.
func plainReason(data []byte) (Absence, bool) {
	why, ok := bytes.CutPrefix(data, []byte(`{"unknown":"`))
	if !ok {
		return "", false
	}
	why, ok = bytes.CutSuffix(why, []byte(`"}`))
	if _, known := absences[Absence(why)]; !ok || !known {
		return "", false
	}
	return Absence(why), true
}

// read parses a value. A snapshot has thousands of readings, nearly all of them
// numbers, for which a decoder each would dominate the cost. Everything else goes
// through the decoder, which also words the errors.
func (r *Reading[T]) read(data []byte) (err error) {
	switch v := any(&r.value).(type) {
	case *int64:
		*v, err = strconv.ParseInt(string(data), 10, 64)
	case *uint64:
		*v, err = strconv.ParseUint(string(data), 10, 64)
	case *bool:
		*v = string(data) == "true"
		if !*v && string(data) != "false" {
			return strict(data, &r.value)
		}
	default:
		return strict(data, &r.value)
	}
	if err != nil {
		return strict(data, &r.value)
	}
	return nil
}

// clip shortens text from outside for a message.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
