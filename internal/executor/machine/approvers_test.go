package machine

import (
	"errors"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rights"
)

// asking is a run of a service of ada and of group ml, whose playbook names these people
// to approve a lever with this plan.
func asking(by []string, plan Plan, terms Terms) (State, *playbook.State) {
	st := &playbook.State{Name: "fix", Kind: playbook.StateLever, Step: "test.turn", Approve: &playbook.Approve{By: by, Always: true}}
	s := State{
		Playbook: &playbook.Playbook{Name: "p"}, Current: "fix", Lever: &Lever{Plan: &plan},
		Start: Start{Playbook: "p", Service: playbook.Service{Name: "chat", Owners: []string{"user:ada", "group:ml"}}},
	}
	return s.Under(&terms), st
}

// A playbook narrows the owners, and names nobody else unless the policy allows it.
func TestPlaybookNamesOnlyOwners(t *testing.T) {
	pooled := Plan{NodeOwners: &NodeOwners{Pool: "h100", Owners: []string{"group:dc"}}}
	for _, tt := range []struct {
		name   string
		by     []string
		plan   Plan
		terms  Terms
		groups string
		who    string
		ok     bool
	}{
		{"an owner", []string{"user:ada"}, Plan{}, Terms{}, "", "user:ada", true},
		{"another owner than the one it names", []string{"user:ada"}, Plan{}, Terms{}, "group:ml", "user:eve", false},
		{"a stranger", []string{"user:mallory"}, Plan{}, Terms{}, "", "user:mallory", false},
		{"a stranger beside the owners", []string{"service.owners", "user:mallory"}, Plan{}, Terms{}, "", "user:mallory", false},
		{"an owner beside a stranger", []string{"service.owners", "user:mallory"}, Plan{}, Terms{}, "", "user:ada", true},
		{"one of a group that owns", []string{"user:bob"}, Plan{}, Terms{}, "group:ml", "user:bob", true},
		{"a group of strangers", []string{"group:sre"}, Plan{}, Terms{}, "group:sre", "user:cap", false},
		{"whom the policy allows", []string{"group:sre"}, Plan{}, Terms{Approvers: []string{"group:sre"}}, "group:sre", "user:cap", true},
		{"not whom the policy allows alone", []string{"user:ada"}, Plan{}, Terms{Approvers: []string{"group:sre"}}, "group:sre", "user:cap", false},
		{"an owner of the node", []string{"group:dc"}, pooled, Terms{}, "group:dc", "user:dan", true},
		{"a stranger to the node", []string{"group:sre"}, pooled, Terms{}, "group:sre", "user:cap", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, st := asking(tt.by, tt.plan, tt.terms)
			g := Gate{Needs: s.Needs(st)}
			d := Decision{Approve: true, By: tt.who}
			if tt.groups != "" {
				d.Groups = []string{tt.groups}
			}
			if err := g.Refuse(d); (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrNotAllowed) {
				t.Errorf("%s of %q: %v; asked is %s", tt.who, tt.groups, err, g.Who())
			}
		})
	}
	s, st := asking([]string{"user:mallory"}, Plan{}, Terms{})
	s.Start.Service.Owners = nil
	if n := s.Needs(st); len(n) != 1 || len(n[0].From) != 0 || !strings.Contains(n[0].Unreachable(s.Start), "nobody may decide") {
		t.Errorf("of a service without owners %+v are asked", n)
	}
}

// The owners of each service that a lever touches have to approve, unless those of the
// node's pool decide for all.
func TestEachTouchedServiceApproves(t *testing.T) {
	touches := []Touched{{Namespace: "kube-system"}, {Service: "embed", Namespace: "batch", Owners: []string{"user:eve"}}}
	for _, tt := range []struct {
		name string
		by   string
		pool *NodeOwners
		want string
	}{
		{"owners of the service", "service.owners", nil, "user:ada, group:ml (playbook p, state fix) and user:eve (owners of service embed, with pods on the node) (playbook p, state fix)"},
		{"a node of no pool", "node.owners", &NodeOwners{}, "user:ada, group:ml (owners of service chat: no node is changed) (playbook p, state fix) and user:eve (owners of service embed, with pods on the node) (playbook p, state fix)"},
		{"a node of a pool", "node.owners", &NodeOwners{Pool: "h100", Owners: []string{"group:dc"}}, "group:dc (owners of node pool h100)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, st := asking([]string{tt.by}, Plan{Touches: touches, NodeOwners: tt.pool}, Terms{})
			if got := whoOf(s.Needs(st)); got != tt.want {
				t.Errorf("asked are\n%s, want\n%s", got, tt.want)
			}
		})
	}
}

// An approval counts for the services about which its person has the right to approve:
// nobody approves for a service by their right on another one, and the owners of one
// service need no right on the other.
func TestRightsAboutTouchedServices(t *testing.T) {
	touches := []Touched{{Namespace: "kube-system"}, {Service: "embed", Namespace: "batch", Owners: []string{"user:eve"}}}
	rule := Need{Rule: "policy sre, policy.yaml:3", From: []string{"group:sre"}, Quorum: 1}
	about := func(services ...string) Need {
		n := rule
		n.For = services
		return n
	}
	for _, tt := range []struct {
		name, who string
		group     string
		may       []string // services
		terms     Terms
		lacks     string
	}{
		{"owner of both rights", "ada", "", []string{"chat", "embed"}, Terms{}, ""},
		{"owner of the run's service", "ada", "", []string{"chat"}, Terms{}, ""},
		{"owner of the other", "eve", "", []string{"embed"}, Terms{}, ""},
		{"owner without the right on theirs", "eve", "", []string{"chat"}, Terms{}, "user:eve lacks the right approve on service embed"},
		{"rule about both", "bob", "sre", []string{"chat"}, Terms{Needs: []Need{about("chat", "embed")}}, "user:bob lacks the right approve on service embed"},
		{"rule of an older journal", "bob", "sre", []string{"chat"}, Terms{Needs: []Need{rule}}, "user:bob lacks the right approve on service embed"},
		{"rule about the other", "bob", "sre", []string{"embed"}, Terms{Needs: []Need{about("embed")}}, ""},
		{"right on none", "ada", "", nil, Terms{}, "user:ada lacks the right approve on service chat"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, st := asking([]string{"service.owners"}, Plan{Touches: touches}, tt.terms)
			var grants []rights.Grant
			if len(tt.may) > 0 {
				grants = append(grants, rights.Grant{To: []string{"user:" + tt.who}, May: []rights.Right{rights.Approve}, Services: tt.may})
			}
			rules, err := rights.New(grants...)
			if err != nil {
				t.Fatal(err)
			}
			d := Decision{Approve: true, By: "user:" + tt.who, Groups: []string{tt.group}, Person: true}
			d.Lacks, err = s.Lacks(func(svc playbook.Service) error {
				return rules.Check(rights.Actor{By: d.By}, rights.Approve, rights.Service{Name: svc.Name, Owners: svc.Owners})
			})
			g := Gate{Needs: s.Needs(st), BreakGlass: []string{d.By}}
			if err == nil {
				err = g.Refuse(d)
			}
			if (err == nil) != (tt.lacks == "") || err != nil && !strings.Contains(err.Error(), tt.lacks) {
				t.Errorf("the approval: %v, want %q", err, tt.lacks)
			}
			if d.Approve = false; len(tt.may) > 0 && g.Refuse(d) != nil {
				t.Errorf("a denial does not count: %v", g.Refuse(d))
			}
			d.Approve, d.BreakGlass, d.Reason = true, true, "all asleep"
			if err := g.Refuse(d); (err == nil) != (len(tt.may) == 2) {
				t.Errorf("alone with the right on %q: %v", tt.may, err)
			}
		})
	}
}

// A run that a person started asks, whatever level its journal says it began with.
func TestRunByHandAsksAtAuto(t *testing.T) {
	s, st := asking(nil, Plan{}, Terms{})
	auto := playbook.Auto
	st.Approve, st.Autonomy = nil, &auto
	s.Playbook.Autonomy, s.Start.Autonomy, s.Start.Service.Autonomy, s.Start.By = playbook.Auto, playbook.Auto, playbook.Auto, "user:bob"
	if level := s.Autonomy(st); level != playbook.Suggest || len(s.Needs(st)) != 1 {
		t.Errorf("started by hand it is at %s and needs %+v, want suggest and an approval", level, s.Needs(st))
	}
	s.Start.By = ""
	if level := s.Autonomy(st); level != playbook.Auto {
		t.Errorf("started by an alert it is at %s, want auto", level)
	}
}

// TestToAskAgain: only where alerts may start another run is one promised.
func TestToAskAgain(t *testing.T) {
	a := playbook.Alert{Status: playbook.Firing, Fingerprint: "f-1", StartsAt: epoch}
	gone := playbook.Alert{Status: playbook.Resolved, Fingerprint: "f-2", StartsAt: epoch}
	for name, c := range map[string]struct {
		start Start
		want  int
	}{
		"of an alert":           {Start{Run: "r-1", Alert: a}, 1},
		"of a loan":             {Start{Run: "r-1", Alert: a, Loan: "r-0/add#1"}, 0},
		"taken over by divert":  {Start{Run: "r-1", Alert: a, DivertedFrom: "r-0"}, 1},
		"that somebody started": {Start{Run: "r-1", By: "user:ada"}, 0},
	} {
		s := State{Start: c.start}
		for _, x := range []playbook.Alert{a, gone} {
			s.Episodes = s.Episodes.With(x.Episode(), episode(x, epoch))
		}
		if got := s.toAskAgain(); len(got) != c.want {
			t.Errorf("%s: %v, want %d", name, got, c.want)
		}
	}
}
