// Pack writes the chart as a package for Helm, stamped with the version that the go command
// recorded in a program from the tags of git:
//
//	pack -o DIR PROGRAM
//
// The chart's appVersion is the tag of the image that deploy/image makes of that program, so
// that the package installs the image of the same commit.
package main

import (
	"debug/buildinfo"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
)

func main() { os.Exit(run("deploy/chart", os.Args[1:], os.Stdout, os.Stderr)) }

func run(chart string, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("pack", flag.ContinueOnError)
	flags.SetOutput(stderr)
	out := flags.String("o", "", "`directory` of the package")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *out == "" || flags.NArg() != 1 {
		fmt.Fprintln(stderr, "usage: pack -o DIR PROGRAM")
		return 2
	}
	file, err := write(chart, *out, flags.Arg(0))
	if err != nil {
		fmt.Fprintln(stderr, "pack:", err)
		return 1
	}
	fmt.Fprintln(stdout, file)
	return 0
}

// write writes the package and returns its file.
func write(chart, out, program string) (string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", fmt.Errorf("read the version of %s: %w", program, err)
	}
	version, ok := strings.CutPrefix(info.Main.Version, "v")
	if !ok {
		return "", fmt.Errorf("%s has the version %q: build it in a clone (the go command records none in a worktree of git), without -buildvcs=false", program, info.Main.Version)
	}
	c, err := loader.Load(chart)
	if err != nil {
		return "", err
	}
	c.Metadata.Version, c.Metadata.AppVersion = version, strings.ReplaceAll(info.Main.Version, "+", "-")
	if err := os.MkdirAll(out, 0o755); err != nil { //nolint:gosec // it is for everybody
		return "", err
	}
	return chartutil.Save(c, out)
}
