package kube

import (
	"bytes"
	"context"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Bounds of what is read of a log.
const (
	LogLines = 500       // an engine's traceback, and those of the processes that end with it
	LogBytes = 256 << 10 // of them
)

// LogQuery asks for the last lines that a container printed.
type LogQuery struct {
	Namespace, Pod, Container string
	Previous                  bool // of the container that ran before, in the same pod
	Lines                     int  // at most; 0, or more than [LogLines]: LogLines
}

// Log returns the last lines that a container printed, at most [LogLines] and
// [LogBytes]. They may hold what users asked. It needs the right to get pods/log. A
// container that is not known, or that has no one before it, is an error.
func (c *Client) Log(ctx context.Context, q LogQuery) (string, error) {
	lines, limit := int64(LogLines), int64(LogBytes)
	if q.Lines > 0 {
		lines = min(lines, int64(q.Lines))
	}
	r := request{verb: "get", resource: "pods/log", namespace: q.Namespace, name: q.Pod}
	stream, err := c.typed.core().Get().Namespace(q.Namespace).Resource("pods").Name(q.Pod).SubResource("log").
		VersionedParams(&corev1.PodLogOptions{Container: q.Container, Previous: q.Previous, TailLines: &lines, LimitBytes: &limit}, parameters).Stream(ctx)
	if err != nil {
		return "", r.fail(err)
	}
	defer stream.Close()
	var out bytes.Buffer
	if _, err := io.Copy(&out, io.LimitReader(stream, limit)); err != nil {
		return "", r.fail(err)
	}
	return strings.ToValidUTF8(out.String(), "?"), nil
}
