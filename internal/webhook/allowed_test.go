package webhook

import (
	"net/http"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/webhook/oidctest"
)

// Whom the issuer signs in does not come in by that alone where the configuration asks for
// a group or for people of its own: neither with a bearer token nor on the page, which
// says what is missing and what was seen.
func TestOnlyAllowedPeopleComeIn(t *testing.T) {
	ada := []Person{{Name: "ada", OIDC: "ada@example.com", Groups: []string{"owners"}}}
	for name, c := range map[string]struct {
		groups []string
		only   bool
		people []Person
		person map[string]any
		says   string // empty: comes in
	}{
		"anybody":                      {},
		"in a group":                   {groups: []string{"sre", "oncall"}},
		"in a group by the file":       {groups: []string{"owners"}, people: ada},
		"in another group":             {groups: []string{"sre", "owners"}, says: "it needs one of the groups sre, owners, and has oncall, ml platform"},
		"in none":                      {groups: []string{"sre"}, person: map[string]any{"groups": nil}, says: "it needs one of the groups sre, and has none"},
		"in a group that starts alike": {groups: []string{"on"}, says: "it needs one of the groups on"},
		"declared":                     {only: true, people: ada},
		"not declared":                 {only: true, says: "ada@example.com is nobody of the configuration, and only its people may come in"},
		"not declared, in a group":     {only: true, groups: []string{"oncall"}, says: "is nobody of the configuration"},
		"declared, in another group":   {only: true, groups: []string{"sre"}, people: ada, says: "it needs one of the groups sre, and has owners, oncall"},
	} {
		t.Run(name, func(t *testing.T) {
			_, i, surfers := withBrowserSignIn(t, newHouse(), "", func(a *Auth) {
				a.OIDC.AllowedGroups, a.OIDC.PeopleOnly, a.People = c.groups, c.only, c.people
			})
			i.Person(c.person)
			b := surfers()
			status, _, body := b.get(pathToIssuer + "?next=/runs/r-1")
			if (status == http.StatusOK) != (c.says == "") || !strings.Contains(body, c.says) {
				t.Errorf("on the page: %d %s", status, body)
			}
			if c.says != "" && (status != http.StatusForbidden || c.person == nil && !strings.Contains(body, `["oncall" "ml platform"]`)) {
				t.Errorf("the page names no group: %d %s", status, body)
			}
		})
		i := oidctest.New(t)
		s := withIssuer(t, newHouse(), i, func(a *Auth) {
			a.OIDC.AllowedGroups, a.OIDC.PeopleOnly, a.People = c.groups, c.only, c.people
		})
		w := ask(s, http.MethodGet, "/api/v1/runs", i.Token(t, c.person), http.NoBody)
		if want := map[bool]int{true: http.StatusOK, false: http.StatusUnauthorized}[c.says == ""]; w.Code != want || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s, by a token: %d %s", name, w.Code, w.Body)
		}
	}
}
