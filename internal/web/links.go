package web

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/runview"
)

// address is a place to look at: a link, or a text that is none.
type address struct{ Name, URL, Text string }

// links returns the external links. A runbook that is not an address is a path
// in a repository and shown as text.
func links(run machine.State) (out []address) {
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
		add("Runbook", runbook)
	}
	if of := cmp.Or(a.Annotations["runbook_url"], a.Annotations["runbook"]); of != runbook {
		add("Alert's runbook", of)
	}
	add("Dashboard", cmp.Or(a.Annotations["dashboard_url"], a.Annotations["dashboard"]))
	add("Alert in Prometheus", a.GeneratorURL)
	if app := run.Start.Service.GitOps.Application; app != "" {
		out = append(out, address{Name: "Argo CD application", Text: app})
	}
	return out
}

// gitCommit matches the whole name of a commit.
var gitCommit = regexp.MustCompile(`^[0-9a-f]{40}(?:[0-9a-f]{24})?$`)

// pullPath matches the end of a pull request's address at the forges.
var pullPath = regexp.MustCompile(`/(?:pull|pulls|merge_requests)/\d+$`)

// changeLinks returns the pull requests and the commits of the newest changes. The page of
// a commit is known where that of its pull request is.
func changeLinks(changes []*change) (out []address) {
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
		}
		out = append(out, commit)
	}
	return out
}

// maxChangeLinks bounds the changes that are linked.
const maxChangeLinks = 5
