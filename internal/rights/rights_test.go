package rights

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var (
	chat = Service{Name: "serving/chat", Owners: []string{"group:ml-platform", "user:olga"}}
	code = Service{Name: "serving/code", Owners: []string{"group:code"}}
	all  = Service{}

	ada  = Actor{By: "user:ada", Groups: []string{"ml-platform"}}
	olga = Actor{By: "user:olga"}
	sre  = Actor{By: "user:sam", Groups: []string{"sre"}}
	eve  = Actor{By: "user:eve", Groups: []string{"user:ada", "service.owners", "asked"}}
)

func rules(t *testing.T, grants ...Grant) Rules {
	t.Helper()
	r, err := New(grants...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Each right is given by itself, to people and groups, about the services that are
// named. What is given to nobody, nobody has.
func TestRights(t *testing.T) {
	r := rules(t, append(Default(),
		Grant{To: []string{"group:sre"}, May: []Right{Pause, Unpause, Resolve}, Services: []string{"*"}},
		Grant{To: []string{"user:ada"}, May: []Right{Start}, Services: []string{"serving/ch*", "batch"}},
	)...)
	for _, c := range []struct {
		who   Actor
		right Right
		on    Service
		want  bool
	}{
		{ada, Cancel, chat, true},
		{olga, Cancel, chat, true},
		{ada, Cancel, code, false},
		{ada, Pause, chat, true},
		{ada, Pause, all, false}, // who owns a service does not stop the others
		{ada, Unpause, chat, false},
		{ada, Resolve, chat, false},
		{ada, Promote, chat, false},
		{ada, Release, chat, false},
		{ada, Start, chat, true},
		{ada, Start, code, false},
		{ada, Start, all, false},
		{olga, Start, chat, false},
		{sre, Unpause, all, true},
		{sre, Unpause, code, true},
		{sre, Cancel, code, false},
		{sre, Start, code, false},
		{eve, Approve, chat, true}, // the question itself refuses whom it does not ask
		{eve, Cancel, chat, false},
		{eve, Start, chat, false},
		{Actor{}, Cancel, chat, false},
		{Actor{By: "user:asked"}, Cancel, Service{Name: "x", Owners: []string{Asked, Owners}}, false},
	} {
		err := r.Check(c.who, c.right, c.on)
		if missing := (*MissingError)(nil); (err == nil) != c.want || err != nil && !errors.As(err, &missing) {
			t.Errorf("%s, %s on %s: %v", c.who.By, c.right, c.on, err)
		}
	}
	if err := r.Check(eve, Cancel, chat); err == nil || err.Error() != "user:eve lacks the right cancel on service serving/chat" {
		t.Errorf("the refusal says %v", err)
	}
	if err := (Rules{}).Check(ada, Approve, chat); err == nil {
		t.Error("without any grant somebody may approve")
	}
	if got := r.Who(Unpause, chat); !slices.Equal(got, []string{"group:sre"}) {
		t.Errorf("unpause: %v", got)
	}
	if got := r.Who(Pause, all); !slices.Equal(got, []string{"group:sre"}) {
		t.Errorf("pause of everything: %v", got)
	}
	if got := r.Anywhere(Start); !slices.Equal(got, []string{"user:ada (serving/ch*, batch)"}) {
		t.Errorf("start: %v", got)
	}
}

func TestNewRefusesGrants(t *testing.T) {
	for want, g := range map[string]Grant{
		"lists nobody or no right": {To: []string{"user:ada"}},
		`set "to" and "may"`:       {May: []Right{Start}},
		`"ada" names nobody`:       {To: []string{"ada"}, May: []Right{Start}, Services: []string{"*"}},
		`"group:" names nobody`:    {To: []string{"group:"}, May: []Right{Start}, Services: []string{"*"}},
		"services is missing":      {To: []string{"user:ada"}, May: []Right{Start}},
		"the right approve only":   {To: []string{Asked}, May: []Right{Approve, Cancel}},
		`no right "fly"`:           {To: []string{Owners}, May: []Right{"fly"}},
		`"[" names no service`:     {To: []string{Owners}, May: []Right{Start}, Services: []string{"["}},
	} {
		if _, err := New(g); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", g, err, want)
		}
	}
}

// FuzzGrant: no grant is too odd, and one that names a person and a service gives nothing
// to another person, nor about another service.
func FuzzGrant(f *testing.F) {
	f.Add("user:ada", "serving/*", "user:ada", "serving/chat")
	f.Add("user:ada", "[", "user:ada ", "")
	f.Add("group:", "*", "", "a")
	f.Fuzz(func(t *testing.T, to, services, by, service string) {
		r, err := New(Grant{To: []string{to}, May: []Right{Start}, Services: []string{services}})
		if err != nil || to == Owners || to == Asked {
			return
		}
		if r.Check(Actor{By: by}, Start, Service{Name: service}) != nil {
			return
		}
		if by != to {
			t.Errorf("%q has the right of %q", by, to)
		}
		if !strings.ContainsAny(services, "*?[\\") && services != service {
			t.Errorf("the right about %q is one about %q", services, service)
		}
	})
}

// A person is told of the rights that name them, as far as they go, and of no right that
// their credential may not be used for.
func TestOf(t *testing.T) {
	rules, err := New(append(Default(),
		Grant{To: []string{"group:sre"}, May: []Right{Pause, Unpause}, Services: []string{"*"}},
		Grant{To: []string{"user:ada", "user:bob"}, May: []Right{Start}, Services: []string{"serving/chat*", "batch/*"}},
		Grant{To: []string{"user:cleo"}, May: []Right{Promote}, Services: []string{"*"}},
		Grant{To: []string{Owners}, May: []Right{Resolve}, Services: []string{"serving/*"}},
		Grant{To: []string{Asked, Owners}, May: []Right{Approve}, Services: []string{"batch"}},
		Grant{To: []string{"user:ada"}, May: []Right{Approve, Release}, Services: []string{"*"}},
	)...)
	if err != nil {
		t.Fatal(err)
	}
	ada := Actor{By: "user:ada", Groups: []string{"sre"}, Person: true}
	want := []string{
		"approve: what you are asked", "cancel, pause: services that you own", "pause: all services", "start: services serving/chat*, batch/*",
		"resolve: those of the services serving/* that you own", "approve: what you are asked, on services batch", "approve: what you are asked, on all services", "release: all services",
	}
	if got := rules.Of(ada, func(r Right) bool { return r != Unpause }); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	ada.Person = false
	if got := rules.Of(ada, func(r Right) bool { return r == Start }); got != nil {
		t.Errorf("whom nobody declares, and who starts nothing: %q", got)
	}
	if got := rules.Of(ada, func(Right) bool { return false }); got != nil {
		t.Errorf("a credential that reads: %q", got)
	}
}

// FuzzMatches: a pattern of plain text and * covers the names that read so, and no pattern
// but * covers what is about all services.
func FuzzMatches(f *testing.F) {
	for _, seed := range [][2]string{{"serving/ch*", "serving/chat"}, {"*", "batch"}, {"**", ""}, {"serving", "serving/chat"}, {"a[", "a["}, {"a[^/]b", "a/b"}, {`a\/b`, "a/b"}, {"a*", "a\x00b"}, {"[a-/]", "/"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		r, err := New(Grant{To: []string{"user:ada"}, May: []Right{Approve}, Services: []string{pattern}})
		if err != nil {
			return
		}
		has := func(s Service) bool { return r.Check(Actor{By: "user:ada"}, Approve, s) == nil }
		if has(Service{}) != (pattern == "*") {
			t.Errorf("%q covers all services: %v", pattern, has(Service{}))
		}
		if strings.ContainsAny(pattern, `?[]\`+"\x00") || !utf8.ValidString(pattern) || !utf8.ValidString(name) || name == "" {
			return
		}
		var parts []string
		for part := range strings.SplitSeq(pattern, "*") {
			parts = append(parts, regexp.QuoteMeta(part))
		}
		want := regexp.MustCompile("(?s)^" + strings.Join(parts, ".*") + "$").MatchString(name)
		if got := has(Service{Name: name}); got != want {
			t.Errorf("%q covers %q: %v, want %v", pattern, name, got, want)
		}
	})
}
