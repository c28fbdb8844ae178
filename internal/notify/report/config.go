package report

import (
	"errors"
	"regexp"
	"strings"
	"time"
	_ "time/tzdata" // an image without zone files must not change when a report is sent

	"github.com/inference-responder/responder/internal/setting"
)

// Config is one report of the block reports.
type Config struct {
	Name      string   `yaml:"name" doc:"A name of its own: lower-case letters, digits and dashes."`
	Every     string   `yaml:"every" enum:"day,week" doc:"How often. Empty: week."`
	On        string   `yaml:"on" enum:"monday,tuesday,wednesday,thursday,friday,saturday,sunday" doc:"The day of a weekly report. Empty: monday."`
	At        string   `yaml:"at" doc:"The time of day, from 00:00 to 23:59. Empty: 09:00."`
	Zone      string   `yaml:"zone" doc:"The time zone of on and at, such as Europe/Berlin. Empty: UTC."`
	To        []string `yaml:"to" doc:"Channels by their names, of Slack or webhooks."`
	Services  []string `yaml:"services" doc:"Names of services that it is about. Empty: all."`
	SkipEmpty bool     `yaml:"skip_empty" doc:"Send nothing when no run began. Without it the report says so: people see that the service works."`
}

// daily is the value of every for a report a day; any other is a report a week.
const daily = "day"

const (
	defaultAt = "09:00"
	timeOfDay = "15:04"
)

var reportName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

// Check implements [setting.Block].
func (c *Config) Check(at string, bad setting.Report) {
	if !reportName.MatchString(c.Name) {
		bad(at+".name", "up to 63 lower-case letters, digits and dashes, beginning with a letter", "%.60q is not a report's name", c.Name)
	}
	if c.Every == daily && c.On != "" {
		bad(at+".on", "leave it out, or set every: week", "a daily report is not on one day")
	}
	if _, err := time.Parse(timeOfDay, c.At); c.At != "" && (err != nil || len(c.At) != len(timeOfDay)) {
		bad(at+".at", `write it like "09:00"`, "%.60q is not a time of day", c.At)
	}
	if _, err := location(c.Zone); err != nil {
		bad(at+".zone", "write a name such as Europe/Berlin or UTC", "unknown time zone %.60q", c.Zone)
	}
	if len(c.To) == 0 {
		bad(at+".to", "name one of channels", "must name a channel: nobody would read the report")
	}
}

// Location returns the time zone. It is UTC for one that Check refuses.
func (c Config) Location() *time.Location {
	zone, err := location(c.Zone)
	if err != nil {
		return time.UTC
	}
	return zone
}

func location(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errors.New("the time zone of this machine is not that of its readers")
	}
	return time.LoadLocation(name) // an empty name is UTC
}

// Last returns the newest time, at or before now, at which the report fell due.
func (c Config) Last(now time.Time) time.Time {
	for days := 1; ; days-- {
		if t, ok := c.slot(now, days); ok && !t.After(now) {
			return t
		}
	}
}

// Next returns the first time after now at which the report falls due.
func (c Config) Next(now time.Time) time.Time {
	for days := -1; ; days++ {
		if t, ok := c.slot(now, days); ok && t.After(now) {
			return t
		}
	}
}

// slot returns when the report falls due on the day that is so many days after now's, and
// whether it does on that day. Where the clock skips that time it is an hour before or after;
// where the clock shows it twice it is one of both.
func (c Config) slot(now time.Time, days int) (time.Time, bool) {
	at := c.At
	if at == "" {
		at = defaultAt
	}
	clock, err := time.Parse(timeOfDay, at)
	if err != nil {
		panic(err) // unreachable unless Check was not asked
	}
	zone := c.Location()
	year, month, day := now.In(zone).Date()
	t := time.Date(year, month, day+days, clock.Hour(), clock.Minute(), 0, 0, zone)
	return t, c.Every == daily || strings.EqualFold(time.Date(year, month, day+days, 0, 0, 0, 0, time.UTC).Weekday().String(), c.day())
}

func (c Config) day() string {
	if c.On == "" {
		return time.Monday.String()
	}
	return c.On
}
