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

// fromValues returns the site of the variable in Helm values, for a target of which
// the tree has no manifest: where a chart that is known keeps it, or else where a chart
// of the tree takes it from. want is the value that it will be set to; empty: any.
func (tr *tree) fromValues(v Variable, want string) (*edit.Site, error) {
	layers, err := helm.Values(tr.Tree, tr.target.Path, tr.target.ValueFiles, tr.target.workload())
	if err != nil {
		return nil, err
	}
	s, err := tr.known(layers, v)
	if s == nil && err == nil {
		s, err = tr.fromCharts(v, want)
	}
	if s == nil && err == nil {
		err = tr.noManifest(layers)
	}
	return s, err
}

// fromHelmRelease returns the site of the variable in the values that the manifest of
// the target's HelmRelease holds.
func (tr *tree) fromHelmRelease(v Variable, want string) (*edit.Site, error) {
	r, err := tr.helmRelease()
	if err != nil {
		return nil, err
	}
	var s *edit.Site
	if t := tr.target; t.Listed || r.Makes(t.Release, t.workload()) {
		s, err = tr.known([]*edit.Object{r.Values}, v)
	}
	switch {
	case err != nil:
		return nil, err
	case s != nil && s.Missing && r.Refers():
		return nil, r.Owned(fmt.Sprintf("does not set %s, and takes values from ConfigMaps or Secrets, which may (spec.valuesFrom): set it in spec.values first", v))
	case s == nil:
		if s, err = tr.fromCharts(v, want); err != nil {
			return nil, err
		}
	}
	if s == nil {
		return nil, r.Owned(fmt.Sprintf("has no value that is known to be %s of %s %s/%s: %s cannot be rendered here or renders no such workload, and no chart that is known gives it that name",
			v, tr.target.Kind, tr.target.Namespace, tr.target.Name, r.Chart()))
	}
	if s.Doc == nil || !slices.ContainsFunc(r.Object.Docs, func(d *edit.Document) bool { return d.File == s.File() }) {
		return nil, r.Owned(fmt.Sprintf("does not decide %s: a change would be one of the chart's own files, which Flux does not release with it", v))
	}
	s.Object = s.Object.HeldBy(r.Object)
	if tr.edited != nil {
		return s, nil // that nobody shares it was checked before the edit
	}
	return s, tr.builds.CheckShared(s)
}

// Made returns an error unless the HelmRelease of the target is known to make it: Flux
// lists it, or the chart is known and calls it that, or the chart is in the tree and
// renders it. What the target's labels say does not count, as whoever creates it writes
// them.
func Made(files []File, t Target) error {
	if t.HelmRelease == "" || t.Listed {
		return nil
	}
	tr, err := newTree(files, t)
	if err != nil {
		return err
	}
	r, err := tr.helmRelease()
	if err != nil || r.Makes(t.Release, t.workload()) {
		return err
	}
	making, err := tr.making()
	if err == nil && len(making) == 0 {
		err = r.Owned(fmt.Sprintf("is not known to make %s %s/%s: its status lists no objects (Flux before 2.8), %s cannot be rendered here or renders no such workload, and no chart that is known gives it that name",
			t.Kind, t.Namespace, t.Name, r.Chart()))
	}
	return err
}

// Written returns the documents that the HelmRelease of the target is built of, as
// [Target.Written] has them.
func Written(files []File, t Target) []string {
	if t.HelmRelease == "" {
		return nil
	}
	var out []string
	for _, o := range releasesOf(files, t) {
		for _, d := range o.Docs {
			if root, err := d.Parse(); err == nil {
				out = append(out, d.File+":"+edit.Str(root, "metadata", "name"))
			}
		}
	}
	return out
}

// releasesOf returns the manifests of the target's HelmRelease; none where they cannot be
// read.
func releasesOf(files []File, t Target) []*edit.Object {
	tr, err := newTree(files, t)
	if err != nil {
		return nil
	}
	all, err := tr.objects()
	if err != nil {
		return nil
	}
	namespace, name, _ := strings.Cut(t.HelmRelease, "/")
	return helm.Manifests(all, namespace, name)
}

// Removed reports whether files do not make the target any more that others make by a
// HelmRelease: it is gone, or the part of its values is, or its chart renders it no more.
func Removed(before, after []File, t Target) bool {
	if len(releasesOf(before, t)) > 0 && len(releasesOf(after, t)) == 0 {
		return true
	}
	parts := func(files []File) int {
		tr, err := newTree(files, t)
		if err != nil {
			return 0
		}
		r, err := tr.helmRelease()
		if err != nil {
			return 0
		}
		return r.Parts(t.workload())
	}
	if parts(before) > 0 && parts(after) == 0 {
		return true
	}
	t.Listed = false
	return Made(before, t) == nil && Made(after, t) != nil
}

// workload returns the target as the charts look for it.
func (t Target) workload() helm.Workload {
	return helm.Workload{Kind: t.Kind, Namespace: t.Namespace, Name: t.Name}
}

// helmRelease returns the HelmRelease that makes the target.
func (tr *tree) helmRelease() (*helm.Release, error) {
	if tr.release != nil {
		return tr.release, nil
	}
	all, err := tr.objects()
	if err != nil {
		return nil, err
	}
	namespace, name, _ := strings.Cut(tr.target.HelmRelease, "/")
	tr.release, err = helm.ReleaseOf(all, namespace, name, tr.target.workload())
	return tr.release, err
}

// known returns the site of the variable in values of the charts that are known, or nil.
func (tr *tree) known(layers []*edit.Object, v Variable) (*edit.Site, error) {
	var present, absent []*edit.Site
	for _, o := range layers {
		sites, err := tr.inValues(o, tr.target, v)
		if err != nil {
			return nil, err
		}
		for _, s := range sites {
			if s.Missing {
				absent = append(absent, s)
			} else {
				present = append(present, s)
			}
		}
	}
	all := present
	if len(present) == 0 {
		all = absent
	}
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		return all[0], nil
	}
	return nil, ambiguous(placesOf(all), "several Helm values are for "+tr.target.Kind+" "+tr.target.Name)
}

// noManifest returns the error about a target of which the tree has neither a
// manifest nor values, with what was read.
func (tr *tree) noManifest(layers []*edit.Object) error {
	looked := 0
	for _, p := range tr.Paths() {
		if edit.Below(p, tr.target.Path) {
			looked++
		}
	}
	if looked == 0 && tr.target.Path != "" {
		return notFound("there is no directory %s, or no manifest is in it", edit.Clip(tr.target.Path))
	}
	message := fmt.Sprintf("no manifest and no Helm values of %s %s/%s among %d files", tr.target.Kind, tr.target.Namespace, tr.target.Name, looked)
	if tr.target.Path != "" {
		message += " below " + edit.Clip(tr.target.Path)
	}
	if len(tr.elsewhere) > 0 {
		message += "; " + strings.Join(tr.elsewhere[:min(3, len(tr.elsewhere))], ", ")
	}
	for _, o := range layers {
		message += "; " + o.Docs[0].File + " has values, but none for this name"
	}
	for _, a := range tr.builds.Absent() {
		message += "; " + a
	}
	for _, p := range tr.Paths() {
		if helm.IsTemplate(tr.Tree, p) && path.Ext(p) == ".yaml" {
			message += "; the templates of a Helm chart are not edited"
			break
		}
	}
	if name := tr.generated(); name != "" {
		message += "; the ApplicationSet " + edit.Clip(name) + " makes applications from a template, which is not read: name the directory and the value files of the chart that it deploys"
	}
	return &fault.Error{Reason: fault.NotFound, Message: message + tr.unread()}
}

// generated returns the name of an ApplicationSet of the tree, or "".
func (tr *tree) generated() string {
	for _, p := range tr.Paths() {
		if !edit.IsYAML(p) || !strings.Contains(string(tr.File(p)), "kind: ApplicationSet") {
			continue
		}
		docs, err := tr.Open(p)
		if err != nil {
			continue // it is named among what could not be read
		}
		for _, d := range docs {
			if root, err := d.Parse(); err == nil && edit.Str(root, "kind") == "ApplicationSet" {
				return edit.Str(root, "metadata", "name")
			}
		}
	}
	return ""
}

// unread returns the files that could not be read, in words: they do not mention the
// target, but may concern it.
func (tr *tree) unread() string {
	const most = 3
	var causes []string
	errs := tr.builds.Failures(tr.target.Path)
	for _, p := range tr.Paths() {
		if edit.Below(p, tr.target.Path) {
			errs = append(errs, tr.Failures(p)...)
		}
	}
	for _, err := range errs {
		if !slices.Contains(causes, err.Error()) {
			causes = append(causes, err.Error())
		}
	}
	switch n := len(causes); {
	case n == 0:
		return ""
	case n > most:
		causes = append(causes[:most:most], fmt.Sprintf("and %d more", n-most))
	}
	return "; not read: " + strings.Join(causes, ", ")
}

// inValues returns the sites of the variable in the values of the charts that are
// known.
func (tr *tree) inValues(o *edit.Object, t Target, v Variable) ([]*edit.Site, error) {
	var out []*edit.Site
	release := ""
	if t.HelmRelease != "" && !t.Listed {
		release = t.Release
	}
	for _, chart := range helm.Charts(o, release) {
		for _, m := range chart.Models(t.workload()) {
			s, err := tr.inModel(m, v)
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		}
		section, err := chart.Section(t.workload(), t.Component, v.Replicas)
		if err != nil {
			return nil, err
		}
		if section == nil {
			continue
		}
		var s *edit.Site
		if v.Replicas {
			s, err = section.Replicas()
		} else {
			s, err = findIn(tr.podContainers(o, section.Node, section.Name, section.Path), t, v)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// inModel returns the site of the variable in a model of the production stack.
func (tr *tree) inModel(m helm.Model, v Variable) (*edit.Site, error) {
	if v.Replicas {
		return m.Replicas(v.Bound)
	}
	if envName.MatchString(v.Flag) {
		return findEnv([]container{tr.newContainer(m.Env(), "", nil)}, v)
	}
	config, ok := m.Config()
	if !ok {
		s, err := m.NewConfig(v.flag())
		if s != nil {
			s.Engine = "vllm"
		}
		return s, err
	}
	c := tr.newContainer(config, "", nil)
	args, err := helm.ExtraArgs(c.Container)
	if err != nil {
		return nil, err
	}
	l := line{args, c}
	s, err := l.inStack(v)
	if s != nil {
		s.Engine = "vllm"
		m.Alone(s)
	}
	return s, err
}

// inStack returns the site of a flag in the values of the production stack.
func (l line) inStack(v Variable) (*edit.Site, error) {
	c := l.container
	if s, err := l.find(v); s != nil || err != nil {
		return s, err
	}
	if s, err := helm.Setting(c.Container, v.flag()); s != nil || err != nil {
		return s, err
	}
	if !l.Empty() {
		return l.missing(v)
	}
	s, err := helm.NewSetting(c.Container, v.flag())
	if err != nil {
		return nil, isUnset(err)
	}
	return s, nil
}
