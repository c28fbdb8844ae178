package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/rights"
	"github.com/inference-responder/responder/internal/setting"
	"github.com/inference-responder/responder/internal/webhook"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// defaultStrongAge is how long ago a login may be, where the file says nothing.
const defaultStrongAge = 15 * time.Minute

// OIDC admits people of an OpenID Connect issuer, by bearer tokens and on the page.
type OIDC struct {
	Issuer        string   `yaml:"issuer" doc:"Its https URL, exactly as its tokens write it in iss. It is asked for its keys at the start and then while tokens come; the service starts without it."`
	Audience      string   `yaml:"audience" doc:"What bearer tokens must name in aud. Give the service one of its own: tokens made for others with the same audience are accepted. Empty, with sign_in: bearer tokens are refused."`
	CAFile        string   `yaml:"ca_file" doc:"PEM certificates that vouch for the issuer. Empty: the system's."`
	UsernameClaim string   `yaml:"username_claim" doc:"The claim that names the person. Empty: email, which the issuer must have verified and which is taken in lower case. Use a claim that people cannot change, e.g. sub."`
	GroupsClaim   string   `yaml:"groups_claim" doc:"The claim that lists groups, as approval rules name them after group:. Empty: tokens give no groups."`
	Scopes        []string `yaml:"scopes" enum:"intake,metrics,read,admin,approve,cancel,pause,unpause,resolve,release,promote,start" doc:"As for tokens, for everybody the issuer makes such tokens for."`
	Strong        *Strong  `yaml:"strong" doc:"Which tokens prove strong authentication, for levers that need it: those with one value of acr or amr, of a login that is recent. Left out: none does."`
	AllowedGroups []string `yaml:"allowed_groups" doc:"Only people in one of these groups come in, by bearer tokens and on the page. Empty: whatever groups they have. An issuer that signs in strangers too, such as Google, needs this or people_only."`
	PeopleOnly    bool     `yaml:"people_only" doc:"Only people whom auth.people lists, with oidc or email, come in."`
	SignIn        *SignIn  `yaml:"sign_in" doc:"Sign people in on the page through the issuer, by the authorization code flow with PKCE. Needs external_url; register its address with /signin/callback appended as the redirect URI. Left out: the page offers none."`
}

// SignIn is what the issuer knows the page by.
type SignIn struct {
	ClientID         string   `yaml:"client_id" doc:"The client that is registered with the issuer. ID tokens must be for it."`
	ClientSecretFile string   `yaml:"client_secret_file" doc:"File with the client's secret, read at each sign-in. Empty: a public client, which PKCE alone protects."`
	Scopes           []string `yaml:"scopes" doc:"What is asked of the issuer besides openid. Left out: profile and email. Add what it wants for the claim of the groups, often groups."`
}

// Sessions are the limits of sessions on the page.
type Sessions struct {
	Lifetime time.Duration `yaml:"lifetime" doc:"After which a person signs in again, between 5m and 168h."`
	Idle     time.Duration `yaml:"idle" doc:"How long a session lasts without a request. A page that can still change loads itself anew while it is visible, which keeps the session. At most lifetime."`
}

// Strong selects the tokens that prove strong authentication.
type Strong struct {
	ACR    []string      `yaml:"acr" doc:"Values of the claim acr."`
	AMR    []string      `yaml:"amr" doc:"Values of the claim amr, e.g. mfa or hwk."`
	MaxAge time.Duration `yaml:"max_age" doc:"Time since the login, from the claim auth_time. 0: 15m."`
}

// Person is one person with all credentials.
type Person struct {
	Name        string   `yaml:"name" doc:"The person, in every channel. Decisions are recorded as user:NAME."`
	Credentials []string `yaml:"credentials" doc:"Names of the person's entries of tokens, basic and mtls.clients. An entry named like the person need not be listed."`
	OIDC        string   `yaml:"oidc" doc:"The value of auth.oidc.username_claim."`
	Slack       string   `yaml:"slack" doc:"The Slack user ID, e.g. U024BE7LH."`
	Email       string   `yaml:"email" doc:"The e-mail address, in any case."`
	Groups      []string `yaml:"groups" doc:"Groups of the person in every channel, in addition to those of the credential."`
}

// Handles are what stands for the person, by field.
func (p Person) Handles() [][2]string {
	all := [][2]string{{"name", strings.TrimPrefix(p.Name, "user:")}, {"oidc", p.OIDC}, {"email", p.Email}, {"slack", p.Slack}}
	for i, name := range p.Credentials {
		all = append(all, [2]string{fmt.Sprintf("credentials[%d]", i), strings.TrimPrefix(name, "user:")})
	}
	return all
}

// credential is the place and the name of an entry of tokens, basic or mtls.clients.
type credential struct {
	path, name string
	scopes     []string
}

func (a Auth) credentials() []credential {
	var all []credential
	add := func(list string, i int, name string, scopes []string) {
		all = append(all, credential{fmt.Sprintf("auth.%s[%d]", list, i), strings.TrimPrefix(name, "user:"), scopes})
	}
	for i, t := range a.Tokens {
		add("tokens", i, t.Name, t.Scopes)
	}
	for i, b := range a.Basic {
		add("basic", i, b.Name, b.Scopes)
	}
	if a.MTLS != nil {
		for i, m := range a.MTLS.Clients {
			add("mtls.clients", i, m.Name, m.Scopes)
		}
	}
	return all
}

// Undeclared describes the credentials that may be used to approve or to start runs,
// and of which the file does not say whose they are.
func (c Config) Undeclared() []string {
	a := c.Auth
	const less = "not count where several people approve or a run was started by hand"
	of := map[string]bool{}
	for _, p := range a.People {
		for _, h := range p.Handles() {
			of[strings.ToLower(h[1])] = true
		}
	}
	decides := func(scopes []string) bool {
		return slices.Contains(scopes, string(rights.Approve)) || slices.Contains(scopes, string(rights.Start))
	}
	var all []string
	for _, own := range a.credentials() {
		if decides(own.scopes) && !of[strings.ToLower(own.name)] {
			all = append(all, fmt.Sprintf("%s: %s is nobody's under auth.people: it does %s, and starts no run", own.path, own.name, less))
		}
	}
	if a.OIDC != nil && decides(a.OIDC.Scopes) && !slices.ContainsFunc(a.People, func(p Person) bool { return p.OIDC != "" || p.Email != "" }) {
		all = append(all, "auth.oidc: auth.people lists nobody of the issuer: its tokens do "+less+", and start no run")
	}
	if c.Slack != nil && !slices.ContainsFunc(a.People, func(p Person) bool { return p.Slack != "" || p.Email != "" }) {
		all = append(all, "slack: auth.people lists nobody in Slack: clicks do "+less)
	}
	return all
}

// defaultRights are the least with which the service is usable.
func defaultRights() []Grant {
	var all []Grant
	for _, g := range rights.Default() {
		own := Grant{To: g.To}
		for _, r := range g.May {
			own.May = append(own.May, string(r))
		}
		all = append(all, own)
	}
	return all
}

// RightsRules returns who may do what. Where nobody has to authenticate, that is
// everybody.
func (a Auth) RightsRules() (rights.Rules, error) {
	var all []rights.Grant
	for _, g := range a.Rights {
		all = append(all, g.grant())
	}
	if a.Insecure || len(a.credentials()) == 0 && a.OIDC == nil {
		all = append(all, rights.Grant{To: []string{"user:" + webhook.Anonymous}, May: rights.All(), Services: []string{"*"}})
	}
	return rights.New(all...)
}

func (g Grant) grant() rights.Grant {
	out := rights.Grant{To: g.To, Services: g.Services}
	for _, r := range g.May {
		out.May = append(out.May, rights.Right(r))
	}
	return out
}

func (a Auth) checkRights(bad setting.Report) {
	for i, g := range a.Rights {
		if _, err := rights.New(g.grant()); err != nil {
			bad(fmt.Sprintf("auth.rights[%d]", i), "e.g. {to: [group:sre], may: [pause, unpause], services: [\"*\"]}", "%v", err)
		}
	}
}

// check finds what is missing to believe an issuer.
func (o *OIDC) check(bad setting.Report) {
	if o == nil {
		return
	}
	if u, err := url.Parse(o.Issuer); err != nil || u.Scheme != "https" || u.Host == "" {
		bad("auth.oidc.issuer", "write it like https://login.example.com, exactly as tokens have it in iss", "%s is not an https URL", setting.QuotedURL(o.Issuer))
	}
	if o.Audience == "" && o.SignIn == nil {
		bad("auth.oidc.audience", "register the service with the issuer and write its name there", "must not be empty, or tokens made for others would let people in here")
	}
	if len(o.Scopes) == 0 {
		bad("auth.oidc.scopes", "add read and approve", "may do nothing")
	}
	if len(o.AllowedGroups) > 0 && o.GroupsClaim == "" {
		bad("auth.oidc.groups_claim", "name the claim that lists groups, often groups", "must not be empty with allowed_groups, or nobody would come in")
	}
	if slices.ContainsFunc(o.AllowedGroups, func(g string) bool { return strings.TrimPrefix(g, "group:") == "" }) {
		bad("auth.oidc.allowed_groups", "", "a group is empty")
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

// checkSessions finds what is missing for people to sign in on the page.
func (c *Config) checkSessions(bad setting.Report) {
	s := c.Auth.Sessions
	if s.Lifetime < 5*time.Minute || s.Lifetime > 7*24*time.Hour {
		bad("auth.sessions.lifetime", "e.g. 12h", "%s is not between 5m and 168h", yamldoc.FormatDuration(s.Lifetime))
	}
	if s.Idle < time.Minute || s.Idle > s.Lifetime {
		bad("auth.sessions.idle", "e.g. 1h", "%s is not between 1m and auth.sessions.lifetime", yamldoc.FormatDuration(s.Idle))
	}
	if c.Auth.OIDC == nil || c.Auth.OIDC.SignIn == nil {
		return
	}
	in := c.Auth.OIDC.SignIn
	if in.ClientID == "" {
		bad("auth.oidc.sign_in.client_id", "register a client with the issuer, for the authorization code flow", "must not be empty")
	}
	if slices.ContainsFunc(in.Scopes, func(s string) bool { return s == "" || strings.ContainsFunc(s, IsSpace) }) {
		bad("auth.oidc.sign_in.scopes", "write each as an item, e.g. [profile, email, groups]", "a scope is empty or has spaces")
	}
	switch u, err := url.Parse(c.ExternalURL); {
	case c.ExternalURL == "":
		bad("auth.oidc.sign_in", "set external_url, e.g. https://responder.example", "needs external_url, to which the issuer sends people back")
	case err != nil || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		bad("external_url", "write it like https://responder.example", "with auth.oidc.sign_in it must have no query, fragment or user")
	}
}

// checkPeople refuses what would make two humans one or one human two.
func (a Auth) checkPeople(bad setting.Report) {
	people := a.People
	known := a.credentials()
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
		for j, name := range p.Credentials {
			if !slices.ContainsFunc(known, func(c credential) bool { return c.name == strings.TrimPrefix(name, "user:") }) {
				bad(fmt.Sprintf("%s.credentials[%d]", at, j), "", "%q is no entry of auth.tokens, auth.basic or auth.mtls.clients", name)
			}
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
	g := GrantOf("", o.Scopes, o.AllowedGroups)
	w := &webhook.OIDC{
		Issuer: o.Issuer, Audience: o.Audience, CAFile: o.CAFile, UsernameClaim: o.UsernameClaim, GroupsClaim: o.GroupsClaim, Scopes: g.Scopes,
		AllowedGroups: g.Groups, PeopleOnly: o.PeopleOnly,
	}
	if in := o.SignIn; in != nil {
		w.Browser = &webhook.OIDCBrowser{ClientID: in.ClientID, ClientSecretFile: in.ClientSecretFile, Scopes: in.Scopes}
		if in.Scopes == nil {
			w.Browser.Scopes = []string{"profile", "email"}
		}
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
	var own []string
	for _, name := range p.Credentials {
		own = append(own, strings.TrimPrefix(name, "user:"))
	}
	return webhook.Person{Name: g.Name, Credentials: own, OIDC: p.OIDC, Email: p.Email, Groups: g.Groups}
}
