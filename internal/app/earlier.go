package app

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/webhook"
)

// earlier returns the notifications that the journal has stored since a time, oldest
// first, for the shares of their senders.
func (s *Service) earlier(ctx context.Context, since time.Time) iter.Seq2[webhook.Stored, error] {
	return func(yield func(webhook.Stored, error) bool) {
		from, err := s.journal.Since(dispatch.StreamIntake, since)
		if err != nil {
			yield(webhook.Stored{}, fmt.Errorf("find notifications of the last day: %w", err))
			return
		}
		for rec, err := range s.journal.Stream(dispatch.StreamIntake, from) {
			if err = cmp.Or(err, ctx.Err()); err != nil {
				yield(webhook.Stored{}, fmt.Errorf("read notifications of the last day: %w", err))
				return
			}
			var n playbook.Notification
			if rec.Kind != dispatch.KindNotification || rec.Time.Before(since) || n.UnmarshalJSON(rec.Data) != nil {
				continue // the dispatcher says which ones cannot be read
			}
			if !yield(webhook.Stored{Sender: n.Sender, Alerts: len(n.Alerts), Bytes: len(rec.Data), At: rec.Time}, nil) {
				return
			}
		}
	}
}
