package gitops

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
	"github.com/inference-responder/responder/internal/gitops/helm"
)

// fromCharts returns the site of the variable in the values of a chart of the tree: the
// value whose change shows in the rendered target, and nowhere else. It is nil if no
// chart of the tree makes the target. want is the value that it will be set to; empty:
// any.
func (tr *tree) fromCharts(v Variable, want string) (*edit.Site, error) {
	making, err := tr.making()
	if err != nil || len(making) == 0 {
		return nil, err
	}
	if len(making) > 1 {
		var names []string
		for _, c := range making {
			names = append(names, c.String())
		}
		return nil, &fault.Error{Reason: fault.Ambiguous, Message: fmt.Sprintf("%s %s is made by %s: name the one that is deployed (gitops.path, or --source and --values where you look by hand)",
			tr.target.Kind, tr.target.Name, strings.Join(names, " and by "))}
	}
	if tr.edited != nil {
		return making[0].result(v)
	}
	return making[0].site(v, want)
}

// making returns the charts of the tree that make the target: none and an error if one
// that cannot be read may.
func (tr *tree) making() ([]*chart, error) {
	all, err := tr.charts()
	if err != nil {
		return nil, err
	}
	var out []*chart
	var failed error
	for _, c := range all {
		if !edit.Below(c.Dir, tr.target.Path) && c.Application == "" {
			continue
		}
		if err := c.render(); err != nil {
			failed = err
			continue
		}
		if c.makes(c.files) {
			out = append(out, c)
		} else if err := c.readable(); err != nil {
			failed = err
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	return nil, failed
}

// result returns the value that the chart renders after a change of a document.
func (c *chart) result(v Variable) (*edit.Site, error) {
	s, err := c.locate(c.files, v)
	if err != nil && !errors.Is(err, ErrUnset) && reason(err) != fault.NotFound {
		return nil, err
	}
	if s == nil {
		s = &edit.Site{Missing: true}
	}
	s.Object, s.Doc = &edit.Object{Kind: edit.ValuesKind, Docs: []*edit.Document{c.of.edited}}, c.of.edited
	return s, nil
}

// site returns the site of the variable in the chart's values.
func (c *chart) site(v Variable, want string) (*edit.Site, error) {
	rendered, err := c.locate(c.files, v)
	if err != nil && !errors.Is(err, ErrUnset) && reason(err) != fault.NotFound {
		return nil, err
	}
	w := helm.Wanted{Names: []string{v.Flag}, Env: envName.MatchString(v.Flag)}
	switch {
	case v.Replicas:
		w.Names = []string{"replicas", "replicaCount"}
		if rendered != nil {
			w.Names = append(w.Names, rendered.Path[strings.LastIndexByte(rendered.Path, '.')+1:])
		}
	case !w.Env:
		w.Flag = v.flag()
	}
	if rendered != nil && !rendered.Missing {
		w.Set, w.Value = true, rendered.Value
	}
	candidates, candidatesErr := c.Candidates(c.of.Tree, c.values, w)
	if candidatesErr != nil {
		return nil, candidatesErr
	}
	p := &probing{chart: c, variable: v, wanted: w, want: want, rendered: rendered}
	found, proofErr := p.choose(candidates)
	switch {
	case proofErr != nil:
		return nil, proofErr
	case found != nil:
		return p.describe(found), nil
	case rendered == nil && err != nil && len(p.refused) == 0:
		return nil, err
	}
	return nil, p.refusal()
}

// locate returns where rendered files have the variable.
func (c *chart) locate(files map[string]string, v Variable) (*edit.Site, error) {
	tr, err := c.tree(files)
	if err != nil {
		return nil, err
	}
	return tr.resolve(v)
}

// probing tries values of a chart.
type probing struct {
	*chart
	variable Variable
	wanted   helm.Wanted
	want     string     // empty: any
	rendered *edit.Site // nil: the templates do not make it
	refused  []refused
}

// refused is a candidate that does not decide the variable alone.
type refused struct {
	site  *edit.Site
	why   string
	owned bool // a change would change something else too
	kept  bool // the chart does not take the value that was tried; it may take another
}

// choose returns the candidate that decides the variable, or nil.
func (p *probing) choose(all []helm.Candidate) (*helm.Candidate, error) {
	for len(all) > 0 {
		n := slices.IndexFunc(all, func(c helm.Candidate) bool { return all[0].Preferred(c) })
		if n < 0 {
			n = len(all)
		}
		found, err := p.try(all[:n])
		if err != nil {
			return nil, err
		}
		switch i := slices.IndexFunc(found, func(c helm.Candidate) bool { return c.Named }); {
		case len(found) == 1:
			return &found[0], nil
		case i >= 0:
			return &found[i], nil
		case len(found) > 1:
			return extra(found)
		}
		all = all[n:]
	}
	return p.untried(), nil
}

// untried returns the candidate that the chart lets nobody change to the values that are
// tried, as an enumeration does. It is proven where it is set.
func (p *probing) untried() *helm.Candidate {
	var kept []refused
	for _, r := range p.refused {
		if r.kept && p.want == "" && r.site.Value == p.wanted.Value && p.wanted.Set {
			kept = append(kept, r)
		}
	}
	if len(kept) != 1 {
		return nil
	}
	return &helm.Candidate{Site: kept[0].site}
}

// extra returns the candidate for further arguments among several.
func extra(found []helm.Candidate) (*helm.Candidate, error) {
	var sites []*edit.Site
	for i := range found {
		if s := strings.ToLower(found[i].Site.Path); strings.Contains(s, "extra") || strings.Contains(s, "additional") {
			return &found[i], nil
		}
		if !slices.ContainsFunc(sites, func(s *edit.Site) bool { return s.Line == found[i].Site.Line && s.File() == found[i].Site.File() }) {
			sites = append(sites, found[i].Site)
		}
	}
	if len(sites) == 1 {
		return &found[0], nil
	}
	return nil, ambiguous(placesOf(sites), "several values of the chart decide it")
}

// attempt is a candidate with the value that it is tried with.
type attempt struct {
	candidate helm.Candidate
	value     string
}

// try returns those of the candidates that decide the variable.
func (p *probing) try(candidates []helm.Candidate) ([]helm.Candidate, error) {
	var tried []attempt
	var variants []helm.Variant
	for _, c := range candidates {
		for _, value := range p.values(c) {
			v, err := p.changed(c.Site, value)
			if err != nil {
				p.refuse(c, refused{why: reasonText(err)})
				continue
			}
			tried, variants = append(tried, attempt{c, value}), append(variants, v)
		}
	}
	if len(tried) == 0 {
		return nil, nil
	}
	results, err := p.chart.rendered(variants...)
	if err != nil {
		return nil, err
	}
	var out []helm.Candidate
	for i, r := range results {
		a := tried[i]
		if slices.ContainsFunc(out, func(c helm.Candidate) bool { return c.Site == a.candidate.Site }) {
			continue
		}
		why, owned := p.decides(r, a.value)
		if why == "" {
			out = append(out, a.candidate)
		} else {
			p.refuse(a.candidate, refused{why: why, owned: owned, kept: r.Error != ""})
		}
	}
	return out, nil
}

// reasonText returns the message of an error.
func reasonText(err error) string {
	if f := new(fault.Error); errors.As(err, &f) {
		return f.Message
	}
	return err.Error()
}

// refuse records why a candidate does not decide the variable.
func (p *probing) refuse(c helm.Candidate, r refused) {
	r.site = c.Site
	i := slices.IndexFunc(p.refused, func(r refused) bool { return r.site == c.Site })
	switch {
	case i < 0:
		p.refused = append(p.refused, r)
	case r.owned:
		p.refused[i] = r
	}
}

// values returns the values to try a candidate with.
func (p *probing) values(c helm.Candidate) []string {
	now := c.Site.Value
	switch {
	case p.want != "":
		return []string{p.want}
	case p.wanted.Set:
		if now == "true" || now == "false" {
			now = strconv.FormatBool(now != "true")
			return []string{now}
		}
		return others(p.wanted.Value)
	case now == "false":
		return []string{"true"}
	case p.variable.Replicas:
		return []string{"7"}
	}
	return []string{"7", "true"}
}

// others returns values other than one, of the same kind.
func others(value string) []string {
	if n, err := strconv.Atoi(value); err == nil {
		return []string{strconv.Itoa(n + 1), strconv.Itoa(max(1, n-1))}
	}
	if f, err := strconv.ParseFloat(value, 64); err == nil {
		return []string{strconv.FormatFloat(f-0.01, 'f', 2, 64)}
	}
	if value == "true" || value == "false" {
		return []string{strconv.FormatBool(value != "true")}
	}
	return []string{value + "x"}
}

// changed returns the variant in which a site has another value.
func (p *probing) changed(s *edit.Site, value string) (helm.Variant, error) {
	cut, err := s.Set(value)
	if err != nil {
		return helm.Variant{}, err
	}
	data, err := s.Doc.Apply(p.of.File(s.File()), cut)
	if err != nil {
		return helm.Variant{}, err
	}
	other := edit.NewTree("")
	for _, f := range p.of.Paths() {
		text := p.of.File(f)
		if f == s.File() {
			text = data
		}
		if err := other.Add(f, text); err != nil {
			return helm.Variant{}, err
		}
	}
	return p.Variant(other, s.File())
}

// decides returns why a rendered result does not show that its value decides the
// variable alone, or "".
func (p *probing) decides(r helm.Rendered, value string) (why string, owned bool) {
	if r.Error != "" {
		return "the chart does not take " + edit.Clip(value) + " there: " + reworded(r.Error), false
	}
	e, err := p.effectOf(r.Files)
	if err != nil {
		return reasonText(err), false
	}
	site, err := p.locate(r.Files, p.variable)
	moved := err == nil && (sameRendered(site.Value, value) && !site.Missing || site.Missing && value == "false" && p.rendered != nil && !p.rendered.Missing)
	if !moved && err == nil && p.rendered != nil && site.Value != p.rendered.Value && !site.Missing {
		return fmt.Sprintf("the chart makes %s of it", edit.Clip(site.Value)), false
	}
	switch {
	case len(e.changes)+len(e.foreign)+len(e.several) == 0:
		return "it changes nothing in the rendered result", false
	case !moved:
		return "it does not decide " + p.variable.String(), false
	case len(e.foreign) > 0:
		return "a change there would also change " + e.foreign[0].String(), true
	case len(e.changes)+len(e.several) > 1:
		var fields []string
		for _, c := range append(e.changes, e.several...) {
			fields = append(fields, c.path)
		}
		return "a change there would change " + strings.Join(clipped(fields[:min(len(fields), 4)]), ", ") + " of " + append(e.changes, e.several...)[0].object.String() + " together", true
	case len(e.several) > 0:
		return "a change there would change more than one word of " + e.several[0].String(), true
	case p.rendered == nil || p.rendered.Missing:
		if !p.variable.Replicas && !p.wanted.Env && site.Engine == "" && p.target.Container != site.Container {
			return "it would go into the container " + edit.Clip(site.Container) + ", which is not known to run an engine: name the container", false
		}
	}
	return "", false
}

// sameRendered reports whether a rendered value is the wanted one: a fraction may lose
// its last zeros.
func sameRendered(rendered, want string) bool {
	if rendered == want {
		return true
	}
	a, errA := strconv.ParseFloat(rendered, 64)
	b, errB := strconv.ParseFloat(want, 64)
	return errA == nil && errB == nil && a == b && strings.Contains(want, ".") && !strings.ContainsAny(rendered+want, "eE")
}

// describe completes the site of the candidate that was found.
func (p *probing) describe(c *helm.Candidate) *edit.Site {
	s, added := c.Site, c.Site.Missing
	if s.Missing = !p.wanted.Set; s.Missing || !sameRendered(p.wanted.Value, s.Value) {
		s.Value = p.wanted.Value
	}
	s.Why = fmt.Sprintf("%s makes it %s of %s %s, and nothing else of it: rendered before and after", p.chart, p.variable, p.target.Kind, p.target.Name)
	switch {
	case s.Missing && added && c.Arguments():
		s.Why = "not set; " + addedHere + "; " + s.Why
	case s.Missing:
		s.Why = "not set; " + s.Why
	case added:
		s.Why = "from the defaults of the chart; " + addedHere + "; " + s.Why
	}
	if p.rendered != nil {
		s.Container, s.Engine = p.rendered.Container, p.rendered.Engine
	}
	s.Object = p.named(s.Object)
	return s
}

// addedHere tells that a value takes the place of one that is written elsewhere.
const addedHere = "a value of this deployment alone is added here"

// named returns the values as an object that tells where they are.
func (p *probing) named(o *edit.Object) *edit.Object {
	c := *o
	c.Why = p.String()
	return &c
}

// refusal returns the error about a variable that no value decides alone.
func (p *probing) refusal() error {
	const most = 3
	var told []string
	why := fault.Invalid
	slices.SortStableFunc(p.refused, func(a, b refused) int {
		switch {
		case a.owned == b.owned:
			return 0
		case a.owned:
			return -1
		}
		return 1
	})
	for _, r := range p.refused {
		if r.owned {
			why = fault.Owned
		}
		if len(told) < most && (r.owned || why != fault.Owned) {
			told = append(told, fmt.Sprintf("%s:%d:%d (%s): %s", r.site.File(), r.site.Line, r.site.Column, r.site.Path, r.why))
		}
	}
	message := fmt.Sprintf("%s renders %s of %s %s", p.chart, p.variable, p.target.Kind, p.target.Name)
	if p.wanted.Set {
		message += " as " + edit.Clip(p.wanted.Value) + ", and no value decides it alone"
	} else {
		message = fmt.Sprintf("%s sets no %s of %s %s, and no value adds it alone", p.chart, p.variable, p.target.Kind, p.target.Name)
	}
	if n := len(p.refused) - most; n > 0 && why != fault.Owned {
		told = append(told, fmt.Sprintf("and %d more", n))
	}
	if len(told) > 0 {
		message += ": " + strings.Join(told, "; ")
	} else {
		message += ": its templates write or compute it; give it a value of its own in the chart"
	}
	err := &fault.Error{Reason: why, Message: message}
	if !p.wanted.Set {
		return isUnset(err)
	}
	return err
}
