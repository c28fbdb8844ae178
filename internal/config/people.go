package config

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/setting"
	"github.com/inference-responder/responder/internal/webhook"
)

// defaultStrongAge is how long ago a login may be, where the file says nothing.
const defaultStrongAge = 15 * time.Minute

// OIDC admits bearer tokens of an OpenID Connect issuer.
type OIDC struct {
	Issuer        string   `yaml:"issuer" doc:"Its https URL, exactly as its tokens write it in iss. It is asked for its keys at the start and then while tokens come; the service starts without it."`
	Audience      string   `yaml:"audience" doc:"What tokens must name in aud. Give the service one of its own: tokens made for others with the same audience are accepted."`
	CAFile        string   `yaml:"ca_file" doc:"PEM certificates that vouch for the issuer. Empty: the system's."`
	UsernameClaim string   `yaml:"username_claim" doc:"The claim that names the person. Empty: email, which the issuer must have verified and which is taken in lower case. Use a claim that people cannot change, e.g. sub."`
	GroupsClaim   string   `yaml:"groups_claim" doc:"The claim that lists groups, as approval rules name them after group:. Empty: tokens give no groups."`
	Scopes        []string `yaml:"scopes" enum:"intake,read,decide,admin" doc:"As for tokens, for everybody the issuer makes such tokens for."`
	Strong        *Strong  `yaml:"strong" doc:"Which tokens prove strong authentication, for levers that need it: those with one value of acr or amr, of a login that is recent. Left out: none does."`
}

// Strong selects the tokens that prove strong authentication.
type Strong struct {
	ACR    []string      `yaml:"acr" doc:"Values of the claim acr."`
	AMR    []string      `yaml:"amr" doc:"Values of the claim amr, e.g. mfa or hwk."`
	MaxAge time.Duration `yaml:"max_age" doc:"Time since the login, from the claim auth_time. 0: 15m."`
}

// Person is one person with all credentials.
type Person struct {
	Name   string   `yaml:"name" doc:"The person, in every channel. Decisions are recorded as user:NAME."`
	OIDC   string   `yaml:"oidc" doc:"The value of auth.oidc.username_claim."`
	Slack  string   `yaml:"slack" doc:"The Slack user ID, e.g. U024BE7LH."`
	Email  string   `yaml:"email" doc:"The e-mail address, in any case."`
	Groups []string `yaml:"groups" doc:"Groups of the person in every channel, in addition to those of the credential."`
}

// Handles are what stands for the person, by field.
func (p Person) Handles() [][2]string {
	return [][2]string{{"name", strings.TrimPrefix(p.Name, "user:")}, {"oidc", p.OIDC}, {"email", p.Email}, {"slack", p.Slack}}
}

// check finds what is missing to believe an issuer.
func (o *OIDC) check(bad setting.Report) {
	if o == nil {
		return
	}
	if u, err := url.Parse(o.Issuer); err != nil || u.Scheme != "https" || u.Host == "" {
		bad("auth.oidc.issuer", "write it like https://login.example.com, exactly as tokens have it in iss", "%s is not an https URL", setting.QuotedURL(o.Issuer))
	}
	if o.Audience == "" {
		bad("auth.oidc.audience", "register the service with the issuer and write its name there", "must not be empty, or tokens made for others would let people in here")
	}
	if len(o.Scopes) == 0 {
		bad("auth.oidc.scopes", "add read and decide", "may do nothing")
	}
	if o.Strong == nil {
		return
	}
	if len(o.Strong.ACR)+len(o.Strong.AMR) == 0 {
		bad("auth.oidc.strong", "list values of acr or amr, e.g. amr: [mfa, hwk]", "no token could prove it")
	}
	for _, v := range append(append([]string{}, o.Strong.ACR...), o.Strong.AMR...) {
		if v == "" {
			bad("auth.oidc.strong", "", "a value is empty")
		}
	}
	if o.Strong.MaxAge < 0 {
		bad("auth.oidc.strong.max_age", "", "must not be negative")
	}
}

// checkPeople refuses what would make two humans one or one human two.
func checkPeople(people []Person, bad setting.Report) {
	type place struct{ path, name string }
	seen := map[string]place{}
	for i, p := range people {
		at := fmt.Sprintf("auth.people[%d]", i)
		if p.Name == "" {
			bad(at+".name", "", "must not be empty")
		}
		if strings.ContainsFunc(p.Name, IsSpace) {
			bad(at+".name", "write it as approval rules do, e.g. ada", "%q has spaces", p.Name)
		}
		own := map[string]bool{}
		for _, h := range p.Handles() {
			key := strings.ToLower(h[1])
			if key == "" || own[key] {
				continue
			}
			own[key] = true
			path := at + "." + h[0]
			if other, dup := seen[key]; dup {
				bad(path, "one person, one entry", "%q is also in %s, of %s", h[1], other.path, other.name)
				continue
			}
			seen[key] = place{path, p.Name}
		}
	}
}

// IsSpace reports whether r is white space of a credential file.
func IsSpace(r rune) bool { return strings.ContainsRune(" \t\r\n", r) }

func (o *OIDC) receiver() *webhook.OIDC {
	if o == nil {
		return nil
	}
	g := GrantOf("", o.Scopes, nil)
	w := &webhook.OIDC{
		Issuer: o.Issuer, Audience: o.Audience, CAFile: o.CAFile, UsernameClaim: o.UsernameClaim, GroupsClaim: o.GroupsClaim, Scopes: g.Scopes,
	}
	if s := o.Strong; s != nil {
		w.Strong = &webhook.Strong{ACR: s.ACR, AMR: s.AMR, MaxAge: s.MaxAge}
		if s.MaxAge == 0 {
			w.Strong.MaxAge = defaultStrongAge
		}
	}
	return w
}

func (p Person) receiver() webhook.Person {
	g := GrantOf(p.Name, nil, p.Groups)
	return webhook.Person{Name: g.Name, OIDC: p.OIDC, Email: p.Email, Groups: g.Groups}
}
