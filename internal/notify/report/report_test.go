package report

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestDaylightSaving: nine o'clock stays nine o'clock, and a time that the clock skips or
// shows twice is due once.
func TestDaylightSaving(t *testing.T) {
	for name, c := range map[string]struct {
		report Config
		from   string
		want   []string
	}{
		"a week over the change to summer time": {Config{Zone: "Europe/Berlin"}, "2026-03-22T00:00:00Z", []string{"2026-03-23T08:00:00Z", "2026-03-30T07:00:00Z", "2026-04-06T07:00:00Z"}},
		"a week over the change to winter time": {Config{Zone: "Europe/Berlin", On: "sunday"}, "2026-10-18T12:00:00Z", []string{"2026-10-25T08:00:00Z", "2026-11-01T08:00:00Z"}},
		"a time that is skipped":                {Config{Zone: "Europe/Berlin", Every: "day", At: "02:30"}, "2026-03-28T00:00:00Z", []string{"2026-03-28T01:30:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"}},
		"a time that comes twice":               {Config{Zone: "Europe/Berlin", Every: "day", At: "02:30"}, "2026-10-24T00:00:00Z", []string{"2026-10-24T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"}},
		"without a zone":                        {Config{Every: "day"}, "2026-03-29T09:00:00Z", []string{"2026-03-30T09:00:00Z"}},
	} {
		at, err := time.Parse(time.RFC3339, c.from)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for range c.want {
			at = c.report.Next(at)
			got = append(got, at.UTC().Format(time.RFC3339))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// In any zone there is one report on each day of its schedule, and looking back finds the
// same times as looking ahead.
func TestScheduleHasNoGap(t *testing.T) {
	for _, zone := range []string{"", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo"} {
		for _, at := range []string{"00:00", "02:30", "23:59"} {
			for every, want := range map[string]int{"day": 366 + 365, "week": 105} {
				c := Config{Zone: zone, At: at, Every: every, On: map[string]string{"week": "sunday"}[every]}
				start := time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC)
				end, n := start.AddDate(2, 0, 0), 0
				for now := c.Next(start); now.Before(end); now = c.Next(now) {
					n++
					if !c.Last(now).Equal(now) || !c.Last(now.Add(-1)).Before(now) || !c.Next(now.Add(-1)).Equal(now) {
						t.Errorf("%s %q %s: %s is not found again", every, zone, at, now)
					}
				}
				if n < want-1 || n > want {
					t.Errorf("%s %q %s: due %d times in two years", every, zone, at, n)
				}
			}
		}
	}
}

// book is a ledger that can fail before or after a report is durable.
type book struct {
	until map[string]time.Time
	sent  []string
	fail  func() (before, after error)
}

// Reported implements [Ledger].
func (b *book) Reported() map[string]time.Time { return maps.Clone(b.until) }

// Record implements [Ledger].
func (b *book) Record(_ context.Context, m Made) error {
	before, after := b.fail()
	if before != nil {
		return before
	}
	if b.until[m.Name] = m.Until; m.Until.IsZero() {
		delete(b.until, m.Name)
	}
	if m.Text != "" {
		b.sent = append(b.sent, m.Text)
	}
	return after
}

// service runs a sender for some time, as one process does.
func (b *book) service(t *testing.T, runs time.Duration, reports ...Config) {
	ctx, stop := context.WithTimeout(t.Context(), runs)
	defer stop()
	s := New(Options{
		Reports: reports, Ledger: b, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Compose: func(_ context.Context, c Config, since, until time.Time) (string, error) {
			return c.Name + " " + since.In(c.Location()).Format("Jan 2 15:04") + " to " + until.In(c.Location()).Format("Jan 2 15:04"), nil
		},
	})
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
}

func newBook() *book {
	return &book{until: map[string]time.Time{}, fail: func() (before, after error) { return nil, nil }}
}

const day = 24 * time.Hour

// The bubble begins on Saturday, 1 January 2000, at midnight.
func TestReportsFallDue(t *testing.T) {
	weekly := Config{Name: "weekly", Zone: "UTC"}
	synctest.Test(t, func(t *testing.T) {
		b := newBook()
		b.service(t, 10*day, weekly) // the first is about a whole week, most of which was before it was configured
		b.service(t, time.Hour, weekly)
		b.service(t, time.Hour, weekly) // a restart sends none again
		time.Sleep(30 * day)            // five fall due meanwhile
		b.service(t, time.Hour, weekly)
		b.service(t, 5*day, weekly)
		time.Sleep(91 * day)
		b.service(t, time.Minute, weekly)
		want := []string{
			"weekly Dec 27 09:00 to Jan 3 09:00", "weekly Jan 3 09:00 to Jan 10 09:00",
			"weekly Jan 10 09:00 to Feb 7 09:00\nThis report is late: it was due on Mon 7 Feb 09:00 UTC.", "weekly Feb 7 09:00 to Feb 14 09:00",
			"weekly Apr 14 09:00 to May 15 09:00\nThis report is late: it was due on Mon 15 May 09:00 UTC.", // of 91 days, the last 31
		}
		if diff := cmp.Diff(want, b.sent); diff != "" {
			t.Error(diff)
		}
	})
}

// One that is removed and added again does not tell of the time in between.
func TestReportAddedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, daily := newBook(), Config{Name: "daily", Every: "day"}
		b.service(t, day, daily)
		b.service(t, 5*day)
		b.service(t, day, daily)
		if diff := cmp.Diff([]string{"daily Dec 31 09:00 to Jan 1 09:00", "daily Jan 6 09:00 to Jan 7 09:00"}, b.sent); diff != "" {
			t.Error(diff)
		}
	})
}

// However often the process ends and the journal fails, the periods follow each other: what
// happened is in one report, and no report is there twice.
func TestNoReportTwice(t *testing.T) {
	for seed := range 20 {
		synctest.Test(t, func(t *testing.T) {
			b, n := newBook(), seed
			b.fail = func() (before, after error) {
				switch n = (n*31 + 7) % 101; n % 3 {
				case 0:
					return errors.New("the journal is full"), nil
				case 1:
					return nil, errors.New("the answer was lost")
				}
				return nil, nil
			}
			for i := range 40 {
				b.service(t, time.Duration(1+(seed*7+i*13)%50)*time.Hour, Config{Name: "daily", Every: "day", Zone: "Europe/Berlin"})
				time.Sleep(time.Duration((seed*11+i*17)%60) * time.Hour)
			}
			var ends []string
			for i, text := range b.sent {
				since, until, _ := strings.Cut(strings.TrimPrefix(strings.SplitN(text, "\n", 2)[0], "daily "), " to ")
				if slices.Contains(ends, until) || i > 0 && since != ends[i-1] {
					t.Fatal(fmt.Sprintf("seed %d: report %d does not follow the one before: ", seed, i), b.sent[max(0, i-1):i+1])
				}
				ends = append(ends, until)
			}
			if len(b.sent) < 20 {
				t.Errorf("seed %d: only %d reports", seed, len(b.sent))
			}
		})
	}
}

// TestComing: the report that is announced is the one that the sender makes then.
func TestComing(t *testing.T) {
	c, day := Config{Every: "day"}, 24*time.Hour
	nine := time.Date(2026, 11, 8, 9, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct{ now, made, since, due time.Time }{
		"the first one":                     {now: nine.Add(time.Hour), since: nine, due: nine.Add(day)},
		"one was made at nine":              {now: nine.Add(time.Hour), made: nine, since: nine, due: nine.Add(day)},
		"one is due and not made":           {now: nine.Add(time.Hour), made: nine.Add(-day), since: nine.Add(-day), due: nine},
		"none was made for very long":       {now: nine.Add(time.Hour), made: nine.Add(-100 * day), since: nine.Add(-MostPeriod), due: nine},
		"at the moment at which one is due": {now: nine, made: nine.Add(-day), since: nine.Add(-day), due: nine},
	} {
		if got, want := c.Coming(tt.now, tt.made), (Coming{tt.since, tt.due}); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}
