package engine

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	wholeNumber = regexp.MustCompile(`^-?[0-9]+$`)
	anyNumber   = regexp.MustCompile(`^-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$`)
	humanSize   = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)([kKmMgGtT])$`)
)

// maxNumber limits the characters of a number. A longer number exceeds every
// flag and is no longer exact.
const maxNumber = 18

// multipliers are those of human_readable_int in vLLM and SGLang: small letters
// are decimal, capitals binary.
var multipliers = map[string]float64{
	"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12,
	"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40,
}

// value refuses a value that the flag does not take.
func (f Flag) value(p *Program, value string) *Error {
	why := f.wrong(value)
	if why == "" {
		return nil
	}
	message := fmt.Sprintf("--%s of %s cannot be %q: %s", f.Name, p.Title, clip(value), why)
	if f.Source != "" {
		message += " (" + f.Source + ")"
	}
	return &Error{Problem: BadValue, Flag: f.Name, Message: message, Hint: "it takes " + f.Range()}
}

// wrong returns why the flag does not take a value; empty: it does.
func (f Flag) wrong(value string) string {
	switch f.Kind {
	case Bool, Switch:
		if value != "true" && value != "false" {
			return "it is a flag without a value, written true or false here"
		}
		return ""
	case Enum:
		if !slices.Contains(f.Words, value) {
			return "unknown value" + meant(nearest(value, f.Words))
		}
		return ""
	case Text:
		return ""
	}
	if slices.Contains(f.Words, value) {
		return ""
	}
	n, why := f.number(value)
	if why != "" {
		return why
	}
	switch {
	case f.Min != nil && (n < *f.Min || f.Above && n == *f.Min):
		return "too small: must be " + f.bounds()
	case f.Max != nil && (n > *f.Max || f.Below && n == *f.Max):
		return "too large: must be " + f.bounds()
	}
	return ""
}

// number parses the value of a numeric flag.
func (f Flag) number(value string) (n float64, why string) {
	switch {
	case len(value) > maxNumber:
		return 0, "longer than 18 characters"
	case f.Kind == Float && anyNumber.MatchString(value), wholeNumber.MatchString(value):
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, "not a finite number"
		}
		return n, ""
	case f.Kind == Float:
		return 0, "not a number"
	case f.Kind == Size:
		return human(value)
	case anyNumber.MatchString(value):
		return 0, "not a whole number"
	}
	return 0, "not a whole number in plain digits"
}

// human parses 8k, 8K and 25.6k as the engines do. Decimals before a capital
// are errors.
func human(value string) (n float64, why string) {
	m := humanSize.FindStringSubmatch(value)
	if m == nil {
		return 0, "neither a whole number nor one with k, m, g, t (decimal) or K, M, G, T (binary)"
	}
	if strings.Contains(m[1], ".") && strings.ToUpper(m[2]) == m[2] {
		return 0, fmt.Sprintf("decimals are not allowed with %s: write %s%s, or the number itself", m[2], m[1], strings.ToLower(m[2]))
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, "not a finite number"
	}
	return float64(int64(n * multipliers[m[2]])), ""
}
