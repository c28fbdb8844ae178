package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	pathpkg "path"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	helmengine "helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/ignore"
	"sigs.k8s.io/yaml"

	"github.com/inference-responder/responder/internal/gitops/helm"
)

// Limits of the process.
const (
	maxMemory  = 512 << 20 // bytes of data
	maxSeconds = 15        // of processor time
	maxInput   = 256 << 20 // bytes: base64 of the files of a repository
	maxOutput  = 16 << 20  // bytes of one rendering
	maxArchive = 20 << 20  // bytes of a vendored chart, unpacked
)

// Main reads a request and writes the results. It returns the exit code of the
// process, whose resources it limits.
func Main(stdin io.Reader, stdout, stderr io.Writer) int {
	if err := limit(); err != nil {
		fmt.Fprintln(stderr, "limit the process:", err)
		return 1
	}
	var req helm.Request
	if err := json.NewDecoder(io.LimitReader(stdin, maxInput)).Decode(&req); err != nil {
		fmt.Fprintln(stderr, "read the request:", err)
		return 1
	}
	if err := json.NewEncoder(stdout).Encode(Render(req)); err != nil {
		fmt.Fprintln(stderr, "write the results:", err)
		return 1
	}
	return 0
}

func limit() error {
	debug.SetMemoryLimit(maxMemory / 2)
	loader.MaxDecompressedChartSize, loader.MaxDecompressedFileSize = maxArchive, maxArchive/4
	for what, most := range map[int]uint64{syscall.RLIMIT_DATA: maxMemory, syscall.RLIMIT_CPU: maxSeconds} {
		if err := syscall.Setrlimit(what, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
			return err
		}
	}
	return nil
}

// Render renders every variant of a request.
func Render(req helm.Request) []helm.Rendered {
	out := make([]helm.Rendered, len(req.Variants))
	for i, v := range req.Variants {
		files, unchecked, err := render(req, v)
		out[i] = helm.Rendered{Files: files, Unchecked: unchecked}
		if err != nil {
			out[i] = helm.Rendered{Error: err.Error()}
		}
	}
	return out
}

// render renders a chart as helm template does.
func render(req helm.Request, v helm.Variant) (files map[string]string, unchecked string, err error) {
	c, err := load(req, v)
	if err != nil {
		return nil, "", err
	}
	values := map[string]any{}
	for _, text := range v.Values {
		layer := map[string]any{}
		if err := yaml.Unmarshal(text, &layer); err != nil {
			return nil, "", fmt.Errorf("read the values: %w", err)
		}
		values = merge(values, layer)
	}
	if err := vendored(c, values); err != nil {
		return nil, "", err
	}
	if err := chartutil.ProcessDependenciesWithMerge(c, values); err != nil {
		return nil, "", err
	}
	unchecked = beyond(c)
	release := chartutil.ReleaseOptions{Name: v.Release, Namespace: req.Namespace, Revision: 1, IsInstall: true}
	caps, err := capabilities(v)
	if err != nil {
		return nil, "", err
	}
	top, err := chartutil.ToRenderValuesWithSchemaValidation(c, values, release, caps, unchecked != "")
	if err != nil {
		return nil, "", err
	}
	made, err := helmengine.Engine{}.Render(c, top)
	if err != nil {
		return nil, "", err
	}
	files, left := map[string]string{}, maxOutput
	if v.Show {
		shown, err := yaml.Marshal(top["Values"])
		if err != nil {
			return nil, "", fmt.Errorf("write the values: %w", err)
		}
		files[helm.ValuesFile] = string(shown)
	}
	for path, text := range made {
		if left -= len(text); left < 0 {
			return nil, "", fmt.Errorf("it renders more than %d MiB", maxOutput>>20)
		}
		_, below, _ := strings.Cut(path, "/") // the first part is the chart's name
		if strings.TrimSpace(text) != "" && !strings.HasSuffix(path, "/NOTES.txt") {
			files[below] = text
		}
	}
	return files, unchecked, nil
}

// capabilities returns what the chart takes the cluster for: as the application says,
// or else as Helm does without a cluster.
func capabilities(v helm.Variant) (*chartutil.Capabilities, error) {
	caps := chartutil.DefaultCapabilities.Copy()
	if v.KubeVersion != "" {
		kube, err := chartutil.ParseKubeVersion(v.KubeVersion)
		if err != nil {
			return nil, fmt.Errorf("read the version of Kubernetes %q: %w", v.KubeVersion, err)
		}
		caps.KubeVersion = *kube
	}
	caps.APIVersions = append(slices.Clone(caps.APIVersions), v.APIVersions...)
	return caps, nil
}

// load reads the chart of a variant, without the files that its .helmignore names.
func load(req helm.Request, v helm.Variant) (*chart.Chart, error) {
	ignored, err := ignores(req.Files[ignore.HelmIgnore])
	if err != nil {
		return nil, err
	}
	var files []*loader.BufferedFile
	for path, data := range req.Files {
		if ignored(path) {
			continue
		}
		if own, changed := v.Files[path]; changed {
			data = own
		}
		files = append(files, &loader.BufferedFile{Name: path, Data: data})
	}
	c, err := loader.LoadFiles(files)
	switch {
	case err != nil:
		return nil, err
	case c.Metadata.Type == "library":
		return nil, errors.New("it is a library chart, which makes nothing by itself")
	}
	return c, nil
}

// ignores returns a function that reports whether a .helmignore names a file, or a
// directory that it is in.
func ignores(text []byte) (func(path string) bool, error) {
	rules, err := ignore.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ignore.HelmIgnore, err)
	}
	rules.AddDefaults()
	return func(path string) bool {
		for i, r := range path {
			if r == '/' && rules.Ignore(path[:i], entry{name: path[:i], dir: true}) {
				return true
			}
		}
		return rules.Ignore(path, entry{name: path})
	}, nil
}

// entry is a file or directory of a chart, as [ignore.Rules] asks for it.
type entry struct {
	fs.FileInfo

	name string
	dir  bool
}

// Name implements fs.FileInfo.
func (e entry) Name() string { return pathpkg.Base(e.name) }

// IsDir implements fs.FileInfo.
func (e entry) IsDir() bool { return e.dir }

// vendored returns an error for a dependency that is not in the chart and that the
// values do not switch off. It removes one that they do.
func vendored(c *chart.Chart, values map[string]any) error {
	all, err := chartutil.CoalesceValues(c, values)
	if err != nil {
		return err
	}
	have := map[string]bool{}
	for _, d := range c.Dependencies() {
		have[d.Name()] = true
		of, _ := all[d.Name()].(map[string]any)
		if err := vendored(d, of); err != nil {
			return err
		}
	}
	var used []*chart.Dependency
	for _, d := range c.Metadata.Dependencies {
		switch {
		case have[d.Name]:
			used = append(used, d)
		case !off(d, all):
			return fmt.Errorf("the dependency %s of the chart %s is not in its charts directory: commit it there (helm dependency build)", d.Name, c.Name())
		}
	}
	c.Metadata.Dependencies = used
	return nil
}

// off reports whether the first condition of a dependency that the values have is false.
func off(d *chart.Dependency, values chartutil.Values) bool {
	for condition := range strings.SplitSeq(strings.TrimSpace(d.Condition), ",") {
		if v, err := values.PathValue(condition); err == nil {
			on, known := v.(bool)
			return known && !on
		}
	}
	return false
}

// merge merges the values of a later file into those of the earlier ones, as Helm's
// command line does.
func merge(a, b map[string]any) map[string]any {
	for k, v := range b {
		inner, isMap := v.(map[string]any)
		was, wasMap := a[k].(map[string]any)
		if isMap && wasMap {
			v = merge(was, inner)
		}
		a[k] = v
	}
	return a
}

// beyond returns why the schemas of a chart are not checked: one refers to another
// document, which Helm would read or fetch.
func beyond(c *chart.Chart) string {
	var schema any
	if len(c.Schema) > 0 && json.Unmarshal(c.Schema, &schema) == nil {
		if ref := outside(schema); ref != "" {
			return fmt.Sprintf("values.schema.json of the chart %s refers to %s, which is not fetched", c.Name(), ref)
		}
	}
	for _, d := range c.Dependencies() {
		if why := beyond(d); why != "" {
			return why
		}
	}
	return ""
}

// outside returns a reference of a schema to another document, or "".
func outside(n any) string {
	switch n := n.(type) {
	case map[string]any:
		for _, key := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
			if s, ok := n[key].(string); ok && !strings.HasPrefix(s, "#") {
				return s
			}
		}
		if s, ok := n["$schema"].(string); ok && !strings.Contains(s, "://json-schema.org/draft") {
			return s
		}
		for _, v := range n {
			if s := outside(v); s != "" {
				return s
			}
		}
	case []any:
		for _, v := range n {
			if s := outside(v); s != "" {
				return s
			}
		}
	}
	return ""
}
