package client

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A server that sends on does not get a secret onto a way where it can be read.
func TestRedirectKeepsSecret(t *testing.T) {
	secret, none := Identity{kind: "token", Authorization: "Bearer x"}, Identity{}
	allowed := secret
	allowed.plaintext = true
	for _, c := range []struct {
		who    Identity
		to     string
		refuse bool
	}{
		{secret, "http://responder.example/api", true},
		{secret, "https://responder.example/api", false},
		{secret, "http://127.0.0.1:8080/api", false},
		{allowed, "http://responder.example/api", false},
		{none, "http://responder.example/api", false},
	} {
		err := c.who.checkRedirect(httptest.NewRequest(http.MethodGet, c.to, nil), nil)
		if refused := err != nil; refused != c.refuse {
			t.Errorf("%s: %v", c.to, err)
		}
		if err != nil && !strings.Contains(err.Error(), "responder.example, where the token could be read") {
			t.Error(err)
		}
	}
	if err := secret.checkRedirect(httptest.NewRequest(http.MethodGet, "https://responder.example/", nil), make([]*http.Request, 10)); err == nil {
		t.Error("sent on without end")
	}
}
