package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/cli/client"
)

// runStreams is what the names of the streams of runs begin with.
const runStreams = "run/"

// runOf returns what a stream names as its run; empty: it is no stream of one run.
func runOf(stream string) string {
	name, ok := strings.CutPrefix(stream, runStreams)
	if !ok || strings.Contains(name, "/") {
		return ""
	}
	return name
}

// streamNamed returns the stream of the run that is named, as the service knows it. A run
// that is archived is known by its whole ID.
func (s *entrySource) streamNamed(ctx context.Context, stream string) (string, error) {
	name := runOf(stream)
	if name == "" {
		return stream, nil
	}
	id, err := s.client.RunNamed(ctx, name)
	if err != nil {
		return "", err
	}
	var missing *client.NotFoundError
	if id == name {
		if err := s.client.Get(ctx, client.RunPath(id), nil, &api.RunDetail{}); errors.As(err, &missing) {
			return "", err
		}
	}
	return runStreams + id, nil
}

// streamIn returns the stream of the run that is named, among those of a file.
func streamIn(r *audit.Reader, file, stream string) (string, error) {
	name := runOf(stream)
	if name == "" {
		return stream, nil
	}
	runs := func(begin string) (ids []string, err error) {
		for info, err := range r.Streams(runStreams + begin) {
			if err != nil {
				return nil, err
			}
			ids = append(ids, strings.TrimPrefix(info.Name, runStreams))
		}
		slices.Reverse(ids) // an ID begins with its time
		return ids, nil
	}
	exact, err := runs(name)
	if err != nil || slices.Contains(exact, name) {
		return stream, err
	}
	id, err := client.OneRun(name, runs)
	if err == nil && id == name {
		err = fmt.Errorf("%s has no run %.64q; 'responder audit list --file %s --stream %s' shows the runs in it", file, name, file, runStreams)
	}
	return runStreams + id, err
}

// completeStreams completes the flag --stream: the streams that a journal usually has, and
// those of runs that a service lists. The runs in a file are not listed: a copy may be large.
func (s *entrySource) completeStreams(cmd *cobra.Command) {
	// The error is of a flag that does not exist; the command has added it.
	_ = cmd.RegisterFlagCompletionFunc("stream", func(cmd *cobra.Command, _ []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		out := []cobra.Completion{
			cobra.CompletionWithDesc("intake", "notifications"),
			cobra.CompletionWithDesc("dispatch", "what became of each alert"),
			cobra.CompletionWithDesc("control", "pauses, playbooks, messages that are due"),
			cobra.CompletionWithDesc("ladder", "the record of levers"),
			cobra.CompletionWithDesc("archive", "segments of the archive"),
			cobra.CompletionWithDesc("redaction", "what was taken out of entries"),
			cobra.CompletionWithDesc(runStreams, "all runs"),
		}
		if name, isRun := strings.CutPrefix(begin, runStreams); s.file == "" && (isRun || strings.HasPrefix(runStreams, begin)) {
			if !isRun {
				name = ""
			}
			for _, r := range runsToComplete(cmd.Context(), &s.client, name, nil) {
				out = append(out, runStreams+r)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	})
}
