package helm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
)

// Program is the name of the program that renders charts. It stands beside the
// program that asks it.
const Program = "responder-helm"

// Request asks the program to render one chart in several ways.
type Request struct {
	Files     map[string][]byte `json:"files"` // of the chart, by their path below its directory
	Namespace string            `json:"namespace"`
	Variants  []Variant         `json:"variants"`
}

// Variant is one way to render a chart.
type Variant struct {
	Release string            `json:"release"`
	Values  [][]byte          `json:"values,omitempty"` // YAML texts in Helm's order: the last one wins
	Files   map[string][]byte `json:"files,omitempty"`  // of the chart, in place of those of the request
	Show    bool              `json:"show,omitempty"`   // adds ValuesFile

	// What the chart is told of the cluster, in .Capabilities.
	KubeVersion string   `json:"kubeVersion,omitempty"` // empty: the one that Helm takes without a cluster
	APIVersions []string `json:"apiVersions,omitempty"` // beside those of Kubernetes itself
}

// Rendered is the result of one variant.
type Rendered struct {
	Files     map[string]string `json:"files,omitempty"`     // by path below the chart's directory
	Unchecked string            `json:"unchecked,omitempty"` // why the values were not checked against the chart's schema; empty: they were, or it has none
	Error     string            `json:"error,omitempty"`
}

// ValuesFile is the name under which the program shows all values that it rendered
// with, the defaults of the charts among them. No template has that name.
const ValuesFile = "\x00values"

// Limits of one request.
const (
	renderTime  = 20 * time.Second
	maxRendered = 64 << 20 // bytes of an answer
	maxProblem  = 2000     // bytes of what the program complains about
)

// Render renders a chart in a process of its own: a template can loop and take any
// amount of memory. The process has no environment and ends after its time. The
// reason of the error is NotFound if the program is not installed.
func Render(req Request) ([]Rendered, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, &fault.Error{Reason: fault.NotFound, Message: "find this program, beside which " + Program + " stands", Err: err}
	}
	input, err := json.Marshal(req)
	if err != nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: "hand the chart to " + Program, Err: err}
	}
	ctx, cancel := context.WithTimeout(context.Background(), renderTime)
	defer cancel()
	program := filepath.Join(filepath.Dir(exe), Program)
	cmd := exec.CommandContext(ctx, program)
	out, problems := limited{left: maxRendered}, limited{left: maxProblem}
	cmd.Env, cmd.Dir, cmd.WaitDelay = []string{}, "/", time.Second
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &problems
	err = cmd.Run()
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf("charts are rendered by %s, which is not beside this program: install it as %s", Program, program)}
	case ctx.Err() != nil:
		return nil, &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf("it takes longer than %s", renderTime)}
	case out.full:
		return nil, &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf("it makes more than %d MiB", maxRendered>>20)}
	case cmd.ProcessState != nil && cmd.ProcessState.ExitCode() < 0:
		return nil, &fault.Error{Reason: fault.OutOfBounds, Message: "it takes more time or memory than charts are given"}
	case strings.Contains(problems.String(), "out of memory"):
		return nil, &fault.Error{Reason: fault.OutOfBounds, Message: "it takes more memory than charts are given"}
	case err != nil:
		return nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s ended early (%v): %s", Program, err, firstLine(problems.String()))}
	}
	var results []Rendered
	if err := json.Unmarshal(out.Bytes(), &results); err != nil || len(results) != len(req.Variants) {
		return nil, &fault.Error{Reason: fault.Invalid, Message: Program + " gave no answer that can be read: install the one of this version"}
	}
	return results, nil
}

// firstLine returns the first line of what a program complains about.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return edit.Clip(line)
}

// limited is a buffer that takes so many bytes.
type limited struct {
	bytes.Buffer
	left int
	full bool
}

// Write implements [io.Writer]. What does not fit is dropped.
func (l *limited) Write(p []byte) (int, error) {
	fits := p[:min(len(p), l.left)]
	l.left -= len(fits)
	l.full = l.full || len(fits) < len(p)
	l.Buffer.Write(fits)
	return len(p), nil
}
