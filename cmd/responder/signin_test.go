package main

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// signIn NAME PASSWORD signs somebody in on the page at $ADDR, as a browser does by the form.
func signIn(ts *testscript.TestScript, _ bool, args []string) {
	form := url.Values{"name": {args[0]}, "password": {args[1]}}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, ts.Getenv("RESPONDER_SERVER")+"/signin", strings.NewReader(form.Encode()))
	ts.Check(err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	ts.Check(err)
	ts.Check(resp.Body.Close())
	if resp.StatusCode != http.StatusSeeOther {
		ts.Fatalf("sign in %s: %s", args[0], resp.Status)
	}
}
