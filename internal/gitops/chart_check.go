package gitops

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
	"github.com/inference-responder/responder/internal/gitops/helm"
)

// checkRendered renders the charts of the tree before and after an edit of values and
// compares every object. It returns an error unless one field of the target changes for
// each site, and nothing that another deployment of a chart renders. unrendered tells
// why the target's chart could not be rendered.
func checkRendered(before, after []File, t Target, sites []*edit.Site) (rendered []string, unrendered string, err error) {
	was, err := newTree(before, t)
	if err != nil {
		return nil, "", err
	}
	is, err := newTree(after, t)
	if err != nil {
		return nil, "", err
	}
	all, err := was.charts()
	if err != nil {
		return nil, err.Error(), nil
	}
	edited := changedFiles(before, after)
	unrendered = was.unrendered(sites[0])
	for _, c := range all {
		if !slices.ContainsFunc(edited, c.Reads) {
			continue
		}
		lines, why, err := c.check(is, edited, sites)
		switch {
		case err != nil:
			return nil, "", err
		case why != "":
			unrendered = why
		case len(lines) > 0:
			rendered, unrendered = lines, c.lacks
		case len(rendered) == 0 && !c.makes(c.files):
			unrendered = fmt.Sprintf("%s does not make %s %s", c, t.Kind, t.Name)
		}
	}
	return rendered, unrendered, nil
}

func changedFiles(before, after []File) []string {
	var out []string
	for i := range before {
		if string(before[i].Data) != string(after[i].Data) {
			out = append(out, before[i].Path)
		}
	}
	return out
}

// check compares what the chart renders before and after an edit.
func (c *chart) check(is *tree, edited []string, sites []*edit.Site) (rendered []string, unrendered string, err error) {
	if err := c.render(); err != nil {
		return nil, reasonText(err), nil
	}
	variant, err := c.Variant(is.Tree, edited...)
	if err != nil {
		return nil, "", err
	}
	results, err := c.rendered(variant)
	if err != nil {
		return nil, "", err
	}
	if results[0].Error != "" {
		return nil, "", invalidEdit(sites[0], c.String()+" could not be rendered afterwards: "+reworded(results[0].Error))
	}
	if !c.makes(c.files) {
		if others, err := c.changes(results[0].Files); err != nil || len(others) > 0 {
			return nil, "", alsoChangesChart(sites[0], c, others, err)
		}
		return nil, "", nil
	}
	e, err := c.effectOf(results[0].Files)
	switch changes := append(slices.Clone(e.changes), e.several...); {
	case err != nil:
		return nil, "", err
	case len(e.foreign) > 0:
		return nil, "", alsoChanges(sites[0], e.foreign[0].String()+", which "+c.String()+" makes too")
	case len(changes) == 0:
		return nil, "", invalidEdit(sites[0], "the edit changes nothing in what "+c.String()+" renders")
	case len(changes) > len(sites) || len(e.several) > 0 && len(sites) == 1:
		var fields []string
		for _, r := range changes {
			fields = append(fields, r.path)
		}
		return nil, "", invalidEdit(sites[0], fmt.Sprintf("the edit changes %s in what %s renders, not %d", strings.Join(clipped(fields), ", "), c, len(sites)))
	default:
		for _, r := range changes {
			rendered = append(rendered, r.shown())
		}
	}
	return rendered, "", nil
}

// alsoChangesChart returns the error about an edit that another deployment of a chart
// takes too.
func alsoChangesChart(s *edit.Site, c *chart, changes []renderedChange, err error) error {
	if err != nil {
		return err
	}
	own := "set it in a value file that this deployment alone names"
	return &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf("%s:%d:%d: a change here would also change %s, which %s makes: %s", s.File(), s.Line, s.Column, changes[0], c, own)}
}

// unrendered returns why no chart is rendered for a site in values.
func (tr *tree) unrendered(s *edit.Site) string {
	if r := tr.release; r != nil {
		return r.Chart() + " is not in the repository"
	}
	what := "the chart"
	for _, p := range tr.Paths() {
		text := string(tr.File(p))
		if (p == s.File() || strings.Contains(text, path.Base(s.File()))) && (strings.Contains(text, "chart:") || strings.Contains(text, "helmCharts:")) {
			if name := chartNamed(tr.Tree, p); name != "" {
				what = "the chart " + edit.Clip(name)
				break
			}
		}
	}
	return what + " of " + s.File() + " is not in the repository"
}

// chartNamed returns the chart that an Argo CD application or a kustomization takes from
// elsewhere.
func chartNamed(tr *edit.Tree, p string) string {
	docs, err := tr.Open(p)
	if err != nil || helm.IsTemplate(tr, p) {
		return ""
	}
	for _, d := range docs {
		root, err := d.Parse()
		if err != nil {
			continue
		}
		for _, source := range append(edit.List(root, "spec", "sources"), edit.Get(root, "spec", "source")) {
			if name := edit.Str(source, "chart"); name != "" {
				return name
			}
		}
		for _, c := range edit.List(root, "helmCharts") {
			return edit.Str(c, "name")
		}
	}
	return ""
}
