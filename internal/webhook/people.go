package webhook

import (
	"fmt"
	"strings"
)

// Person is one person with several credentials, who has the same name with each
// of them.
type Person struct {
	Name        string   // decisions are journaled as user:Name
	Credentials []string // names of token files, passwords and certificates, beside those named like the person
	OIDC        string   // value of OIDC's username claim; empty: none
	Email       string   // compared without regard to case; empty: none
	Groups      []string // added to those of each credential, without the prefix group:
}

// people maps credentials to persons.
type people struct {
	handles map[string]*Person // names, values of the username claim and e-mail addresses, folded
	tokens  map[string]*Person // values of the username claim
	emails  map[string]*Person // e-mail addresses, folded
	taken   map[string]bool    // names of the configuration, folded, that no token may call itself by
}

// newPeople refuses two people with the same handle, and one with two names.
func newPeople(a Auth) (*people, error) {
	p := &people{handles: map[string]*Person{}, tokens: map[string]*Person{}, emails: map[string]*Person{}, taken: map[string]bool{"anonymous": true}}
	for i := range a.People {
		person := &a.People[i]
		if !plainName(person.Name) {
			return nil, fmt.Errorf("webhook: person %q: the name is empty, has spaces or a prefix", person.Name)
		}
		for _, handle := range append([]string{person.Name, person.OIDC, person.Email}, person.Credentials...) {
			other := p.handles[fold(handle)]
			if other != nil && other != person {
				return nil, fmt.Errorf("webhook: %q stands for %s and for %s", handle, other.Name, person.Name)
			}
			if handle != "" {
				p.handles[fold(handle)] = person
			}
		}
		if person.OIDC != "" {
			p.tokens[person.OIDC] = person
		}
		if person.Email != "" {
			p.emails[fold(person.Email)] = person
		}
		p.taken[fold(person.Name)] = true
	}
	names := map[string]string{}
	for _, g := range a.grants() {
		p.taken[fold(g.Name)] = true
		other, there := names[fold(g.Name)]
		if there && other != g.Name && p.handles[fold(g.Name)] == nil {
			return nil, fmt.Errorf("webhook: credentials %q and %q differ in case only and would count as two people: write them the same, or list the person under auth.people", other, g.Name)
		}
		names[fold(g.Name)] = g.Name
	}
	return p, nil
}

// fold maps the spellings of a name to one.
func fold(handle string) string { return strings.ToLower(handle) }

// ofCredential returns the person of a token file, a password or a certificate:
// the one with that name or handle, or else the name itself.
func (p *people) ofCredential(id Identity) Identity {
	if person := p.handles[fold(id.Name)]; person != nil {
		id.Name, id.Groups, id.Person = person.Name, union(id.Groups, person.Groups), true
	}
	return id
}

// ofToken returns the person of an issuer's token. The issuer does not know the
// names of the configuration, and people may choose their names there. Therefore a
// token is a person of the configuration only if it is mapped.
func (p *people) ofToken(name, claim, verifiedEmail string) (Identity, error) {
	const hint = "the operator maps people under auth.people"
	person := p.tokens[name]
	if claim == "email" {
		person = p.emails[name]
		if person == nil {
			person = p.tokenOfEmail(name)
		}
	}
	if other := p.emails[verifiedEmail]; other != nil && other != person {
		return Identity{}, refuse("its e-mail address is "+other.Name+"'s, who has another "+claim, hint)
	}
	if person != nil {
		return Identity{Name: person.Name, Groups: person.Groups, Person: true}, nil
	}
	if p.taken[fold(name)] || p.handles[fold(name)] != nil {
		return Identity{}, refuse("its "+claim+" is a name of the configuration", hint)
	}
	return Identity{Name: name}, nil
}

// tokenOfEmail finds the person whose claim is written as the e-mail address,
// in any case: name is folded.
func (p *people) tokenOfEmail(name string) *Person {
	if person := p.handles[name]; person != nil && fold(person.OIDC) == name {
		return person
	}
	return nil
}
