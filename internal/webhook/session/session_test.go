package session

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

var limits = Limits{Lifetime: 12 * time.Hour, Idle: time.Hour, Rotate: 15 * time.Minute, PerPerson: 3, All: 6}

var start = time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }

func lives(s *Store[string], id string, minute int) bool {
	_, ok := s.Get(id, at(minute), false)
	return ok
}

// A session ends when nobody has used it for a while, and at its end whatever the use.
func TestExpiry(t *testing.T) {
	s := NewStore[string](limits, func(string) {})
	id := s.Open("ada", "ada's", start)
	if v, ok := s.Get(id, at(59), true); !ok || v != "ada's" {
		t.Fatalf("%q, %v", v, ok)
	}
	if _, ok := s.Get(id, at(118), false); !ok {
		t.Error("ended 59 minutes after its last use")
	}
	if lives(s, id, 119) || s.recent.Len() != 0 {
		t.Error("lives an hour after its last use: looking without touch is no use")
	}
	id = s.Open("ada", "", start)
	for m := 30; m < 12*60; m += 30 {
		if _, ok := s.Get(id, at(m), true); !ok {
			t.Fatalf("ended after %d minutes", m)
		}
	}
	if lives(s, id, 12*60) {
		t.Error("lives beyond its lifetime")
	}
}

// A new id takes over when the browser has used it: until then the old one is good,
// because an answer may get lost, and soon after it is not.
func TestRotation(t *testing.T) {
	s := NewStore[string](limits, func(string) {})
	first := s.Open("ada", "", start)
	if _, due := s.Rotate(first, at(14)); due {
		t.Error("rotated after 14 minutes")
	}
	lost, due := s.Rotate(first, at(15))
	if !due || lost == first {
		t.Fatal("not rotated after 15 minutes")
	}
	if _, due := s.Rotate(first, at(15)); due {
		t.Error("requests at the same time get a new id each")
	}
	second, due := s.Rotate(first, at(17))
	if !due || lives(s, lost, 17) || !lives(s, first, 17) {
		t.Fatal("a lost id is not replaced")
	}
	if !lives(s, second, 18) || !lives(s, first, 18) {
		t.Error("a request under way is cut off")
	}
	if !lives(s, second, 19) || lives(s, first, 19) {
		t.Error("the old id is good after the new one was used")
	}
	if _, due := s.Rotate("no such id", at(19)); due {
		t.Error("an id that nobody has is rotated")
	}
	if lives(s, second, 19) {
		t.Error("a copy of an old id came, and the session goes on")
	}
	third := s.Open("ada", "", at(20))
	if !s.Close(third, at(20)) || s.Close(third, at(20)) {
		t.Error("a session does not close once")
	}
	if lives(s, third, 20) || s.recent.Len() != 0 || len(s.byID) != 0 {
		t.Error("a closed session lives")
	}
}

// Sessions are bounded for one person and for all; those unused longest end.
func TestBounds(t *testing.T) {
	s := NewStore[string](limits, func(string) {})
	var ada []string
	for i := range 4 {
		ada = append(ada, s.Open("ada", "", at(i)))
		if i == 1 {
			s.Get(ada[0], at(i), true)
		}
	}
	for i, want := range []bool{true, false, true, true} {
		if got := lives(s, ada[i], 5); got != want {
			t.Errorf("session %d of ada lives: %v", i, got)
		}
	}
	for i := range 20 {
		s.Open("p"+strconv.Itoa(i), "", at(6))
	}
	if s.recent.Len() != limits.All || len(s.byID) != limits.All || lives(s, ada[0], 6) {
		t.Errorf("%d sessions, %d ids", s.recent.Len(), len(s.byID))
	}
}

func TestAttemptIsSealed(t *testing.T) {
	s, err := NewSealer()
	if err != nil {
		t.Fatal(err)
	}
	a := Attempt{State: "s", Nonce: "n", Verifier: "v", Next: "/", Began: start}
	sealed, err := s.Seal(a)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Open(sealed, at(10)); err != nil || got != a {
		t.Errorf("%+v, %v", got, err)
	}
	device, err := s.seal("device", a) // as if an attempt and a device had the same fields
	if err != nil {
		t.Fatal(err)
	}
	purpose, err := s.seal("attempt", Device{Name: "ada", ID: "d", Since: start})
	if err != nil {
		t.Fatal(err)
	}
	if d, ok := s.OpenDevice(purpose, at(1)); ok {
		t.Errorf("an attempt is the device %+v", d)
	}
	other, _ := NewSealer()
	for name, open := range map[string]func() (Attempt, error){
		"too old":        func() (Attempt, error) { return s.Open(sealed, at(11)) },
		"of the future":  func() (Attempt, error) { return s.Open(sealed, at(-1)) },
		"another key":    func() (Attempt, error) { return other.Open(sealed, at(1)) },
		"of a device":    func() (Attempt, error) { return s.Open(device, at(1)) },
		"changed":        func() (Attempt, error) { return s.Open("A"+sealed[1:], at(1)) },
		"cut":            func() (Attempt, error) { return s.Open(sealed[:20], at(1)) },
		"nothing":        func() (Attempt, error) { return s.Open("", at(1)) },
		"not base64":     func() (Attempt, error) { return s.Open("{}", at(1)) },
		"larger than 4K": func() (Attempt, error) { return s.Open(sealed+string(make([]byte, maxSealed)), at(1)) },
	} {
		if got, err := open(); err != ErrAttempt || got != (Attempt{}) { //nolint:errorlint // exactly this one
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// Every path that a sign-in may lead to fits into a cookie.
func TestAttemptFitsACookie(t *testing.T) {
	s, err := NewSealer()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{"&", "<", "x"} {
		a := Attempt{State: strings.Repeat("s", 26), Nonce: strings.Repeat("n", 26), Verifier: strings.Repeat("v", 43), Next: "/?" + strings.Repeat(c, 1022), Began: start}
		sealed, err := s.Seal(a)
		if err != nil || len(sealed) > 4000 {
			t.Fatalf("1024 times %s: %d bytes, %v", c, len(sealed), err)
		}
		if got, err := s.Open(sealed, at(1)); err != nil || got != a {
			t.Errorf("1024 times %s: %v", c, err)
		}
	}
}

// An answered attempt is remembered for as long as it would open, however many there are.
func TestSpentIsNotForgotten(t *testing.T) {
	var s Spent
	if err := s.Spend("first", start); err != nil {
		t.Fatal(err)
	}
	for i := range maxSpent - 1 {
		if err := s.Spend(strconv.Itoa(i), at(1)); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if err := s.Spend("first", at(10)); err != ErrSpent { //nolint:errorlint // exactly this one
		t.Errorf("the first one: %v", err)
	}
	if err := s.Spend("one more", at(10)); err != ErrFull { //nolint:errorlint // exactly this one
		t.Errorf("one too many: %v", err)
	}
	if err := s.Spend("one more", at(12)); err != nil || len(s.known) != 1 || s.order.Len() != 1 {
		t.Errorf("after a while: %v, %d are known", err, len(s.known))
	}
}

// Sessions are listed by use without those that have expired, and end by their person.
func TestAllAndCloseIf(t *testing.T) {
	s := NewStore[string](limits, func(string) {})
	s.Open("eve", "", start)
	s.Open("ada", "one", at(10))
	s.Open("bob", "", at(20))
	ada := s.Open("ada", "two", at(30))
	s.Get(ada, at(40), true)
	all := s.All(at(65))
	if len(all) != 3 || all[0] != (Session[string]{"ada", "two", at(30), at(40)}) || all[1].Person != "bob" || all[2].Value != "one" {
		t.Errorf("%+v", all)
	}
	if n := s.CloseIf(func(p string) bool { return p == "eve" }, at(65)); n != 0 {
		t.Errorf("%d sessions ended that had expired", n)
	}
	if n := s.CloseIf(func(p string) bool { return p == "ada" }, at(65)); n != 2 || len(s.All(at(65))) != 1 {
		t.Errorf("%d ended, %d are left", n, len(s.All(at(65))))
	}
}

// No text that a browser makes up opens, and none panics.
func FuzzOpenAttempt(f *testing.F) {
	s, err := NewSealer()
	if err != nil {
		f.Fatal(err)
	}
	own, err := s.Seal(Attempt{State: "s", Next: "/", Began: start})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("")
	f.Add("AAAA")
	f.Add(own[:len(own)-1])
	f.Fuzz(func(t *testing.T, sealed string) {
		if a, err := s.Open(sealed, at(1)); err == nil && sealed != own {
			t.Errorf("%q opens as %+v", sealed, a)
		}
	})
}
