package report

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Made is a report that is due.
type Made struct {
	Name  string
	Until time.Time // the end of its period; zero: there are no more reports of this name
	Text  string    // empty: nobody is told
	To    []string  // channels
}

// Ledger records reports and sends them.
type Ledger interface {
	// Reported returns until when each report was made, by its name.
	Reported() map[string]time.Time
	// Record is durable when it returns nil. The text is then sent, also after a restart.
	Record(ctx context.Context, m Made) error
}

// Options configure a [Sender].
type Options struct {
	Reports []Config // checked
	Ledger  Ledger
	// Compose returns what a report says about a period; empty: nothing is sent.
	Compose func(ctx context.Context, c Config, since, until time.Time) (string, error)
	Now     func() time.Time
	Log     *slog.Logger
}

// Sender makes reports when they fall due.
type Sender struct{ o Options }

// New returns a sender.
func New(o Options) *Sender { return &Sender{o} }

// MostPeriod is the longest period of one report.
const MostPeriod = 31 * 24 * time.Hour

const (
	mostWait = time.Hour   // between two looks: the clock may be set
	again    = time.Minute // after a failure
	late     = time.Hour   // after which a report says that it is late
)

// Run makes reports until ctx ends.
func (s *Sender) Run(ctx context.Context) error {
	for {
		select {
		case <-time.After(s.look(ctx)):
		case <-ctx.Done():
			return nil
		}
	}
}

// look makes the reports that are due, and returns how long to wait until the next look.
func (s *Sender) look(ctx context.Context) time.Duration {
	known, now, wait := s.o.Ledger.Reported(), s.o.Now(), mostWait
	for _, c := range s.o.Reports {
		since, begun := known[c.Name]
		delete(known, c.Name)
		if err := s.report(ctx, c, now, since, begun); err != nil && ctx.Err() == nil {
			s.o.Log.Warn("a report was not made, it is tried again", "name", c.Name, "err", err)
			wait = again
		}
		wait = min(wait, c.Next(now).Sub(now))
	}
	for name := range known { // no longer configured: one that is added again begins anew
		if err := s.o.Ledger.Record(ctx, Made{Name: name}); err != nil && ctx.Err() == nil {
			s.o.Log.Warn("a report that is no longer configured was not forgotten, it is tried again", "name", name, "err", err)
			wait = again
		}
	}
	return wait
}

// Coming is the report of a name that is sent next.
type Coming struct {
	Since time.Time // when its period begins
	Due   time.Time // when its period ends and it is sent; not after now: it is late
}

// Coming returns which report is sent next. made is until when the last one covers what
// happened; zero: there was none.
func (c Config) Coming(now, made time.Time) Coming {
	last := c.Last(now)
	if made.IsZero() {
		made = last
	}
	due := last
	if !made.Before(last) {
		due = c.Next(now)
	}
	return Coming{bounded(made, due), due}
}

// bounded returns where a report begins that would begin at since.
func bounded(since, until time.Time) time.Time {
	if oldest := until.Add(-MostPeriod); since.Before(oldest) {
		return oldest
	}
	return since
}

// report makes a report if it is due. A report that is new begins with the period under way.
func (s *Sender) report(ctx context.Context, c Config, now, since time.Time, begun bool) error {
	until := c.Last(now)
	if !begun {
		return s.o.Ledger.Record(ctx, Made{Name: c.Name, Until: until})
	}
	if !since.Before(until) {
		return nil
	}
	since = bounded(since, until)
	text, err := s.o.Compose(ctx, c, since, until)
	if err != nil {
		return fmt.Errorf("read what happened since %s: %w", since.Format(time.RFC3339), err)
	}
	if text != "" && now.Sub(until) > late {
		text += "\nThis report is late: it was due on " + until.In(c.Location()).Format("Mon 2 Jan 15:04 MST") + "."
	}
	return s.o.Ledger.Record(ctx, Made{Name: c.Name, Until: until, Text: text, To: c.To})
}
