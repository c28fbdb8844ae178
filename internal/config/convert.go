package config

import (
	"strings"

	"github.com/inference-responder/responder/internal/executor/guard"
	"github.com/inference-responder/responder/internal/webhook"
)

// ReceiverAuth is who may talk to the service, in the receiver's words. Names may
// be written with the prefixes that approval rules use.
func (c Config) ReceiverAuth() webhook.Auth {
	a := c.Auth
	auth := webhook.Auth{Insecure: a.Insecure, Sessions: webhook.Sessions(a.Sessions), ExternalURL: c.ExternalURL}
	for _, t := range a.Tokens {
		auth.Tokens = append(auth.Tokens, webhook.Token{Grant: GrantOf(t.Name, t.Scopes, t.Groups), File: t.File})
	}
	for _, b := range a.Basic {
		auth.Users = append(auth.Users, webhook.User{Grant: GrantOf(b.Name, b.Scopes, b.Groups), PasswordFile: b.PasswordFile})
	}
	if a.MTLS != nil {
		for _, m := range a.MTLS.Clients {
			auth.Clients = append(auth.Clients, webhook.Client{Grant: GrantOf(m.Name, m.Scopes, m.Groups), Kind: webhook.NameKind(m.Kind), Strong: m.Strong})
		}
	}
	auth.OIDC = a.OIDC.receiver()
	for _, p := range a.People {
		auth.People = append(auth.People, p.receiver())
	}
	return auth
}

// GrantOf returns what a credential may do. Prefixes of names and groups are cut.
func GrantOf(name string, scopes, groups []string) webhook.Grant {
	g := webhook.Grant{Name: strings.TrimPrefix(name, "user:")}
	for _, s := range scopes {
		g.Scopes = append(g.Scopes, webhook.Scope(s))
	}
	for _, group := range groups {
		g.Groups = append(g.Groups, strings.TrimPrefix(group, "group:"))
	}
	return g
}

// ServerTLS is what the service proves itself with.
func (c Config) ServerTLS() webhook.TLS {
	t := webhook.TLS{CertFile: c.TLS.CertFile, KeyFile: c.TLS.KeyFile}
	if c.Auth.MTLS != nil {
		t.ClientCAFile = c.Auth.MTLS.CAFile
	}
	return t
}

// ExecutorOptions is the guards in the executor's words.
func (g Guards) ExecutorOptions() guard.Config {
	return guard.Config{
		Cooldown:    g.Cooldown,
		EvidenceAge: g.EvidenceAge,
		MinReady:    g.MinReady,
		Budget:      guard.Budget(g.Budget),
		Concurrency: guard.Concurrency(g.Concurrency),
		NodesOut:    guard.NodesOut(g.NodesOut),
	}
}

// defaultGuards are the executor's own.
func defaultGuards() Guards {
	g := guard.Defaults()
	return Guards{
		Cooldown:    g.Cooldown,
		EvidenceAge: g.EvidenceAge,
		MinReady:    g.MinReady,
		Budget:      Budget(g.Budget),
		Concurrency: Concurrency(g.Concurrency),
		NodesOut:    NodesOut(g.NodesOut),
	}
}

// Options is the quota in the receiver's words.
func (q Quota) Options() webhook.Quota { return webhook.Quota(q) }
