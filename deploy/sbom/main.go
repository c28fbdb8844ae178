// Sbom writes a software bill of materials next to each Go program that it is
// given: CycloneDX 1.6 in JSON, of the modules that the linker recorded in the program. What a
// scanner reads there is what runs, not what a go.mod allows.
package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(programs []string, stdout, stderr io.Writer) int {
	if len(programs) == 0 {
		fmt.Fprintln(stderr, "missing argument: PROGRAM...")
		return 2
	}
	for _, p := range programs {
		file, err := write(p)
		if err != nil {
			fmt.Fprintln(stderr, err)
			return 1
		}
		fmt.Fprintln(stdout, file)
	}
	return 0
}

// write writes the bill of one program, and returns its file.
func write(program string) (string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", fmt.Errorf("read the modules of %s: %w", program, err)
	}
	data, err := json.MarshalIndent(billOf(info), "", "  ")
	if err != nil {
		return "", fmt.Errorf("write the bill of %s: %w", program, err)
	}
	file := program + ".cdx.json"
	return file, os.WriteFile(file, append(data, '\n'), 0o644) //nolint:gosec // it is for everybody
}

// bill is a CycloneDX document. It has no time and no random number: the same program has
// the same bill.
type bill struct {
	Format      string       `json:"bomFormat"`
	SpecVersion string       `json:"specVersion"`
	Version     int          `json:"version"`
	Metadata    metadata     `json:"metadata"`
	Components  []component  `json:"components"`
	Depends     []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn"`
}

// billOf returns the bill of a program: itself, Go's standard library and the modules in it.
func billOf(info *debug.BuildInfo) bill {
	main := componentOf("application", info.Main.Path, cmp.Or(info.Main.Version, "(devel)"), "")
	main.Name = info.Path
	for _, s := range info.Settings {
		if slices.Contains([]string{"vcs.revision", "vcs.modified", "-tags", "CGO_ENABLED", "GOOS", "GOARCH"}, s.Key) {
			main.Properties = append(main.Properties, property{"go:build:" + s.Key, s.Value})
		}
	}
	b := bill{Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Metadata: metadata{main}}
	b.Components = append(b.Components, componentOf("library", "std", strings.TrimPrefix(info.GoVersion, "go"), ""))
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		b.Components = append(b.Components, componentOf("library", m.Path, m.Version, m.Sum))
	}
	on := dependency{Ref: main.Ref}
	for _, c := range b.Components {
		on.On = append(on.On, c.Ref)
	}
	b.Depends = []dependency{on}
	return b
}

// componentOf returns a Go module as a component. Its package URL is in lower case, as the
// specification of the type golang has it.
func componentOf(kind, path, version, sum string) component {
	purl := "pkg:golang/" + strings.ToLower(path)
	if version != "" {
		purl += "@" + strings.NewReplacer("+", "%2B", "(", "%28", ")", "%29").Replace(version)
	}
	c := component{Type: kind, Ref: purl, Name: path, Version: version, PURL: purl}
	if sum != "" {
		c.Properties = []property{{"go:sum", sum}}
	}
	return c
}
