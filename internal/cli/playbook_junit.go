package cli

import (
	"encoding/xml"
	"fmt"
	"os"
	"strings"

	"github.com/inference-responder/responder/internal/api"
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
	data, err := xml.MarshalIndent(out, "", "  ")
	if err != nil {
		return fmt.Errorf("--junit: %w", err)
	}
	if err := os.WriteFile(file, append([]byte(xml.Header), append(data, '\n')...), 0o644); err != nil {
		return fmt.Errorf("--junit: %w", err)
	}
	return nil
}
