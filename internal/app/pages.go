package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rights"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/web"
	"github.com/inference-responder/responder/internal/webhook"
	"github.com/inference-responder/responder/playbooks"
)

// openPages makes what people see in a browser. It shows what the CLI shows,
// in the same words.
func (s *Service) openPages(c config.Config) (webhook.Pages, error) {
	budgets := newBudgets(s.world.Deps.Querier, s.world.Now, s.log)
	tests, err := shippedTests()
	if err != nil {
		return nil, err
	}
	fleet := newFleet(s.world.Known, budgets.inTurn, s.world.Now)
	site, err := web.New(web.Options{
		Runs:      pageRuns{views{s.executor}},
		Log:       pageLog{s.journal, s.world.Now},
		Tables:    s.tablePages(),
		Pauses:    s.pagePauses,
		Health:    s.health,
		Services:  s.world.Known,
		Nodes:     func(ctx context.Context) runview.NodePage { return runview.NodePageOf(s.nodeList(ctx)) },
		Playbooks: s.library.set,
		Alerts: func(q web.AlertSearch) api.AlertList {
			return s.received().Alerts(webhook.AlertFilter{Firing: q.Firing, NoRun: q.NoRun, Episode: q.Episode, Skip: q.Skip, Limit: q.Limit})
		},
		Tests:   tests,
		Applies: s.applies,
		Arming: func() func(playbook.Service) runview.Arming {
			of := s.arming()
			return func(svc playbook.Service) runview.Arming { return runview.ArmingOf(of(svc)) }
		},
		Budgets:   budgets.of,
		Fleet:     fleet.all,
		FleetRead: fleet.read,
		Curve:     newCurves(s.world.Deps.Querier, s.world.Now, s.log).of,
		Links:     s.linksOf(c),
		Simulated: s.world.Simulated,
		Now:       s.world.Now,
		Logger:    s.log,
	})
	if err != nil {
		return nil, err
	}
	return pages{site, s.rights}, nil
}

// shippedTests returns what the tests of a shipped playbook cover, by its digest.
func shippedTests() (func(digest string) (web.Tested, bool), error) {
	var all []playbooks.Tested
	if err := json.Unmarshal(playbooks.Tests, &all); err != nil {
		return nil, fmt.Errorf("read the record of the playbooks' tests: %w", err)
	}
	return func(digest string) (web.Tested, bool) {
		i := slices.IndexFunc(all, func(t playbooks.Tested) bool { return t.Digest == digest })
		if i < 0 {
			return web.Tested{}, false
		}
		t := all[i]
		return web.Tested{Cases: t.Cases, States: t.States, Seen: t.Seen, Edges: t.Edges, Taken: t.Taken, Worlds: t.Worlds}, true
	}, nil
}

// tablePages are the pages that are one table, as commands show them.
func (s *Service) tablePages() []web.TablePage {
	return []web.TablePage{
		{Path: "loans", Title: "Loans", Table: func() (web.Table, error) {
			return loansPage(loansOut(s.executor)), nil
		}},
		{Path: "ladder", Title: "Ladder", Table: func() (web.Table, error) {
			return ladderPage(trackRecord{executor: s.executor, record: s.ladder}.Levers("", "")), nil
		}},
		{Path: "policy", Title: "Policy", Table: func() (web.Table, error) { return policyPage(s.rules), nil }},
	}
}

const pageLoans = 200

// loansOut lists the loans that are not over.
func loansOut(e *executor.Executor) (loans []api.RunSummary) {
	open, ended := true, false
	all := e.Runs(executor.Filter{Playbook: executor.LoanReturn, Open: &open})
	for _, r := range append(all, e.Runs(executor.Filter{Playbook: executor.LoanReturn, Open: &ended, Limit: pageLoans})...) {
		if l := api.SummaryOf(r); !runview.LoanIsOver(l) {
			loans = append(loans, l)
		}
	}
	return loans
}

// loansPage is the table of 'responder loans list'.
func loansPage(loans []api.RunSummary) web.Table {
	page := web.Table{Table: runview.LoanTable(loans)}
	for i := range page.Columns {
		if c := &page.Columns[i]; c.Head == "SINCE (UTC)" {
			c.Wide = false
		}
	}
	page.Notes = []string{"Keep one for good, or return it now: responder loans keep, responder loans return"}
	return page
}

// pages hands the receiver's visitors to the site.
type pages struct {
	site   *web.Site
	rights rights.Rules
}

// Page answers with a page.
func (p pages) Page(w http.ResponseWriter, r *http.Request, who webhook.Identity) error {
	err := p.site.Page(w, r, p.visitor(who))
	if errors.Is(err, web.ErrNotFound) {
		return &refused{as: webhook.ErrNotFound, message: strings.TrimPrefix(err.Error(), web.ErrNotFound.Error()+": ")}
	}
	if errors.Is(err, web.ErrInvalid) {
		return &refused{as: webhook.ErrInvalid, message: strings.TrimPrefix(err.Error(), web.ErrInvalid.Error()+": ")}
	}
	return err
}

// Verify verifies the journal for a visitor.
func (p pages) Verify(w http.ResponseWriter, r *http.Request, who webhook.Identity) {
	p.site.Verify(w, r, p.visitor(who))
}

// visitor returns who views a page as the site knows them.
func (p pages) visitor(who webhook.Identity) web.Visitor {
	lacks := func(right rights.Right, s playbook.Service) string {
		if !who.Can(webhook.Scope(right)) {
			return "Your credential lacks the scope " + string(right)
		}
		if err := p.rights.Check(who.Actor(), right, subject(s)); err != nil {
			return err.Error()
		}
		return ""
	}
	return web.Visitor{Name: who.Name, Groups: who.Groups, Strong: who.Strong, Person: who.Person, SignedIn: who.SignedIn, Lacks: lacks}
}

// Problem answers with a page that says why there is none.
func (p pages) Problem(w http.ResponseWriter, r *http.Request, problem *webhook.Problem) {
	p.site.Problem(w, r, web.Problem{Status: problem.Status(), Message: problem.Message, Hint: problem.Hint})
}

// SignIn answers with the page on which people sign in.
func (p pages) SignIn(w http.ResponseWriter, r *http.Request, s webhook.SignIn) {
	page := web.SignIn{
		Status: s.Status, Next: s.Next, Password: s.Password, Issuer: s.Issuer, Down: s.Down, Others: s.Others,
		Message: s.Message, Hint: s.Hint, Groups: s.Groups, Left: s.Left,
	}
	if s.Who != nil {
		page.Name, page.Strong, page.Groups = s.Who.Name, s.Who.Strong, s.Who.Groups
		page.Rights = p.rights.Of(s.Who.Actor(), func(right rights.Right) bool { return s.Who.Can(webhook.Scope(right)) })
	}
	p.site.SignIn(w, r, page)
}

// pageRuns reads runs for the site.
type pageRuns struct{ views }

// Changes counts what happens to runs.
func (p pageRuns) Changes() uint64 { return p.executor.Changes() }

// Open yields every run that has not ended.
func (p pageRuns) Open() iter.Seq[*machine.State] { return p.executor.Open() }

// Search looks through all runs.
func (p pageRuns) Search(q web.Search) web.Found {
	return web.Found(p.executor.Search(executor.Search(q)))
}

// pageLog is the journal for the site.
type pageLog struct {
	journal *audit.Journal
	now     func() time.Time
}

// Size is the number of entries.
func (l pageLog) Size() uint64 { return l.journal.Size() }

// Entries yields the entries from seq from on.
func (l pageLog) Entries(from uint64, kinds func(kind string) bool) iter.Seq2[web.Entry, error] {
	return entriesOf(l.journal.Log(from), kinds)
}

// Stream yields the entries of a stream from an index on.
func (l pageLog) Stream(stream string, from uint64, kinds func(kind string) bool) iter.Seq2[web.Entry, error] {
	return entriesOf(l.journal.Stream(stream, from), kinds)
}

func entriesOf(records iter.Seq2[audit.Record, error], kinds func(kind string) bool) iter.Seq2[web.Entry, error] {
	return func(yield func(web.Entry, error) bool) {
		for r, err := range records {
			e := web.Entry{Seq: r.Seq, Time: r.Time, Stream: r.Stream, Kind: r.Kind, Bytes: len(r.Data)}
			if kinds(r.Kind) {
				e.By, e.What = runview.EntryBy(r.Data), runview.EntrySummary(r.Data)
			}
			var absent *audit.ArchivedError
			if errors.As(err, &absent) {
				e, err = web.Entry{Seq: r.Seq, What: "archived in segment " + absent.Segment}, nil
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Positions returns where the entries of a stream are.
func (l pageLog) Positions(stream string) ([]uint64, error) { return l.journal.Positions(stream) }

// Leaf is the hash of an entry in the Merkle tree.
func (l pageLog) Leaf(seq uint64) (string, error) {
	hash, err := l.journal.LeafHash(seq)
	return hash.String(), err
}

// Checkpoint returns a signed checkpoint over everything.
func (l pageLog) Checkpoint() ([]byte, error) { return l.journal.Checkpoint() }

// Verify checks every entry.
func (l pageLog) Verify(ctx context.Context, progress func(done, total uint64)) (web.Verification, error) {
	report, err := l.journal.Verify(ctx, audit.VerifyOptions{Progress: progress, Now: l.now()})
	if errors.Is(err, audit.ErrCorrupt) {
		return web.Verification{Standing: NotIntact, Wrong: err.Error()}, nil
	}
	if err != nil {
		return web.Verification{}, err
	}
	var v web.Verification
	v.Standing, v.Wrong, v.Facts = VerificationWords(report)
	v.Intact = v.Standing == Intact
	return v, nil
}

// pagePauses are the pauses in force.
func (s *Service) pagePauses() []web.Pause {
	var all []web.Pause
	for _, p := range (pauses{executor: s.executor, intake: s.intake}).Pauses() {
		all = append(all, web.Pause{Scope: p.Scope(), Service: p.Service, Playbook: p.Playbook, Intake: p.Intake, By: p.By, Reason: p.Reason, Since: p.Since})
	}
	return all
}

// ladderPage is the table of 'responder ladder'.
func ladderPage(levers []api.TrackRecord) web.Table {
	return web.Table{
		Table: runview.LadderTable(levers),
		Notes: append(runview.LadderNotes(levers), "Every count, by how it ended: responder ladder -o wide"),
	}
}

// policyPage is the rules in force.
func policyPage(r *rules) web.Table {
	page := web.Table{Table: &runview.Table{
		Columns: []runview.Column{{Head: "RULE"}, {Head: "EFFECT"}, {Head: "SAYS"}, {Head: "WHEN"}, {Head: "MAY APPROVE ALONE"}},
		Empty:   "No policy is configured: policy.file in the configuration names one.",
	}}
	set := r.current.Load()
	if set == nil {
		return page
	}
	page.Empty = "The policy has no rules."
	for _, rule := range set.Rules() {
		page.Add(rule.Place, rule.Kind, rule.Says, runview.OrText(rule.When, "always"), runview.OrText(strings.Join(rule.BreakGlass, ", "), "nobody"))
	}
	page.Notes = []string{"digest " + set.Digest(), "What may run, when, and who would have to say yes: responder policy explain"}
	return page
}
