package web

import (
	"net/http"
	"net/url"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// SignIn is the page on which people sign in, and see as whom they are.
type SignIn struct {
	Status int
	Next   string // path and query of the page to go to afterwards, checked to be this site's

	Password bool     // ask for name and password
	Issuer   string   // host that signs people in; empty: none does
	Down     bool     // it does not answer at present
	Others   []string // other ways to authenticate, one line each

	Name   string   // who is signed in; empty: nobody
	Strong bool     // with strong authentication
	Rights []string // what they may do, one line each
	Groups []string // theirs, or those that were seen of somebody who is refused

	Message, Hint string // what went wrong, and what to do about it
	Left          bool   // the person has just signed out
}

// SignIn answers with the sign-in page.
func (s *Site) SignIn(w http.ResponseWriter, r *http.Request, d SignIn) {
	f := s.frame(r, Visitor{}, "Sign in", "")
	f.Parts = nil // they would lead back here
	if d.Name != "" {
		f = s.frame(r, Visitor{Name: d.Name, SignedIn: true}, "Your sign-in", "signin")
	}
	f.Main = signInView(f, d)
	if err := s.write(w, r, d.Status, f); err != nil {
		s.o.Logger.Error("page failed", "route", r.URL.Path, "err", err)
		http.Error(w, d.Message, d.Status)
	}
}

func signInView(p page, d SignIn) g.Node {
	return h.Div(h.Class("signin"),
		h.H1(g.Text(p.Title)),
		some(d.Left, notice(toneGood, h.Role("status"), h.B(g.Text("You are signed out.")),
			some(d.Issuer != "", g.Text(" You may still be signed in at "), text(d.Issuer), g.Text(".")))),
		some(d.Message != "", refusalView(d)),
		some(d.Name != "", personView(p, d)),
		some(d.Name == "", formsView(p, d)),
		some(len(d.Others) > 0,
			h.H2(g.Text("Other ways")),
			h.Ul(g.Map(d.Others, func(s string) g.Node { return h.Li(text(s)) })),
		),
	)
}

func refusalView(d SignIn) g.Node {
	return notice(toneBad, h.Role("alert"), h.B(text(d.Message)),
		some(d.Hint != "", h.Br(), text(d.Hint)),
		some(len(d.Groups) > 0 && d.Name == "", h.Br(), g.Text("Groups seen: "), text(strings.Join(d.Groups, ", ")), g.Text(".")),
	)
}

// personView shows as whom somebody is signed in, and what that is good for.
func personView(p page, d SignIn) g.Node {
	groups, strong := "none", "no, or too long ago"
	if len(d.Groups) > 0 {
		groups = strings.Join(d.Groups, ", ")
	}
	if d.Strong {
		strong = "yes"
	}
	return g.Group{
		h.Dl(
			h.Dt(g.Text("Person")), h.Dd(h.B(text(d.Name))),
			h.Dt(g.Text("Groups")), h.Dd(text(groups)),
			h.Dt(g.Text("Strong authentication")), h.Dd(g.Text(strong)),
			h.Dt(g.Text("Rights")), h.Dd(
				h.Ul(h.Class("plain"), g.Map(d.Rights, func(s string) g.Node { return h.Li(text(s)) })),
				some(len(d.Rights) > 0, quiet(g.Text("This page has buttons for approve, cancel, resolve and release. The others take the command line, with a credential for it."))),
				some(len(d.Rights) == 0, g.Text("You may read. Whoever runs Responder gives rights, to people or groups, under auth.rights of its configuration.")),
			),
		),
		h.P(h.Class("buttons"), h.A(h.Class("go"), h.Href(p.Root+strings.TrimPrefix(d.Next, "/")), g.Text("Continue"))),
		h.Form(h.Method("post"), h.Action(p.Root+"signout/everywhere"), h.P(h.Class("buttons"), h.Button(g.Text("Sign out everywhere")))),
		some(d.Issuer != "" || d.Password, h.Details(h.Summary(g.Text("Sign in again")),
			quiet(g.Text("As somebody else, or to prove strong authentication anew.")), formsView(p, d))),
	}
}

func formsView(p page, d SignIn) g.Node {
	return g.Group{some(d.Issuer != "", issuerView(p, d)), some(d.Password, passwordView(p, d))}
}

func issuerView(p page, d SignIn) g.Node {
	return g.Group{
		some(d.Down, notice(toneWait, h.Role("status"), text(d.Issuer), g.Text(" does not answer at present. Responder keeps trying: reload this page in a moment."))),
		h.P(h.Class("buttons"), h.A(h.Class("go"), h.Href(p.Root+"signin/oidc?next="+url.QueryEscape(d.Next)), g.Text("Sign in with "), text(d.Issuer))),
	}
}

func passwordView(p page, d SignIn) g.Node {
	return h.Form(h.Method("post"), h.Action(p.Root+"signin"),
		some(d.Issuer != "", quiet(g.Text("or with a password of this service:"))),
		h.Input(h.Type("hidden"), h.Name("next"), h.Value(d.Next)),
		h.Label(g.Text("Name "), h.Input(h.Name("name"), h.Required(), h.MaxLength("256"), h.AutoComplete("username"), g.Attr("autocapitalize", "none"), g.Attr("spellcheck", "false"))),
		h.Label(g.Text("Password "), h.Input(h.Name("password"), h.Type("password"), h.Required(), h.MaxLength("1024"), h.AutoComplete("current-password"))),
		h.P(h.Class("buttons"), h.Button(g.If(d.Issuer == "", h.Class("go")), g.Text("Sign in"))),
	)
}

// signOutView is in the header of who signed in on the page.
func signOutView(p page) g.Node {
	return h.Form(h.Class("out"), h.Method("post"), h.Action(p.Root+"signout"), h.Button(g.Text("Sign out")))
}
