package gpu

import (
	"reflect"
	"strconv"
	"strings"
	"time"
)

// A snapshot as Encode writes it is decoded by hand: compact, fields in their
// order, each at most once, texts without escapes. Everything else is left to
// encoding/json, which also words the errors. Tests compare the two.
//
// Without this decoder a round over 1,000 agents misses its two seconds on two
// cores: it takes 5.1 to 6.0 s of processor time with encoding/json and 2.5 to
// 3.8 s with it (BenchmarkThousandAgents, the same hour).

// decodeByHand decodes what Encode writes. It reports false when the input is
// written in another way.
func decodeByHand(data []byte) (Snapshot, bool) {
	s, out := scanner{data: data}, Snapshot{}
	ok := s.value(&out) && s.pos == len(data)
	return out, ok
}

// A scanner reads JSON. Its methods report whether they could. Once one could
// not, the rest must not be read by hand.
type scanner struct {
	data []byte
	pos  int
}

// value reads the value that to points to. It is longer than others because
// every kind of value has a case of its own. The number behind a list is its
// usual length.
func (s *scanner) value(to any) bool {
	switch to := to.(type) {
	case *string:
		return scanText(s, to)
	case *Heat:
		return scanText(s, to)
	case *bool:
		return scanBool(s, to)
	case *int:
		return scanSigned(s, to)
	case *int64:
		return scanSigned(s, to)
	case *FabricState:
		return scanSigned(s, to)
	case *RecoveryAction:
		return scanSigned(s, to)
	case *uint64:
		return scanUnsigned(s, to)
	case *EventType:
		return scanUnsigned(s, to)
	case *time.Time:
		return scanTime(s, to)
	case *Reasons:
		return scanReasons(s, to)
	case *Absence:
		return scanWhy(s, to)
	case *map[Reasons]int:
		return scanCounts(s, to)
	case *Reading[int64]:
		return scanReading(s, to)
	case *Reading[uint64]:
		return scanReading(s, to)
	case *Reading[bool]:
		return scanReading(s, to)
	case *Reading[Reasons]:
		return scanReading(s, to)
	case *Reading[FabricState]:
		return scanReading(s, to)
	case *Reading[RecoveryAction]:
		return scanReading(s, to)
	case *Reading[[]Pod]:
		return scanReading(s, to)
	case *[]GPU:
		return scanList(s, to, 8)
	case *[]ReadError:
		return scanList(s, to, 1)
	case *[]NVLink:
		return scanList(s, to, 18)
	case *[]MIGInstance:
		return scanList(s, to, 7)
	case *[]Pod:
		return scanList(s, to, 1)
	case *[]Stretch:
		return scanList(s, to, 2)
	case *[]Event:
		return scanList(s, to, 4)
	case *[]Minute:
		return scanList(s, to, 11)
	}
	v := reflect.ValueOf(to).Elem()
	names, ok := fieldNames[v.Type()]
	return ok && s.object(v, names)
}

// object reads an object whose fields are some of names, in this order.
func (s *scanner) object(to reflect.Value, names []string) bool {
	if !s.take('{') {
		return false
	}
	if s.take('}') {
		return true
	}
	for i := 0; ; i++ {
		name, ok := s.bytes()
		if !ok || !s.take(':') {
			return false
		}
		for i < len(names) && names[i] != string(name) {
			i++
		}
		if i == len(names) || !s.value(to.Field(i).Addr().Interface()) {
			return false
		}
		if !s.take(',') {
			return s.take('}')
		}
	}
}

// fieldNames holds the names of the fields of each object in a snapshot, in order.
var fieldNames = func() map[reflect.Type][]string {
	all := map[reflect.Type][]string{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		switch {
		case t.Kind() == reflect.Slice:
			add(t.Elem())
		case reflect.PointerTo(t).Implements(reflect.TypeFor[losable]()):
			add(t.Field(0).Type) // a Reading's value
		case t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]() && all[t] == nil:
			names := make([]string, t.NumField())
			all[t] = names
			for i := range names {
				names[i], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
				add(t.Field(i).Type)
			}
		}
	}
	add(reflect.TypeFor[Snapshot]())
	return all
}()

// take consumes c if it comes next.
func (s *scanner) take(c byte) bool {
	if s.pos < len(s.data) && s.data[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

// word consumes w if it comes next.
func (s *scanner) word(w string) bool {
	if len(s.data)-s.pos >= len(w) && string(s.data[s.pos:s.pos+len(w)]) == w {
		s.pos += len(w)
		return true
	}
	return false
}

// bytes reads a text of printable ASCII without escapes.
func (s *scanner) bytes() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	for from := s.pos; s.pos < len(s.data); s.pos++ {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return s.data[from : s.pos-1], true
		case c < ' ' || c > '~' || c == '\\':
			return nil, false
		}
	}
	return nil, false
}

// number reads a whole number as JSON writes it.
func (s *scanner) number() ([]byte, bool) {
	from := s.pos
	s.take('-')
	digits := s.pos
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
	}
	if s.pos == digits || s.data[digits] == '0' && s.pos-from > 1 { // -0 is left to encoding/json, too
		return nil, false
	}
	return s.data[from:s.pos], true
}

func scanText[T ~string](s *scanner, to *T) bool {
	b, ok := s.bytes()
	if ok {
		*to = T(b)
	}
	return ok
}

// fits is the number of digits that always fit into 63 bits.
const fits = 18

func scanSigned[T ~int | ~int64](s *scanner, to *T) bool {
	b, ok := s.number()
	if !ok {
		return false
	}
	if b[0] != '-' && len(b) <= fits {
		*to = T(small(b))
		return true
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	*to = T(n)
	return err == nil
}

func scanUnsigned[T ~uint64](s *scanner, to *T) bool {
	b, ok := s.number()
	if !ok {
		return false
	}
	if b[0] != '-' && len(b) <= fits {
		*to = T(small(b))
		return true
	}
	n, err := strconv.ParseUint(string(b), 10, 64)
	*to = T(n)
	return err == nil
}

// small returns the value of at most 18 digits.
func small(digits []byte) int64 {
	n := int64(0)
	for _, c := range digits {
		n = n*10 + int64(c-'0')
	}
	return n
}

func scanBool(s *scanner, to *bool) bool {
	*to = s.word("true")
	return *to || s.word("false")
}

func scanTime(s *scanner, to *time.Time) bool {
	from := s.pos
	_, ok := s.bytes()
	return ok && to.UnmarshalJSON(s.data[from:s.pos]) == nil
}

// scanReasons reads clocks event reasons.
func scanReasons(s *scanner, to *Reasons) bool {
	b, ok := s.bytes()
	if !ok || len(b) < 3 || len(b) > 18 || b[0] != '0' || b[1] != 'x' {
		return false
	}
	v := Reasons(0)
	for _, c := range b[2:] {
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | Reasons(c-'0')
		case c >= 'a' && c <= 'f':
			v = v<<4 | Reasons(c-'a'+10)
		default:
			return false
		}
	}
	*to = v
	return true
}

// scanWhy reads a reason that is known here.
func scanWhy(s *scanner, to *Absence) bool {
	b, ok := s.bytes()
	if !ok {
		return false
	}
	*to, ok = sameAbsence[string(b)]
	return ok
}

// sameAbsence holds the known reasons, so that reading one allocates nothing.
var sameAbsence = func() map[string]Absence {
	m := map[string]Absence{}
	for a := range absences {
		m[string(a)] = a
	}
	return m
}()

// scanCounts reads how many samples showed each reason.
func scanCounts(s *scanner, to *map[Reasons]int) bool {
	if !s.take('{') {
		return false
	}
	*to = map[Reasons]int{}
	if s.take('}') {
		return true
	}
	for {
		bit, n := Reasons(0), 0
		if !scanReasons(s, &bit) || !s.take(':') || !scanSigned(s, &n) {
			return false
		}
		if _, twice := (*to)[bit]; twice {
			return false
		}
		(*to)[bit] = n
		if !s.take(',') {
			return s.take('}')
		}
	}
}

// scanReading reads a value, or the reason why there is none.
func scanReading[T any](s *scanner, to *Reading[T]) bool {
	if s.word(`{"unknown":`) {
		*to = Reading[T]{}
		return scanWhy(s, &to.why) && s.take('}')
	}
	to.why, to.known = "", s.value(&to.value)
	return to.known
}

// scanList reads a list. Most lists have as many elements as usual.
func scanList[T any](s *scanner, to *[]T, usual int) bool {
	if !s.take('[') {
		return false
	}
	if s.take(']') {
		*to = []T{}
		return true
	}
	all := make([]T, 0, usual)
	for {
		all = append(all, *new(T))
		if !s.value(&all[len(all)-1]) {
			return false
		}
		if !s.take(',') {
			*to = all
			return s.take(']')
		}
	}
}
