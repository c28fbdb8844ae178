package main

import (
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
	"github.com/inference-responder/responder/internal/webhook/oidctest"
)

// startSlackForScript starts a Slack at $SLACK, and writes its secrets: bot, app
// and signing.
func startSlackForScript(t *testing.T, ts *testscript.TestScript) {
	server := slacktest.Start(t, slacktest.Options{})
	server.AddChannel(slacktest.Conversation{ID: "C0ONCALL01", Name: "oncall", Member: true})
	server.AddUser(slacktest.User{ID: "U0ADA00001", Email: "ada@example.com"})
	server.AddUser(slacktest.User{ID: "U0GRACE001", Email: "Grace@example.com"})
	server.AddUser(slacktest.User{ID: "U0GUEST001", Email: "guest@example.com", Restricted: true})
	server.AddUser(slacktest.User{ID: "U0EVE00001", Email: "eve@example.com"})
	server.AddGroup(slacktest.Group{ID: "S0ONCALL01", Handle: "ml-oncall", Members: []string{"U0GRACE001", "U0GUEST001"}})
	ts.Setenv("SLACK", server.APIURL())
	for name, secret := range map[string]string{"bot": slacktest.Token, "app": slacktest.AppToken, "signing": slacktest.SigningSecret} {
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(secret+"\n"), 0o600))
	}
}

// startIssuer starts an OpenID Connect issuer at $ISSUER, for which $ISSUER_CA
// vouches, and writes tokens of its ada: good, stale (it expired) and grace
// (not ada's, and nobody the configuration knows).
func startIssuer(t *testing.T, ts *testscript.TestScript) {
	i := oidctest.New(t)
	ts.Setenv("ISSUER", i.URL)
	ts.Setenv("ISSUER_CA", i.CAFile)
	for name, change := range map[string]map[string]any{
		"good":  nil,
		"stale": {"exp": time.Now().Add(-time.Hour).Unix()},
		"grace": {"email": "grace@example.com", "sub": "00u2"},
	} {
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(i.Token(t, change)+"\n"), 0o600))
	}
}
