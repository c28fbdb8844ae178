package slack

import "log/slog"

// Secret is a token or a signing secret. fmt, logs and encoders do not show it.
// Read returns the value.
type Secret struct{ value string }

// NewSecret wraps a value.
func NewSecret(value string) Secret { return Secret{value} }

// Read returns the value, for the header or the signature it is meant for.
func (s Secret) Read() string { return s.value }

// Empty reports whether the secret is empty.
func (s Secret) Empty() bool { return s.value == "" }

// String hides the value.
func (s Secret) String() string {
	if s.value == "" {
		return ""
	}
	return "(redacted)"
}

// GoString hides the value from %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue hides the value from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the value from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
