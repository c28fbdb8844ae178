package gitops

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/credential"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/command"
	"github.com/inference-responder/responder/internal/gitops/edit"
)

// Locate returns the place in the tree where a variable of the target takes effect.
// For a flag that is not set, it is the place where Set would add it, and Missing is
// true. The reason of a [*fault.Error] is Ambiguous, with the places, if several may
// take effect; NotFound; Invalid or OutOfBounds for files that cannot be read or
// edited safely; and Owned if a change would change another target too.
func Locate(files []File, t Target, v Variable) ([]Place, error) {
	s, err := resolve(files, t, v)
	if several := new(ambiguousError); errors.As(err, &several) {
		return several.places, several.err
	}
	if err != nil {
		return nil, err
	}
	return []Place{placeOf(s)}, nil
}

var (
	flagName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,127}$`)
	envName  = regexp.MustCompile(`^[A-Z][A-Z0-9_]+$`)
)

// fileOf ends the name of a flag that says in which file something is.
var fileOf = regexp.MustCompile(`(?i)[-_]?(?:file|path)s?$`)

func (v Variable) check() error {
	switch {
	case v.Replicas && v.Flag != "":
		return &fault.Error{Reason: fault.Invalid, Message: "a variable is a flag or the replicas, not both"}
	case v.Replicas && v.Bound != "" && v.Bound != "min" && v.Bound != "max":
		return &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("the bound %q is neither min nor max", edit.Clip(v.Bound))}
	case credential.Named(v.Flag), credential.Named(fileOf.ReplaceAllString(v.Flag, "")):
		return &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s holds a credential: it is neither shown nor changed here", v)}
	case !v.Replicas && !flagName.MatchString(v.Flag):
		return &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%q is not the name of a flag: write it without leading dashes, like max-num-seqs", edit.Clip(v.Flag))}
	}
	return nil
}

func (v Variable) flag() command.Flag { return command.Flag{Name: v.Flag, Switch: v.Switch} }

// String returns the variable in words.
func (v Variable) String() string {
	switch {
	case v.Replicas:
		return "replicas"
	case envName.MatchString(v.Flag):
		return v.Flag
	}
	return "--" + v.Flag
}

// resolve returns the one site that takes effect.
func resolve(files []File, t Target, v Variable) (*edit.Site, error) {
	return resolveKnown(files, t, v, "", nil)
}

// resolveKnown resolves with a document of the files that is already parsed and that
// nothing else uses. want is the value that the variable will be set to; empty: any.
func resolveKnown(files []File, t Target, v Variable, want string, known *edit.Document) (*edit.Site, error) {
	tr, err := newTree(files, t)
	if err != nil {
		return nil, err
	}
	tr.Know(known)
	tr.edited = known
	return tr.resolveFor(v, want)
}

// resolve returns the one site of the variable that takes effect.
func (tr *tree) resolve(v Variable) (*edit.Site, error) { return tr.resolveFor(v, "") }

// resolveFor returns the one site of the variable that takes effect. want is the value
// that it will be set to; empty: any.
func (tr *tree) resolveFor(v Variable, want string) (*edit.Site, error) {
	t := tr.target
	if err := v.check(); err != nil {
		return nil, err
	}
	if t.Kind == "" || t.Name == "" {
		return nil, &fault.Error{Reason: fault.Invalid, Message: "the target has no kind or no name"}
	}
	all, err := tr.objects()
	if err != nil {
		return nil, err
	}
	tr.all = all
	if t.HelmRelease != "" {
		return tr.fromHelmRelease(v, want)
	}
	candidates := tr.candidates(all)
	if len(candidates) == 0 {
		return tr.fromValues(v, want)
	}
	var sites []*edit.Site
	for _, c := range candidates {
		s, err := tr.findInObject(c.object, t, c.component, v)
		if err != nil {
			return nil, err
		}
		sites = append(sites, s)
	}
	if len(sites) > 1 {
		return nil, ambiguous(placesOf(sites), "several manifests are "+candidates[0].object.String()+byBuilds(candidates))
	}
	return sites[0], tr.builds.CheckShared(sites[0])
}

// byBuilds returns the kustomizations that build the candidates, in words.
func byBuilds(candidates []candidate) string {
	var dirs []string
	for _, c := range candidates {
		if c.object.Builder != "" {
			dirs = append(dirs, c.object.Builder)
		}
	}
	if len(dirs) == 0 {
		return ""
	}
	return " (built by " + strings.Join(dirs, ", ") + ")"
}

func placesOf(sites []*edit.Site) []Place {
	var out []Place
	for _, s := range sites {
		out = append(out, placeOf(s))
	}
	return out
}

// candidate is an object that may be the target's manifest.
type candidate struct {
	object    *edit.Object
	component string
}

// candidates returns the objects that are the target, or else its owners.
func (tr *tree) candidates(all []*edit.Object) []candidate {
	var exact, owners []candidate
	for _, o := range all {
		if o.Namespace != "" && tr.target.Namespace != "" && o.Namespace != tr.target.Namespace {
			tr.addElsewhere(o)
			continue
		}
		if o.Kind == tr.target.Kind && o.Name == tr.target.Name {
			exact = append(exact, candidate{o, componentOf(o, tr.target)})
		} else if component, owns := ownedComponent(o, tr.target); owns {
			if tr.target.Component != "" {
				component = tr.target.Component
			}
			owners = append(owners, candidate{o, component})
		} else {
			tr.addElsewhere(o)
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return owners
}

// componentOf returns the component of the object that the target names, or that its
// workload is made of, or "".
func componentOf(o *edit.Object, t Target) string {
	if t.Component != "" || t.Workload == "" {
		return t.Component
	}
	c, _ := ownedComponent(o, Target{Kind: "Deployment", Name: t.Workload})
	return c
}

// What KServe adds to the name of its object: of an InferenceService also with Knative's
// revision, of an LLMInferenceService over several nodes as well.
var (
	predictor = regexp.MustCompile(`^-predictor(?:-default)?(?:-\d{5}(?:-deployment)?)?$`)
	kserveLLM = regexp.MustCompile(`^-kserve(?:-mn)?(?:-prefill)?$`)
)

// ownedComponent reports whether an operator makes the target from the object, by the
// way the operator names it, and returns the component.
func ownedComponent(o *edit.Object, t Target) (component string, ok bool) {
	rest, named := strings.CutPrefix(t.Name, o.Name)
	switch {
	case o.Kind == "InferenceService":
		return "", named && predictor.MatchString(rest)
	case o.Kind == llmInferenceService && named && kserveLLM.MatchString(rest):
		if strings.HasSuffix(rest, "-prefill") {
			return "prefill", true
		}
		return "decode", true
	case o.Kind == "LeaderWorkerSet" && t.Kind == "StatefulSet":
		return "", named && rest == ""
	case o.Kind == dynamoGraph && named:
		for _, c := range components(o) {
			if strings.EqualFold(rest, "-"+c) {
				return c, true
			}
		}
	}
	return "", false
}

// objects returns the objects of the tree that may be or concern the target.
func (tr *tree) objects() ([]*edit.Object, error) {
	built, err := tr.builds.Objects()
	if err != nil {
		return nil, err
	}
	plain, err := tr.plain()
	return append(built, plain...), err
}

// findInObject returns the site of the variable in an object.
func (tr *tree) findInObject(o *edit.Object, t Target, component string, v Variable) (*edit.Site, error) {
	based, err := tr.onBases(o)
	if err != nil {
		return nil, err
	}
	s, err := tr.findInOne(based.Object, t, component, v)
	if err != nil {
		return nil, err
	}
	return s, based.check(s, v)
}

// findInOne returns the site of the variable in an object by itself.
func (tr *tree) findInOne(o *edit.Object, t Target, component string, v Variable) (*edit.Site, error) {
	if o.Kind == rayService {
		if s, err := tr.inRay(o, component, v); s != nil || err != nil {
			return s, err
		}
	}
	if v.Replicas {
		return tr.replicas(o, component, v, tr.all)
	}
	containers := tr.matchingContainers(o, t, component)
	if len(containers) == 0 {
		switch {
		case templates[o.Kind] == nil && o.Kind != dynamoGraph && o.Kind != "Model":
			return nil, notFound("%s: the kind %s is not known, so neither is where it keeps its containers", o, edit.Clip(o.Kind))
		case len(tr.containers(o)) == 0:
			return nil, notFound("%s has no containers", o)
		}
		return nil, notFound("%s has no container %q%s (it has: %s)", o, edit.Clip(t.Container), ofComponent(component), tr.containerNames(o))
	}
	if err := checkComponent(o, t, component, containers); err != nil {
		return nil, err
	}
	return findIn(containers, t, v)
}

// findIn returns the site of a flag or variable in one of several containers.
func findIn(containers []container, t Target, v Variable) (*edit.Site, error) {
	if t.Container != "" {
		containers = slices.DeleteFunc(containers, func(c container) bool { return c.Name != t.Container })
	}
	if envName.MatchString(v.Flag) {
		return findEnv(containers, v)
	}
	var sites []*edit.Site
	var setBy []container
	var lines []line
	onlyOthers := true // no container that may run an engine sets it
	for _, c := range containers {
		l, err := c.commandLine()
		if err == nil {
			program := l.Program()
			var s *edit.Site
			if s, err = l.find(v); s != nil {
				s.Engine = program.Name
				sites, setBy = append(sites, s), append(setBy, c)
				onlyOthers = onlyOthers && program.Other != ""
			}
		}
		if err != nil && (len(containers) == 1 || c.mentions(v.Flag)) {
			return nil, err
		}
		if err == nil {
			lines = append(lines, l)
		}
	}
	if onlyOthers && slices.ContainsFunc(lines, func(l line) bool { return l.Program().Engine }) {
		sites = nil // a flag of that name of another program
	}
	switch len(sites) {
	case 0:
		return absent(lines, t, v)
	case 1:
		return sites[0], nil
	}
	return nil, severalContainers(sites, setBy, "several containers set "+v.String())
}

func ofComponent(c string) string {
	if c == "" {
		return ""
	}
	return " of component " + edit.Clip(c)
}

func (tr *tree) containerNames(o *edit.Object) string {
	var names []string
	for _, c := range tr.containers(o) {
		name := c.Name
		if c.component != "" {
			name = c.component + "/" + name
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// find returns the site of a flag in a container: on its command line, or else in the
// configuration file or the variable that the command line names. It is nil if the
// flag is not set.
func (l line) find(v Variable) (*edit.Site, error) {
	hits, err := l.Hits(v.Flag)
	if err != nil {
		return nil, err
	}
	if len(hits) == 0 {
		if s, err := l.indirect(v); s != nil || err != nil {
			return s, err
		}
		return l.inRuntime(v)
	}
	h, rival, err := command.Last(hits)
	if err != nil {
		return nil, err
	}
	if rival != nil {
		return nil, ambiguous(placesOf([]*edit.Site{rival.Site(), h.Site()}), "several commands of one script set it")
	}
	s := h.Site()
	if v.Switch && h.Form == "boolean" {
		s.Set = func(value string) (edit.Splice, error) {
			if value != "false" {
				return edit.Splice{}, &fault.Error{Reason: fault.Invalid, Message: v.String() + " takes true or false"}
			}
			return h.Unset()
		}
	}
	name := command.VariableName(h.Value)
	fallback, _, hasDefault := command.Default(h.Value)
	switch {
	case name != "":
		return l.variable(name, s)
	case hasDefault:
		if given, err := l.container.Environment(fallback); err != nil || given != nil || l.CheckAssigned(fallback, s.Node) != nil {
			return l.variable(fallback, s)
		}
		if l.container.fromElsewhere() {
			return nil, l.container.Object.Invalid(s.Node, fmt.Sprintf("the value is $%s, which envFrom may set", fallback))
		}
		return h.DefaultSite()
	case strings.Contains(h.Value, "$") || strings.Contains(h.Value, "{{"):
		return nil, l.container.Object.Invalid(s.Node, fmt.Sprintf("the value of --%s is filled in when it runs (%s)", v.Flag, edit.Clip(h.Value)))
	}
	return s, nil
}

// variable returns the site of the value of a variable that a flag takes: in the script,
// where that sets it, or else in the manifest.
func (l line) variable(name string, from *edit.Site) (*edit.Site, error) {
	if credential.Named(name) {
		return l.container.reference(name, from)
	}
	assigned := l.CheckAssigned(name, from.Node)
	given, err := l.container.Environment(name)
	if err != nil {
		return nil, err
	}
	if assigned != nil || given == nil && !l.container.fromElsewhere() {
		if s, err := l.Constant(name, from); s != nil || err != nil {
			return s, err
		}
	}
	if assigned != nil {
		return nil, assigned
	}
	return l.container.reference(name, from)
}

// fromElsewhere reports whether the container may have variables that are not in the tree.
func (c container) fromElsewhere() bool { return len(edit.List(c.Node, "envFrom")) > 0 }

// reference returns the site of the variable in --flag=$(NAME).
func (c container) reference(name string, from *edit.Site) (*edit.Site, error) {
	if credential.Named(name) {
		return nil, c.Object.Invalid(from.Node, fmt.Sprintf("the value is $%s, a credential, which is neither shown nor changed here", name))
	}
	v, err := c.Environment(name)
	switch {
	case err != nil:
		return nil, err
	case v == nil || v.Node == nil:
		return nil, c.Object.Invalid(from.Node, fmt.Sprintf("the value is $%s, which the manifest does not set", name))
	case strings.Contains(v.Text(), "$("):
		return nil, v.Doc.Invalid(v.Node, fmt.Sprintf("the value of $%s is itself filled in when the pod starts (%s): change it where it comes from", name, edit.Clip(v.Text())))
	}
	s := v.Site(c.Object, "the command line takes the value from this variable ("+from.Path+")")
	s.Container = c.Name
	return s, nil
}

// findEnv returns the site of an environment variable in one of several containers.
func findEnv(containers []container, v Variable) (*edit.Site, error) {
	var sites []*edit.Site
	var setBy []container
	for _, c := range containers {
		s, err := c.envSite(v.Flag)
		if err != nil {
			return nil, err
		}
		if s != nil {
			sites, setBy = append(sites, s), append(setBy, c)
		}
	}
	switch {
	case len(sites) == 1:
		return sites[0], nil
	case len(sites) > 1:
		return nil, severalContainers(sites, setBy, "several containers have "+v.Flag)
	case len(containers) == 1:
		return containers[0].addEnv(v.Flag)
	}
	return nil, notFound("no container of %s has %s: name the container to add it to", containers[0].Object, v.Flag)
}

// absent returns the site at which a flag that no container sets would be added: in
// the one that runs an engine. The container that the target names may run a program
// that is not known.
func absent(lines []line, t Target, v Variable) (*edit.Site, error) {
	var engines []line
	var other []string // containers that run no engine, in words
	for _, l := range lines {
		p := l.Program()
		switch {
		case p.Other != "":
			other = append(other, fmt.Sprintf("%s runs %s", l.container.Name, edit.Clip(p.Other)))
		case p.Engine, t.Container != "", len(lines) == 1 && l.NamedEngine():
			engines = append(engines, l)
		}
	}
	var sites []*edit.Site
	var in []container
	for _, l := range engines {
		s, err := l.missing(v)
		if err != nil {
			return nil, err
		}
		sites, in = append(sites, s), append(in, l.container)
	}
	switch len(sites) {
	case 0:
		why := "none is known to run an engine"
		if len(other) > 0 {
			why += " (" + strings.Join(other, ", ") + ")"
		}
		if t.Container == "" {
			why += ": name the container"
		}
		return nil, isUnset(notFound("no container sets %s, and %s", v, why))
	case 1:
		return sites[0], nil
	}
	return nil, isUnset(severalContainers(sites, in, "several containers run an engine and none sets "+v.String()))
}
