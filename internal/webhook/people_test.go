package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net/http"
	"net/http/httptest"
	"net/url"
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
		if declared := c.want == "ada"; id.Person != declared {
			t.Errorf("%s: declared %v, want %v", c.name, id.Person, declared)
		}
		if want := []string{"oncall", "owners", "ml platform"}; c.want == "ada" && !cmp.Equal(id.Groups, want) {
			t.Errorf("%s: groups %v, want %v", c.name, id.Groups, want)
		}
	}
}

func TestPeopleBehindFilesAndCertificates(t *testing.T) {
	o := options(t, newHouse())
	all := deciding()
	o.Auth.Users = []User{{Grant: Grant{Name: "ada", Scopes: all, Groups: []string{"oncall"}}, PasswordFile: write(t, t.TempDir(), "pw", "correct horse\n")}}
	o.Auth.People = []Person{{Name: "ada", Email: "ada@example.com", Groups: []string{"owners"}}}
	s := mustNew(t, o)
	s.auth.clients = []Client{{Grant: Grant{Name: "Ada@example.com", Scopes: all}, Kind: EmailName, Strong: true}}

	byPassword := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	byPassword.Header.Set("Authorization", basic("ada", "correct horse"))
	byCard := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	byCard.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: "A. L."}, EmailAddresses: []string{"Ada@example.com"}}}}}
	for _, c := range []struct {
		name string
		r    *http.Request
		want Identity
	}{
		{"password", byPassword, Identity{Name: "ada", Groups: []string{"oncall", "owners"}, Person: true, scopes: all}},
		{"certificate", byCard, Identity{Name: "ada", Groups: []string{"owners"}, Strong: true, Person: true, scopes: all}},
	} {
		id, err := s.auth.authenticate(c.r, false)
		if diff := cmp.Diff(c.want, id, cmp.AllowUnexported(Identity{})); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, diff)
		}
	}
}

// A token file is its person's wherever the person lists it, and nobody's where none
// does: then it may be the second credential of somebody.
func TestCredentialsOfPeople(t *testing.T) {
	o := options(t, newHouse())
	o.Auth.People = []Person{{Name: "ada", Credentials: []string{"decide"}, Groups: []string{"owners"}}}
	s := mustNew(t, o)
	for token, want := range map[string]Identity{
		decideToken: {Name: "ada", Groups: []string{"g-decide", "owners"}, Person: true},
		adminToken:  {Name: "admin", Groups: []string{"g-admin"}},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+token)
		id, err := s.auth.authenticate(r, false)
		if id.scopes = nil; err != nil || !cmp.Equal(id, want, cmp.AllowUnexported(Identity{})) {
			t.Errorf("%+v, %v; want %+v", id, err, want)
		}
	}
}

// A certificate is the client whose name it has in the place that the client names.
// One that a service got for itself is no person, whatever else it lists.
func TestNamesOfCertificates(t *testing.T) {
	s := mustNew(t, options(t, newHouse()))
	s.auth.clients = []Client{
		{Grant: Grant{Name: "ada", Scopes: deciding()}, Strong: true},
		{Grant: Grant{Name: "am.example", Scopes: []Scope{ScopeIntake}}, Kind: DNSName},
		{Grant: Grant{Name: "spiffe://x/bob", Scopes: deciding()}, Kind: URIName},
	}
	bob, err := url.Parse("spiffe://x/bob")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cert x509.Certificate
		want string // empty: refused
	}{
		"hers":                       {x509.Certificate{Subject: pkix.Name{CommonName: "ada"}}, "ada"},
		"a service's, of her name":   {x509.Certificate{Subject: pkix.Name{CommonName: "some-service"}, DNSNames: []string{"ada"}}, ""},
		"a service's, of her e-mail": {x509.Certificate{EmailAddresses: []string{"ada"}}, ""},
		"Alertmanager's":             {x509.Certificate{DNSNames: []string{"x", "am.example"}}, "am.example"},
		"of Alertmanager's name":     {x509.Certificate{Subject: pkix.Name{CommonName: "am.example"}}, ""},
		"of a workload":              {x509.Certificate{URIs: []*url.URL{bob}}, "spiffe://x/bob"},
		"of two common names": {x509.Certificate{Subject: pkix.Name{CommonName: "ada", Names: []pkix.AttributeTypeAndValue{
			{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "some-service"}, {Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "ada"},
		}}}, ""},
		"of two clients": {x509.Certificate{Subject: pkix.Name{CommonName: "ada"}, DNSNames: []string{"am.example"}}, ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{&c.cert}}}
		id, err := s.auth.authenticate(r, false)
		if id.Name != c.want || (err == nil) != (c.want != "") || id.Strong != (c.want == "ada") {
			t.Errorf("%s: %q, strong %v, %v", name, id.Name, id.Strong, err)
		}
		if p := unauthorized(err); name == "of two common names" && (p.status != http.StatusUnauthorized || !strings.Contains(p.Message, "several common names")) {
			t.Errorf("the answer is %+v", p)
		}
	}
}

func TestNewRefusesTwoPeopleWithOneHandle(t *testing.T) {
	for name, list := range map[string][]Person{
		"one name":             {{Name: "ada"}, {Name: "Ada"}},
		"one claim":            {{Name: "ada", OIDC: "x"}, {Name: "grace", OIDC: "x"}},
		"one address":          {{Name: "ada", Email: "a@b"}, {Name: "grace", Email: "A@b"}},
		"a name as an address": {{Name: "a@b"}, {Name: "grace", Email: "a@b"}},
		"one credential":       {{Name: "ada", Credentials: []string{"x"}}, {Name: "grace", Credentials: []string{"X"}}},
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
		o.Auth.Users = append(o.Auth.Users, User{Grant: Grant{Name: name, Scopes: deciding()}, PasswordFile: write(t, t.TempDir(), "pw", "correct horse of "+name+"\n")})
	}
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), `credentials "grace" and "Grace" differ in case only`) {
		t.Errorf("taken for two people: %v", err)
	}
	o.Auth.People = []Person{{Name: "grace"}}
	s := mustNew(t, o)
	for _, name := range []string{"grace", "Grace"} {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/runs", nil)
		r.SetBasicAuth(name, "correct horse of "+name)
		if id, err := s.auth.authenticate(r, false); err != nil || id.Name != "grace" {
			t.Errorf("%s is %q, %v", name, id.Name, err)
		}
	}
}
