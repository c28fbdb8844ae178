package runview

import "time"

// Clock writes times for one reader: in the reader's zone, and from the moment of the
// reading. The zero value writes them in UTC, and says nothing of how long ago they are.
type Clock struct {
	Zone *time.Location // nil: UTC
	Now  time.Time      // by the clock that the times are of; zero: not known
}

// Text returns a time with its offset from UTC, or with UTC. The offset is written in
// numbers, because names of zones, such as IST, mean several.
func (c Clock) Text(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	t = t.In(c.zone())
	form := "2006-01-02 15:04:05 "
	if y, m, d := c.Now.In(c.zone()).Date(); t.Year() == y && t.Month() == m && t.Day() == d {
		form = "15:04:05 " // today
	}
	if name, offset := t.Zone(); offset == 0 && name == "UTC" {
		return t.Format(form) + "UTC"
	}
	return t.Format(form + "-07:00")
}

// Ago is Text with how long ago the time was, or how long it takes until then.
func (c Clock) Ago(t time.Time) string {
	switch d := c.Now.Sub(t); {
	case t.IsZero(), c.Now.IsZero():
		return c.Text(t)
	case d < 0:
		return c.Text(t) + ", in " + Age(-d)
	default:
		return c.Text(t) + ", " + Age(d) + " ago"
	}
}

func (c Clock) zone() *time.Location {
	if c.Zone == nil {
		return time.UTC
	}
	return c.Zone
}
