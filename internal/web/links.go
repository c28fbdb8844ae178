package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/runview"
)

// Links find the pages of other systems. One that is nil, or returns nothing, knows none.
type Links struct {
	Trace        func(run string) string                  // the page of a run's trace
	Alertmanager func(notification uint64) string         // the address of the Alertmanager that sent it, for browsers; by its entry in the log
	Application  func(name string) string                 // the page of an application of Argo CD
	Commit       func(repository, revision string) string // the page of a commit
}

// address is a place to look at: a link, or a text that is none.
type address struct{ Name, URL, Text string }

// links returns the links of a run. Its runbook is the address that the playbook names,
// else the playbook's own page; book is the address of that, empty if the playbook is not
// loaded.
func (l Links) links(run machine.State, book string) (out []address) {
	var runbook string
	add := func(name, text string) {
		if u := link(text); u != "" {
			out = append(out, address{Name: name, URL: u})
		} else if text != "" {
			out = append(out, address{Name: name, Text: text})
		}
	}
	a := run.Start.Alert
	if run.Playbook != nil {
		runbook = run.Playbook.Runbook
	}
	if book != "" && link(runbook) == "" {
		out = append(out, address{Name: "Runbook", URL: book})
	} else {
		add("Runbook", runbook)
	}
	if of := cmp.Or(a.Annotations["runbook_url"], a.Annotations["runbook"]); of != runbook {
		add("Alert's runbook", of)
	}
	add("Dashboard", cmp.Or(a.Annotations["dashboard_url"], a.Annotations["dashboard"]))
	add("Alert in Prometheus", a.GeneratorURL)
	if u := l.silence(run); u != "" {
		out = append(out, address{Name: "Silence the alert", URL: u})
	}
	if app := run.Start.Service.GitOps.Application; app != "" {
		at := address{Name: "Argo CD application", Text: app}
		if l.Application != nil {
			at.URL = link(l.Application(app))
		}
		out = append(out, at)
	}
	if l.Trace != nil && run.Phase == machine.PhaseEnded {
		if u := link(l.Trace(run.Start.Run)); u != "" {
			out = append(out, address{Name: "Trace", URL: u})
		}
	}
	return out
}

// silence returns the address of Alertmanager's form for a new silence of the run's alert.
// Empty: the alert is over, a person started the run, or the address is not known.
func (l Links) silence(run machine.State) string {
	a := run.Start.Alert
	if a.Fingerprint == "" {
		return ""
	}
	if e := run.Episodes.Get(a.Episode()); e != nil && !e.Firing {
		return ""
	}
	return l.newSilence(run.Start.Notification, a.Labels)
}

// newSilence returns the address of that form for the labels of an alert. Empty: the address
// is not known.
func (l Links) newSilence(notification uint64, labels map[string]string) string {
	if l.Alertmanager == nil {
		return ""
	}
	filter := silenceFilter(labels)
	base, err := url.Parse(l.Alertmanager(notification))
	if err != nil || filter == "" || base.RawQuery != "" || base.Fragment != "" {
		return ""
	}
	return link(strings.TrimRight(base.String(), "/") + "/#/silences/new?filter=" + filter)
}

// plainLabel matches the names of labels that Alertmanager's form reads without quotes.
var plainLabel = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// silenceFilter writes the labels of an alert as Alertmanager's page does in its own links:
// {name="value", …}, values as JSON, percent-encoded. Empty: they cannot be written. A label
// is never left out here, because the silence would be for more than the alert. The receiver
// has dropped receiver.drop_labels before, which are of Prometheus's replicas.
func silenceFilter(labels map[string]string) string {
	var matchers []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		var value bytes.Buffer
		enc := json.NewEncoder(&value)
		enc.SetEscapeHTML(false)
		if !plainLabel.MatchString(name) || enc.Encode(labels[name]) != nil {
			return ""
		}
		matchers = append(matchers, name+"="+strings.TrimSpace(value.String()))
	}
	if len(matchers) == 0 {
		return ""
	}
	return strings.ReplaceAll(url.QueryEscape("{"+strings.Join(matchers, ", ")+"}"), "+", "%20")
}

// gitCommit matches the whole name of a commit.
var gitCommit = regexp.MustCompile(`^[0-9a-f]{40}(?:[0-9a-f]{24})?$`)

// pullPath matches the end of a pull request's address at the forges.
var pullPath = regexp.MustCompile(`/(?:pull|pulls|merge_requests)/\d+$`)

// changeLinks returns the pull requests and the commits of the newest changes. The page of
// a commit is known where that of its pull request is, or where that of its repository is.
func (l Links) changeLinks(changes []*change) (out []address) {
	for _, c := range changes[max(0, len(changes)-maxChangeLinks):] {
		var made struct {
			Revision string `json:"revision"`
			Waits    string `json:"waits"`
		}
		if len(c.Receipt) > 0 && json.Unmarshal(c.Receipt, &made) != nil {
			made.Revision, made.Waits = "", "" // of a lever that does not work on Git
		}
		pull := link(cmp.Or(c.Waits, made.Waits))
		if pull != "" {
			out = append(out, address{Name: "Pull request " + pull[strings.LastIndex(pull, "/")+1:], URL: pull})
		}
		if !gitCommit.MatchString(made.Revision) {
			continue
		}
		commit := address{Name: "Commit " + runview.ShortCommit(made.Revision), Text: made.Revision}
		if at := pullPath.FindStringIndex(pull); at != nil {
			commit.URL = pull[:at[0]] + "/commit/" + made.Revision
		} else if l.Commit != nil {
			commit.URL = link(l.Commit(c.repository(), made.Revision))
		}
		out = append(out, commit)
	}
	return out
}

// repository returns the repository of a change in Git; empty: it is none, or not known.
func (c *change) repository() string {
	var of struct {
		Repository string `json:"repository"`
	}
	if c.Plan == nil || json.Unmarshal(c.Plan.Payload, &of) != nil {
		return ""
	}
	return of.Repository
}

// maxChangeLinks bounds the changes that are linked.
const maxChangeLinks = 5
