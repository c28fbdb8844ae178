package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/app/cluster"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/manifests"
	"github.com/inference-responder/responder/internal/playbook"
)

// placeFlags say which variable of which service, and where its manifests are.
type placeFlags struct {
	config    string
	service   string
	flag      string
	replicas  bool
	container string
	component string
	kind      string
	engine    string
	unknown   string // what may be done with flags that no table knows

	path   string // local checkout
	source string // in it

	values  []string // Helm value files in it, in their order
	release string

	bounds playbook.Service // of the replicas, as the catalog has them; of a checkout none are known
}

func (f *placeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.service, "service", "", "name of the service: as the catalog has it, or NAMESPACE/WORKLOAD with --path")
	cmd.Flags().StringVar(&f.flag, "flag", "", "flag of the engine, without dashes in front")
	cmd.Flags().BoolVar(&f.replicas, "replicas", false, "the number of replicas, instead of a flag")
	cmd.Flags().StringVar(&f.config, "config", "responder.yaml", "configuration file")
	cmd.Flags().StringVar(&f.path, "path", "", "look in this local checkout instead; it needs no configuration")
	cmd.Flags().StringVar(&f.source, "source", "", "with --path: the directory in it that is deployed (default: all of it)")
	cmd.Flags().StringSliceVar(&f.values, "values", nil, "with --path: Helm value files that the chart is deployed with, in their order, as paths in the checkout")
	cmd.Flags().StringVar(&f.release, "release", "", "with --path: name of the Helm release (default: one with which the chart makes the workload)")
	cmd.Flags().StringVar(&f.kind, "kind", "Deployment", "with --path: kind of the workload, or of the object that Git holds")
	cmd.Flags().StringVar(&f.container, "container", "", "container of the engine (default: the catalog's, else the one that runs an engine)")
	cmd.Flags().StringVar(&f.component, "component", "", "component of a Dynamo graph, or of a set: decode, prefill, leader, worker (default: the one that the workload is made of)")
	cmd.Flags().StringVar(&f.engine, "engine", "", "serving engine, whose flags they are (default: the catalog's)")
	cmd.MarkFlagsMutuallyExclusive("flag", "replicas")
	// The errors are of flags that do not exist; they were added above.
	_ = cmd.RegisterFlagCompletionFunc("flag", completeFlags(func() string { return f.engine }))
	completeServiceFlag(cmd, func(context.Context) []cobra.Completion { return configuredServices(f.config) })
	_ = cmd.RegisterFlagCompletionFunc("engine", cobra.FixedCompletions(engine.Names(), cobra.ShellCompDirectiveNoFileComp))
}

func (f *placeFlags) variable() (gitops.Variable, error) {
	switch {
	case f.service == "":
		return gitops.Variable{}, errors.New("missing --service; 'responder services' lists the names")
	case f.flag == "" && !f.replicas:
		return gitops.Variable{}, errors.New("missing --flag or --replicas: a flag of the engine, or the number of replicas")
	case f.flag == "replicas":
		return gitops.Variable{}, errors.New("replicas is not a flag of an engine; use --replicas")
	case f.engine != "":
		if err := checkEngine(f.engine); err != nil {
			return gitops.Variable{}, err
		}
	}
	return gitops.Variable{Flag: f.flag, Replicas: f.replicas}, nil
}

// manifestTree reads where variables stand, of one container where it is named,
// and what a change of one would be.
type manifestTree interface {
	places(ctx context.Context, container string, vs ...gitops.Variable) ([]gitops.Place, error)
	propose(ctx context.Context, a gitops.Assignment) (gitops.Proposal, error)
}

// open finds the manifests: in a local checkout, or in the repository of the
// service. The function gives back what was opened. The engine is filled in
// where the catalog has it.
func (f *placeFlags) open(ctx context.Context, p *command.Process) (manifestTree, func() error, error) {
	if f.path != "" {
		c, err := promptly(ctx, f.checkout)
		f.bounds = playbook.Service{Name: f.service, MaxScale: math.MaxInt}
		return prompt{c}, func() error { return nil }, err
	}
	c, err := config.Load(f.config)
	if err != nil {
		return nil, nil, err
	}
	svc, err := findService(app.ConfiguredServices(c), f.service)
	if err != nil {
		return nil, nil, fmt.Errorf("%w in %s; services found in the cluster are known to a running service only, and --path looks in a checkout", err, c.File)
	}
	if f.container != "" {
		svc.Container = f.container
	}
	f.engine, f.bounds = cmp.Or(f.engine, svc.Engine), svc
	g, err := cluster.OpenGitOnce(c, p.Temp.Dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	src, target, err := g.Manifest(ctx, svc)
	if err != nil {
		return nil, nil, errors.Join(err, g.Close())
	}
	target.Component = cmp.Or(f.component, target.Component)
	return prompt{inRepository{g.Manifests, src, target}}, g.Close, nil
}

// prompt lets go of a calculation when ctx ends. Large manifests take their time,
// and what is calculated changes nothing: it ends with the program.
type prompt struct{ tree manifestTree }

func (t prompt) places(ctx context.Context, container string, vs ...gitops.Variable) ([]gitops.Place, error) {
	return promptly(ctx, func() ([]gitops.Place, error) { return t.tree.places(ctx, container, vs...) })
}

func (t prompt) propose(ctx context.Context, a gitops.Assignment) (gitops.Proposal, error) {
	return promptly(ctx, func() (gitops.Proposal, error) { return t.tree.propose(ctx, a) })
}

// promptly is what f gives, or an error as soon as ctx ends.
func promptly[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	got := make(chan answer, 1)
	go func() {
		value, err := f()
		got <- answer{value, err}
	}()
	select {
	case a := <-got:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, errors.New("interrupted; nothing was changed")
	}
}

// inRepository are the manifests of a service in its repository.
type inRepository struct {
	m      *manifests.Manifests
	src    gitops.Source
	target gitops.Target
}

func (r inRepository) places(ctx context.Context, container string, vs ...gitops.Variable) ([]gitops.Place, error) {
	r.target.Container = cmp.Or(container, r.target.Container)
	return r.m.Places(ctx, r.src, r.target, vs)
}

func (r inRepository) propose(ctx context.Context, a gitops.Assignment) (gitops.Proposal, error) {
	return r.m.Propose(ctx, gitops.Want{Source: r.src, Target: r.target, Set: []gitops.Assignment{a}})
}

// checkout is a local directory.
type checkout struct {
	files  []gitops.File
	source gitops.Source
	target gitops.Target
}

func (f *placeFlags) checkout() (checkout, error) {
	namespace, name, ok := strings.Cut(f.service, "/")
	if !ok {
		namespace, name = "", f.service
	}
	files, err := manifests.ReadDir(f.path, strings.TrimRight(f.source, "/"), f.values...)
	return checkout{
		files: files, source: gitops.Source{Path: strings.TrimRight(f.source, "/")},
		target: gitops.Target{Kind: f.kind, Namespace: namespace, Name: name, Container: f.container, Component: f.component, Path: strings.TrimRight(f.source, "/"), ValueFiles: f.values, Release: f.release},
	}, err
}

func (c checkout) places(_ context.Context, container string, vs ...gitops.Variable) ([]gitops.Place, error) {
	c.target.Container = cmp.Or(container, c.target.Container)
	var out []gitops.Place
	for _, v := range vs {
		places, err := gitops.Locate(c.files, c.target, v)
		if err != nil {
			return places, err
		}
		out = append(out, places...)
	}
	return out, nil
}

func (c checkout) propose(_ context.Context, a gitops.Assignment) (gitops.Proposal, error) {
	return manifests.Edit(c.files, gitops.Want{Source: c.source, Target: c.target, Set: []gitops.Assignment{a}})
}
