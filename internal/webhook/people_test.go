package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/webhook/oidctest"
)

// TestOnePersonIsOneIdentity: two of three approvals must not be one human's
// through two doors.
func TestOnePersonIsOneIdentity(t *testing.T) {
	i := oidctest.New(t)
	for _, c := range []struct {
		name   string
		person Person
		claim  string
		token  map[string]any
		want   string // empty: refused
	}{
		{"by the claim", Person{Name: "ada", OIDC: "ada@example.com"}, "email", nil, "ada"},
		{"by the claim in another case", Person{Name: "ada", OIDC: "Ada@Example.com"}, "email", map[string]any{"email": "ADA@example.com"}, "ada"},
		{"by the e-mail address", Person{Name: "ada", Email: "Ada@example.com"}, "email", nil, "ada"},
		{"by another claim", Person{Name: "ada", OIDC: "00u1", Email: "ada@example.com"}, "sub", nil, "ada"},
		{"not mapped", Person{Name: "grace", OIDC: "grace@example.com"}, "email", nil, "ada@example.com"},
		{"not mapped, another case", Person{Name: "grace"}, "email", map[string]any{"email": "Ada@Example.COM"}, "ada@example.com"},
		{"her address, not her subject", Person{Name: "ada", OIDC: "00u2", Email: "ada@example.com"}, "sub", nil, ""},
		{"her address, no subject", Person{Name: "ada", Email: "ada@example.com"}, "sub", nil, ""},
		{"calls itself by her name", Person{Name: "ada", OIDC: "00u1"}, "nick", map[string]any{"nick": "ADA"}, ""},
		{"calls itself by her address", Person{Name: "ada", Email: "ada@example.com"}, "nick", map[string]any{"nick": "ada@example.com", "email": nil}, ""},
		{"calls itself by a certificate's name", Person{Name: "ada"}, "nick", map[string]any{"nick": "grace"}, ""},
	} {
		s := withIssuer(t, newHouse(), i, func(a *Auth) {
			c.person.Groups = []string{"oncall", "owners"}
			a.OIDC.UsernameClaim, a.People = c.claim, []Person{c.person}
		})
		s.auth.people.taken["grace"] = true
		id, err := who(t, s, i.Token(t, c.token))
		if id.Name != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v; want %q", c.name, id.Name, err, c.want)
		}
		if want := []string{"oncall", "owners", "ml platform"}; c.want == "ada" && !cmp.Equal(id.Groups, want) {
			t.Errorf("%s: groups %v, want %v", c.name, id.Groups, want)
		}
	}
}

func TestPeopleBehindFilesAndCertificates(t *testing.T) {
	o := options(t, newHouse())
	all := []Scope{ScopeDecide}
	o.Auth.Users = []User{{Grant: Grant{Name: "ada", Scopes: all, Groups: []string{"oncall"}}, PasswordFile: write(t, t.TempDir(), "pw", "correct horse\n")}}
	o.Auth.People = []Person{{Name: "ada", Email: "ada@example.com", Groups: []string{"owners"}}}
	s := mustNew(t, o)
	s.auth.clients = []Client{{Grant: Grant{Name: "Ada@example.com", Scopes: all}, Strong: true}}

	byPassword := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	byPassword.Header.Set("Authorization", basic("ada", "correct horse"))
	byCard := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	byCard.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: "A. L."}, EmailAddresses: []string{"Ada@example.com"}}}}}
	for _, c := range []struct {
		name string
		r    *http.Request
		want Identity
	}{
		{"password", byPassword, Identity{Name: "ada", Groups: []string{"oncall", "owners"}, scopes: all}},
		{"certificate", byCard, Identity{Name: "ada", Groups: []string{"owners"}, Strong: true, scopes: all}},
	} {
		id, err := s.auth.authenticate(c.r)
		if diff := cmp.Diff(c.want, id, cmp.AllowUnexported(Identity{})); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, diff)
		}
	}
}

func TestNewRefusesTwoPeopleWithOneHandle(t *testing.T) {
	for name, list := range map[string][]Person{
		"one name":             {{Name: "ada"}, {Name: "Ada"}},
		"one claim":            {{Name: "ada", OIDC: "x"}, {Name: "grace", OIDC: "x"}},
		"one address":          {{Name: "ada", Email: "a@b"}, {Name: "grace", Email: "A@b"}},
		"a name as an address": {{Name: "a@b"}, {Name: "grace", Email: "a@b"}},
		"no name":              {{Email: "a@b"}},
		"a prefix":             {{Name: "user:ada"}},
	} {
		o := options(t, newHouse())
		o.Auth.People = list
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), "stands for") && !strings.Contains(err.Error(), "the name is") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Two credentials whose names differ in case only would be two of three people.
func TestNamesThatDifferInCase(t *testing.T) {
	o := options(t, newHouse())
	for _, name := range []string{"grace", "Grace"} {
		o.Auth.Users = append(o.Auth.Users, User{Grant: Grant{Name: name, Scopes: []Scope{ScopeDecide}}, PasswordFile: write(t, t.TempDir(), "pw", "correct horse of "+name+"\n")})
	}
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), `credentials "grace" and "Grace" differ in case only`) {
		t.Errorf("taken for two people: %v", err)
	}
	o.Auth.People = []Person{{Name: "grace"}}
	s := mustNew(t, o)
	for _, name := range []string{"grace", "Grace"} {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/runs", nil)
		r.SetBasicAuth(name, "correct horse of "+name)
		if id, err := s.auth.authenticate(r); err != nil || id.Name != "grace" {
			t.Errorf("%s is %q, %v", name, id.Name, err)
		}
	}
}
