package cli

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
)

func newAuditCommand(p *command.Process) *cobra.Command {
	return group("audit", "Read, verify, export and redact the journal",
		newAuditListCommand(p), newAuditShowCommand(p), newAuditVerifyCommand(p),
		newAuditExportCommand(p), newAuditCheckpointCommand(p), newAuditRedactCommand(p))
}

// entrySource reads the journal of a running service, or a copy of its file.
type entrySource struct {
	client client.Client
	file   string
}

func (s *entrySource) addFlags(cmd *cobra.Command, p *command.Process) {
	s.client.Process = p
	s.client.AddFlags(cmd)
	cmd.Flags().StringVar(&s.file, "file", "", "read this copy of a journal instead of asking a service")
}

// entryFilter selects entries. The zero value selects all.
type entryFilter struct {
	from   uint64
	limit  int    // 0: all
	stream string // its name, or run/ and what means a run, or every stream below it when it ends in /
	kind   string
}

func (f entryFilter) matches(e api.Entry) bool {
	inStream := f.stream == "" || e.Stream == f.stream || strings.HasSuffix(f.stream, "/") && strings.HasPrefix(e.Stream, f.stream)
	return inStream && (f.kind == "" || e.Kind == f.kind)
}

// entries returns the selected entries, ascending.
func (s *entrySource) entries(ctx context.Context, f entryFilter) ([]api.Entry, error) {
	found := []api.Entry{}
	err := s.each(ctx, f, func(e api.Entry) error {
		found = append(found, e)
		return nil
	})
	return found, err
}

// each calls take with the selected entries, ascending, until it fails.
func (s *entrySource) each(ctx context.Context, f entryFilter, take func(api.Entry) error) error {
	if s.file == "" {
		var err error
		if f.stream, err = s.streamNamed(ctx, f.stream); err != nil {
			return err
		}
		return s.fromServer(ctx, f, take)
	}
	if err := wantJournal(s.file); err != nil {
		return err
	}
	check, err := app.SelfChecker()
	if err != nil {
		return err
	}
	r, err := audit.OpenReader(ctx, s.file, check)
	if err != nil {
		return journalAdvice(err)
	}
	defer r.Close()
	if f.stream, err = streamIn(r, s.file, f.stream); err != nil {
		return err
	}
	taken, archived := 0, 0
	defer func() { s.tellArchived(archived) }()
	for rec, err := range r.Log(f.from) {
		e, err := app.EntryOf(rec, err)
		if err != nil {
			return err
		}
		if e.Archived != "" && (f.stream != "" || f.kind != "") {
			archived++
			continue
		}
		if !f.matches(e) {
			continue
		}
		if err := take(e); err != nil {
			return err
		}
		if taken++; taken == f.limit {
			break
		}
	}
	return nil
}

// fromServer asks for page after page.
func (s *entrySource) fromServer(ctx context.Context, f entryFilter, take func(api.Entry) error) error {
	const page = 1000
	taken, archived := 0, 0
	defer func() { s.tellArchived(archived) }()
	for {
		ask := page
		if f.limit > 0 {
			ask = min(page, f.limit-taken)
		}
		query := url.Values{"from": {strconv.FormatUint(f.from, 10)}, "limit": {strconv.Itoa(ask)}}
		if f.stream != "" {
			query.Set("stream", f.stream)
		}
		if f.kind != "" {
			query.Set("kind", f.kind)
		}
		var answer api.AuditPage
		if err := s.client.Get(ctx, client.AuditPath, query, &answer); err != nil {
			return err
		}
		for _, e := range answer.Entries {
			if err := take(e); err != nil {
				return err
			}
		}
		taken += len(answer.Entries)
		archived += answer.Archived
		if !answer.More || f.limit > 0 && taken >= f.limit {
			return nil
		}
		f.from = answer.Next
	}
}

// tellArchived says that entries were passed over.
func (s *entrySource) tellArchived(n int) {
	if n > 0 {
		fmt.Fprintf(s.client.Process.Stderr, "responder: %d entries are archived; whether they are of that stream and kind, only their segments tell\n", n)
	}
}

func entryTime(t time.Time) string { return t.UTC().Format("01-02 15:04:05") }
