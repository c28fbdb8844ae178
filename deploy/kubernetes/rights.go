// Package kubernetes holds the manifests that `kubectl apply -k` installs. They are
// the one list of the rights that Responder needs.
package kubernetes

import (
	"bytes"
	_ "embed" // the manifests
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed levers.yaml
var levers []byte

//go:embed rbac.yaml
var reading []byte

// Rule is a rule of a role.
type Rule struct {
	APIGroups []string `yaml:"apiGroups"`
	Resources []string `yaml:"resources"` // with a subresource after a slash
	Verbs     []string `yaml:"verbs"`
}

// Role is a ClusterRole of the manifests.
type Role struct {
	Name    string
	Levers  []string // kinds of levers that need it; empty: all that Responder does
	Cluster bool     // bound for the whole cluster, not per namespace
	Rules   []Rule
}

// Annotations of a role.
const (
	leversOf = "responder.dev/levers" // the levers that need it
	bind     = "responder.dev/bind"   // how it is bound: cluster
)

// Roles returns the roles of the manifests, the one for reading first.
func Roles() ([]Role, error) {
	var out []Role
	for _, file := range [][]byte{reading, levers} {
		d := yaml.NewDecoder(bytes.NewReader(file))
		for {
			var doc struct {
				Kind     string
				Metadata struct {
					Name        string
					Annotations map[string]string
				}
				Rules []Rule
			}
			err := d.Decode(&doc)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("read the roles of deploy/kubernetes: %w", err)
			}
			if doc.Kind != "ClusterRole" {
				continue
			}
			r := Role{Name: doc.Metadata.Name, Cluster: doc.Metadata.Annotations[bind] == "cluster", Rules: doc.Rules}
			if names := doc.Metadata.Annotations[leversOf]; names != "" {
				r.Levers = strings.Split(names, ",")
			}
			out = append(out, r)
		}
	}
	return out, nil
}

// Needed returns the roles that a kind of lever needs; none: it writes nothing in the
// cluster.
func Needed(roles []Role, lever string) []Role {
	return slices.DeleteFunc(slices.Clone(roles), func(r Role) bool { return !slices.Contains(r.Levers, lever) })
}
