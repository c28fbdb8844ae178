package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/yamldoc"
)

const minutesOfWeek = 7 * 24 * 60

// span is a duration with the usual text form.
type span struct{ d time.Duration }

func (s span) String() string { return playbook.FormatDuration(s.d) }

// freeze is the effect freeze: times at which nothing is changed.
type freeze struct {
	zone   *time.Location // of weekly
	weekly []weekly
	dates  []dates
}

// weekly is a time of the week in a zone, in minutes since Sunday midnight. It
// includes from and excludes to. If to is before from, it wraps around the end
// of the week.
type weekly struct {
	from, to int
	text     string
}

// dates is an interval that includes from and excludes to.
type dates struct{ from, to time.Time }

func (f freeze) judge(in *Input) finding {
	local := in.Now
	if f.zone != nil {
		local = in.Now.In(f.zone)
	}
	minute := (int(local.Weekday())*24+local.Hour())*60 + local.Minute()
	for _, w := range f.weekly {
		inside := minute >= w.from && minute < w.to
		if w.to <= w.from {
			inside = minute >= w.from || minute < w.to
		}
		if inside {
			return finding{deny: fmt.Sprintf("frozen %s, now %s", w.text, local.Format("Mon 15:04 MST"))}
		}
	}
	for _, d := range f.dates {
		if !in.Now.Before(d.from) && in.Now.Before(d.to) {
			return finding{deny: fmt.Sprintf("frozen until %s, now %s", d.to.Format(time.RFC3339), in.Now.UTC().Format(time.RFC3339))}
		}
	}
	return finding{}
}

func (f freeze) String() string {
	var parts []string
	for _, w := range f.weekly {
		parts = append(parts, w.text)
	}
	for _, d := range f.dates {
		parts = append(parts, d.from.Format(time.RFC3339)+" to "+d.to.Format(time.RFC3339))
	}
	return "never " + strings.Join(parts, ", ")
}

const timeForm = "write fri 16:00, or 16:00 with days; 24:00 is the end of a day"

// clockTime parses 16:00 or 24:00 as minutes of a day.
func clockTime(text string) (int, error) {
	if text == "24:00" {
		return 24 * 60, nil
	}
	t, err := time.Parse("15:04", text)
	if err != nil || len(text) != len("15:04") {
		return 0, fmt.Errorf("%q is not a time of day", yamldoc.Clip(text))
	}
	return t.Hour()*60 + t.Minute(), nil
}

// dayOf parses fri or friday.
func dayOf(text string) (int, error) {
	i := slices.IndexFunc(weekdays(), func(day string) bool { return text == day || text == day[:3] })
	if i < 0 {
		return 0, fmt.Errorf("%q is not a day of the week", yamldoc.Clip(text))
	}
	return i, nil
}

// windows returns the times of the week of one entry: from and to with their
// own days, or times for each of some days (none: every day).
func windows(days []int, from, to, zone string) ([]weekly, error) {
	fromDay, fromTime, fromNamed := strings.Cut(from, " ")
	toDay, toTime, toNamed := strings.Cut(to, " ")
	if fromNamed != toNamed {
		return nil, errors.New("only one of from and to names a day")
	}
	if fromNamed {
		if len(days) > 0 {
			return nil, errors.New("days are set both in days and in from and to")
		}
		a, err := weekTime(fromDay, fromTime)
		if err != nil {
			return nil, err
		}
		b, err := weekTime(toDay, toTime)
		if err != nil {
			return nil, err
		}
		return one(a, b, from+" to "+to+" "+zone)
	}
	a, err := clockTime(from)
	if err != nil {
		return nil, err
	}
	b, err := clockTime(to)
	if err != nil {
		return nil, err
	}
	if a == b {
		return nil, errors.New("from and to are equal")
	}
	if len(days) == 0 {
		days = []int{0, 1, 2, 3, 4, 5, 6}
	}
	var out []weekly
	for _, day := range days {
		end := day*24*60 + b
		if b <= a { // across midnight, into the next day
			end += 24 * 60
		}
		w, err := one(day*24*60+a, end, fmt.Sprintf("%s %s to %s %s", weekdays()[day][:3], from, to, zone))
		if err != nil {
			return nil, err
		}
		out = append(out, w...)
	}
	return out, nil
}

func one(from, to int, text string) ([]weekly, error) {
	from, to = from%minutesOfWeek, to%minutesOfWeek
	if from == to {
		return nil, errors.New("from and to are equal")
	}
	return []weekly{{from: from, to: to, text: text}}, nil
}

func weekTime(day, clock string) (int, error) {
	d, err := dayOf(day)
	if err != nil {
		return 0, err
	}
	m, err := clockTime(strings.TrimSpace(clock))
	return d*24*60 + m, err
}
