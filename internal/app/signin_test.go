package app

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
)

// Somebody who signs in on the page is the person that they are with any other
// credential: one approval of the two that the policy asks for, and no vote again.
func TestSignedInPersonCountsOnce(t *testing.T) {
	s, base, run := startPeople(t)
	at := "/runs/" + run.Start.Run
	_, _, page := browser{t, base, "ada"}.do(http.MethodGet, at, nil)
	seen := hidden(page)
	if _, to, _ := (browser{t, base, "ada"}).do(http.MethodPost, at+"/approve", seen); !strings.HasSuffix(to, "said=approve") {
		t.Fatalf("by the credential: %s", to)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	send := func(path string, form url.Values) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		client := http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header.Get("Location")
	}
	if status, to := send("/signin", url.Values{"name": {"ada"}, "password": {"password of ada"}, "next": {at}}); status != http.StatusSeeOther || to != "."+at {
		t.Fatalf("sign-in: %d to %s", status, to)
	}
	if status, to := send(at+"/approve", seen); status != http.StatusSeeOther || !strings.HasSuffix(to, "said=again") {
		t.Errorf("on the page: %d to %s", status, to)
	}
	if now, _ := s.executor.RunState(run.Start.Run); now.Gate == nil || len(now.Gate.Votes) != 1 {
		t.Errorf("votes %+v", now.Gate)
	}
}
