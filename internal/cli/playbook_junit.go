package cli

import (
	"encoding/xml"
	"fmt"
	"os"
	"strings"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/worlds"
)

// The results of tests as CI systems read them.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"` // the file
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		File    string        `xml:"file,attr"`
		Line    int           `xml:"line,attr"`
		Failure *junitFailure `xml:"failure"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"` // how the first thing differs
		Text    string `xml:",chardata"`
	}
)

// writeJUnit writes the results of tests to a file.
func writeJUnit(file string, r api.PlaybookTest) error {
	var out junitSuites
	for _, c := range r.Cases {
		if n := len(out.Suites); n == 0 || out.Suites[n-1].Name != c.File {
			out.Suites = append(out.Suites, junitSuite{Name: c.File})
		}
		s := &out.Suites[len(out.Suites)-1]
		one := junitCase{Class: strings.TrimSuffix(c.File, testSuffix), Name: c.Case, File: c.File, Line: c.Line}
		if len(c.Wrong) > 0 {
			one.Failure = &junitFailure{Message: c.Wrong[0], Text: strings.Join(c.Wrong, "\n")}
			s.Failures++
		}
		s.Tests++
		s.Cases = append(s.Cases, one)
	}
	for _, x := range r.Worlds {
		s := junitSuite{Name: x.File, Tests: 1}
		one := junitCase{Class: strings.TrimSuffix(x.File, worlds.Suffix), Name: x.Scenario, File: x.File, Line: 1}
		if len(x.Wrong) > 0 {
			one.Failure = &junitFailure{Message: x.Wrong[0], Text: strings.Join(append(x.Wrong, linesOf(x.Timeline)...), "\n")}
			s.Failures++
		}
		s.Cases = append(s.Cases, one)
		out.Suites = append(out.Suites, s)
	}
	data, err := xml.MarshalIndent(out, "", "  ")
	if err != nil {
		return fmt.Errorf("--junit: %w", err)
	}
	if err := os.WriteFile(file, append([]byte(xml.Header), append(data, '\n')...), 0o644); err != nil {
		return fmt.Errorf("--junit: %w", err)
	}
	return nil
}

func linesOf(timeline []api.WorldLine) []string {
	var out []string
	for _, l := range timeline {
		out = append(out, strings.TrimSpace("+"+l.After+" "+l.Run+" "+l.Text))
	}
	return out
}
