package webhook

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A page of another site cannot send a browser on to the issuer, which may know the person
// and sign them in without a click.
func TestOtherSitesBeginNoSignIn(t *testing.T) {
	s, _, _ := withBrowserSignIn(t, newHouse(), "", nil)
	for site, to := range map[string]string{
		"cross-site": "./../signin?next=%2Fruns%2Fr-1%3Fa%3Db", "same-site": "./../signin?next=%2Fruns%2Fr-1%3Fa%3Db",
		"same-origin": "https://", "none": "https://", "": "https://",
	} {
		w := send(s, http.MethodGet, pathToIssuer+"?next="+url.QueryEscape("/runs/r-1?a=b"), nil, nil, "Sec-Fetch-Site", site)
		if w.Code != 303 || !strings.HasPrefix(w.Header().Get("Location"), to) || (w.Header().Get("Set-Cookie") == "") == (to == "https://") {
			t.Errorf("%q: %d to %s", site, w.Code, w.Header().Get("Location"))
		}
	}
}

// After somebody signed out, the issuer asks who signs in: the next person is not the
// former one without a word. After that it does not.
func TestIssuerAsksWhoAfterASignOut(t *testing.T) {
	for _, path := range []string{pathSignOut, pathSignOutEverywhere} {
		_, i, surfers := withBrowserSignIn(t, newHouse(), "", nil)
		b := surfers()
		for n, want := range []string{"", "select_account", ""} {
			if status, at, _ := b.get(pathToIssuer); status != 200 || at != "/" {
				t.Fatalf("%s: %d at %s", path, status, at)
			}
			if got := i.AskedFor().Get("prompt"); got != want {
				t.Errorf("%s: sign-in %d asks for prompt %q, want %q", path, n, got, want)
			}
			if n == 0 {
				b.stops().post(path, nil)
			}
		}
	}
}
