package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/outbound/endpoint"
)

// checkpoints publishes the journal's newest signed checkpoint, away from the journal:
// in the service's own log always, in a directory and to a server where configured.
type checkpoints struct {
	c       config.Checkpoints
	journal *audit.Journal
	server  *endpoint.Endpoint // nil: none
	log     *slog.Logger

	logged, written, posted uint64 // sizes of the last that were; run alone uses them
}

func newCheckpoints(c config.Checkpoints, journal *audit.Journal, log *slog.Logger) (*checkpoints, error) {
	c.Every = cmp.Or(c.Every, time.Hour)
	p := &checkpoints{c: c, journal: journal, log: log}
	if c.URL == "" {
		return p, nil
	}
	var err error
	if p.server, err = endpoint.New("receiver of checkpoints", c.URL, c.CAFile, 0); err != nil {
		return nil, err
	}
	_, err = endpoint.Bearer("receiver of checkpoints", c.TokenFile)
	return p, err
}

// run publishes at once and then at every interval. What fails is tried again with the
// next checkpoint: the service goes on.
func (p *checkpoints) run(ctx context.Context) error {
	tick := time.NewTicker(p.c.Every)
	defer tick.Stop()
	for {
		if err := p.publish(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("the journal's checkpoint was not published; it is tried again with the next", "err", err)
		}
		if err := p.journal.Kept(); err != nil {
			p.log.Warn("the journal's checkpoint was not written beside it; it is tried again with the next", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// publish publishes the newest checkpoint wherever it was not.
func (p *checkpoints) publish(ctx context.Context) error {
	last, ok, err := p.journal.LastCheckpoint()
	if err != nil || !ok {
		return err
	}
	if last.Size != p.logged {
		p.log.Info("journal signed", "entries", last.Size, "checkpoint", string(last.Note))
		p.logged = last.Size
	}
	if p.c.Dir != "" && last.Size != p.written {
		if err := p.journal.Publish(p.c.Dir, last); err != nil {
			return fmt.Errorf("write to journal.checkpoints.dir: %w", err)
		}
		p.written = last.Size
	}
	if p.server == nil || last.Size == p.posted {
		return nil
	}
	token, err := endpoint.Bearer("receiver of checkpoints", p.c.TokenFile)
	if err != nil {
		return err
	}
	if _, err := p.server.Do(ctx, endpoint.Request{Method: http.MethodPost, ContentType: "text/plain; charset=utf-8", Body: last.Note, Token: token}); err != nil {
		return err
	}
	p.posted = last.Size
	return nil
}
