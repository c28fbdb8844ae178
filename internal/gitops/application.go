package gitops

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// Application is the state of an Argo CD application, or of a Kustomization of Flux: of
// one alone, or together with a HelmRelease that it deploys.
type Application struct {
	Name      string // namespace/name of Argo CD's; of Flux's see [FluxName] and [FluxHelmName]
	Project   string
	UID       string
	Sources   []Source   // several for multi-source applications; never empty
	Chart     []string   // of each source: the Helm chart, when it is of a chart repository
	Target    []string   // targetRevision of each source
	Values    [][]string // of each source: Helm's value files as written, below the path or as $REF/FILE of another source; of a HelmRelease its chart's directory
	Refs      []string   // of each source: the name by which value files refer to it; empty: none
	Releases  []string   // of each source: the name that it gives Helm's release; empty: the application's
	Revisions []string   // revision of each source that the live state was compared with last
	Sync      string     // Synced, OutOfSync, Unknown
	Health    string     // Healthy, Progressing, Degraded, Suspended, Missing, Unknown
	Message   string     // of the health, without secrets

	Compared  time.Time // when Sync and Health were found
	Automated bool      // auto-sync is on
	SelfHeal  bool
	Prunes    bool      // auto-sync deletes what is no longer in Git
	Operation Operation // the running one, or the last one
	Window    string    // sync window that forbids a sync now, by auto-sync or, where it is off, by us; empty: none
	Suspended string    // the object of Flux that is suspended; empty: none
	Polls     string    // how often Git is looked at without being asked, as 1m0s; empty: not known
	Generator string    // ApplicationSet that makes it; empty: none
	Hydrated  bool      // Argo CD's source hydrator writes what is synced: a commit of the sources is never the synced one
	Deleting  bool
	Problems  []string   // error conditions: ComparisonError: ..., SyncError: ...
	Overrides []Override // what its spec decides beside its sources' manifests
	Ignored   []Ignored  // fields that neither a sync nor self-heal changes back

	Resources []Resource
	Made      []Resource   // what a HelmRelease of Flux has made of its chart; empty: it is none, or its status does not list it
	History   []Deployment // oldest first
}

// Ignored are fields of objects that an application leaves alone
// (spec.ignoreDifferences, with RespectIgnoreDifferences).
type Ignored struct {
	Group, Kind, Namespace, Name string   // empty Namespace or Name: of all
	Fields                       []string // JSON pointers and jq paths
}

// some is a path that selects some of the elements of a list, or some objects.
var some = regexp.MustCompile(`[/\[]\d|select\(`)

// Ignores reports whether the application leaves a field of an object alone, wherever it
// is. The field is the last name of the paths, such as weight; a path to one element of
// a list leaves those of the others to Argo CD.
func (a Application) Ignores(group, kind, namespace, name, field string) bool {
	return slices.ContainsFunc(a.Ignored, func(i Ignored) bool {
		return i.Group == group && i.Kind == kind && (i.Namespace == "" || i.Namespace == namespace) && (i.Name == "" || i.Name == name) &&
			slices.ContainsFunc(i.Fields, func(f string) bool {
				return (strings.HasSuffix(f, "/"+field) || strings.HasSuffix(f, "."+field)) && !some.MatchString(f)
			})
	})
}

// Operation is a sync of an application.
type Operation struct {
	Running   bool
	DryRun    bool
	Phase     string // Running, Succeeded, Failed, Error, Terminating; empty: asked for and not begun, or there was none
	Message   string
	Revisions []string // it syncs or synced, one for each source
	By        string   // who started it; "" : automated
	Key       string   // idempotency key of a sync that we asked for; empty: somebody else's
	Started   time.Time
	Finished  time.Time
}

// Resource is one live object that an application manages.
type Resource struct {
	Group, Kind, Namespace, Name string
	Sync, Health, Message        string // Health is empty for kinds that have none
	Hook, Prune                  bool   // it is a hook; it is to be deleted and no longer in Git
}

// Same reports whether both are the same object, in whatever state.
func (r Resource) Same(other Resource) bool {
	return r.Group == other.Group && r.Kind == other.Kind && r.Namespace == other.Namespace && r.Name == other.Name
}

// String returns group/Kind namespace/name.
func (r Resource) String() string {
	s := r.Kind
	if r.Group != "" {
		s = r.Group + "/" + s
	}
	if r.Namespace != "" {
		return s + " " + r.Namespace + "/" + r.Name
	}
	return s + " " + r.Name
}

// Deployment is one entry of an application's history.
type Deployment struct {
	ID        int64
	Revisions []string
	Started   time.Time // when the sync began; zero: not known
	At        time.Time // when it ended
	By        string    // empty: automated

	// Differs names what the application's own spec said otherwise then:
	// "spec.source.helm". A sync to these revisions takes it as it says now.
	// Empty: nothing but the revision.
	Differs string
}
