// Package alertmanager silences the alerts of runs at an Alertmanager (API v2)
// while a change made for them takes effect and is proven, and finds out what
// resolved in silence. [Silences] is the client, [Silencer] follows the journal.
//
// A silence is looked for before it is created, so a lost answer makes no second
// one. Only silences that this program created are touched.
//
// The silencer records silence.created and silence.ended in the journal's
// stream control. Only internal/app calls it.
package alertmanager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/outbound"
	"github.com/inference-responder/responder/internal/outbound/endpoint"
)

// Bounds of a silence.
const (
	minSilence    = time.Minute
	maxSilence    = 24 * time.Hour
	maxMatchers   = 128
	maxMatcherLen = 32 << 10 // bytes of all names and values
	createdBy     = "responder"
	runAnnotation = "responder.run"
)

// Silences creates, extends and ends silences of single alerts at an
// Alertmanager (API v2). It only ever touches those it created. It is safe for
// concurrent use, but two calls of Create for the same run and labels at once
// may create two.
type Silences struct {
	endpoint  *endpoint.Endpoint
	tokenFile string
	max       time.Duration
}

// NewSilences checks the settings and that the files can be read.
func NewSilences(c Config) (*Silences, error) {
	e, err := endpoint.New("Alertmanager", c.AlertmanagerURL, c.CAFile, 0)
	if err != nil {
		return nil, err
	}
	if _, err := endpoint.Bearer("Alertmanager", c.TokenFile); err != nil {
		return nil, err
	}
	if c.Max < minSilence || c.Max > maxSilence {
		return nil, fmt.Errorf("silence: a longest life of %s is not between %s and %s", c.Max, minSilence, maxSilence)
	}
	return &Silences{endpoint: e, tokenFile: c.TokenFile, max: c.Max}, nil
}

// State is whether a silence works now.
type State string

// The states of a silence.
const (
	Pending State = "pending" // begins later: the clocks differ
	Active  State = "active"
	Expired State = "expired"
)

// Silence is one of ours at the Alertmanager.
type Silence struct {
	ID       string
	Run      string
	Labels   map[string]string // of the alert, one equality matcher each
	StartsAt time.Time
	EndsAt   time.Time
	State    State
}

// Request asks for a silence of one alert.
type Request struct {
	Run    string            // identifier under which the silence is found again: letters, digits and -
	Link   string            // where people see what is being done; may be empty
	Labels map[string]string // all labels of the alert
	For    time.Duration     // from now; cut to what is left of the longest life
}

// Create silences exactly one alert: by equality of every label. When the run
// has an active silence of that alert already, that one is given. When somebody
// ended it by hand the error is a Conflict: people decide what they hear.
// Labels that would silence more than one alert's worth are Invalid.
func (s *Silences) Create(ctx context.Context, r Request) (Silence, error) {
	if err := r.check(); err != nil {
		return Silence{}, err
	}
	all, err := s.list(ctx, true)
	if err != nil {
		return Silence{}, err
	}
	now := time.Now()
	for _, old := range all {
		switch {
		case old.Run != r.Run || !maps.Equal(old.Labels, plainLabels(r.Labels)):
		case old.State != Expired:
			return old.Silence, nil
		case old.planned.After(now):
			return Silence{}, &fault.Error{
				Reason:  fault.Conflict,
				Message: fmt.Sprintf("the silence %s of run %s was ended by hand before its time, so none is created", old.ID, r.Run),
			}
		}
	}
	end := now.Add(min(max(r.For, minSilence), s.max)).UTC().Truncate(time.Second)
	posted := postedSilence{
		Matchers: matchersOf(r.Labels), StartsAt: now.UTC(), EndsAt: end, CreatedBy: createdBy,
		Comment: r.comment(end), Annotations: map[string]string{runAnnotation: r.Run},
	}
	if r.Link != "" {
		posted.Annotations["responder.link"] = r.Link
	}
	id, err := s.post(ctx, posted)
	if err != nil {
		return Silence{}, err
	}
	return Silence{ID: id, Run: r.Run, Labels: plainLabels(r.Labels), StartsAt: posted.StartsAt, EndsAt: end, State: Active}, nil
}

// Extend makes an active silence of ours last for d from now, but no longer
// than the longest life after it began. One that has ended is not begun again:
// NotFound when it is gone, Conflict when it has expired.
func (s *Silences) Extend(ctx context.Context, id string, d time.Duration) (Silence, error) {
	old, err := s.get(ctx, id)
	if err != nil {
		return Silence{}, err
	}
	if old.State == Expired {
		return Silence{}, &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("the silence %s of run %s has ended, so it is not extended", id, old.Run)}
	}
	end := time.Now().Add(max(d, minSilence)).UTC().Truncate(time.Second)
	if latest := old.StartsAt.Add(s.max); end.After(latest) {
		end = latest
	}
	if !end.After(old.EndsAt) {
		return old.Silence, nil
	}
	posted := old.posted
	posted.ID, posted.EndsAt = old.ID, end
	posted.Comment = withEnd(posted.Comment, end)
	if old.ID, err = s.post(ctx, posted); err != nil {
		return Silence{}, err
	}
	old.EndsAt = end
	return old.Silence, nil
}

// Expire ends a silence of ours. One that is gone or has ended is no error.
func (s *Silences) Expire(ctx context.Context, id string) error {
	old, err := s.get(ctx, id)
	var e *fault.Error
	switch {
	case errors.As(err, &e) && e.Reason == fault.NotFound:
		return nil
	case err != nil:
		return err
	case old.State == Expired:
		return nil
	}
	// The comment first: a silence that ends before the time it names was ended
	// by a person, after which Create makes no other. When this fails it will
	// look so, which errs on the side of being heard.
	posted := old.posted
	posted.Comment = withEnd(posted.Comment, time.Now())
	if changed, err := s.post(ctx, posted); err == nil {
		id = changed
	}
	return s.remove(ctx, id)
}

// resendWithin is how long after its start an Alertmanager may still lack alerts
// that fire: it keeps none over a restart, and Prometheus sends them again
// every minute by default, at most every few.
const resendWithin = 5 * time.Minute

// Firing reports whether the Alertmanager has an alert with at least these
// labels, silenced or not. One that was started a moment ago has none until
// Prometheus sends them again: that it lacks the alert then says nothing, which
// is a ServerError.
func (s *Silences) Firing(ctx context.Context, labels map[string]string) (bool, error) {
	alerts, err := s.alerts(ctx)
	if err != nil {
		return false, err
	}
	if carries(alerts, labels) {
		return true, nil
	}
	started, err := s.started(ctx)
	if err != nil {
		return false, err
	}
	if age := time.Since(started); age < resendWithin {
		return false, &fault.Error{Reason: fault.ServerError, Message: fmt.Sprintf(
			"Alertmanager was started %s ago and may not have been sent every alert again, so that it lacks one says nothing until it has run for %s",
			max(0, age).Round(time.Second), resendWithin)}
	}
	return false, nil
}

// carries reports whether one of the alerts has at least these labels.
func carries(alerts []keptAlert, labels map[string]string) bool {
	want := plainLabels(labels)
	for _, a := range alerts {
		has := true
		for name, value := range want {
			has = has && a.Labels[name] == value
		}
		if has {
			return true
		}
	}
	return false
}

// List returns those of our silences that have not ended, of every run. After a
// crash it tells which ones were created.
func (s *Silences) List(ctx context.Context) ([]Silence, error) {
	found, err := s.list(ctx, false)
	if err != nil {
		return nil, err
	}
	out := make([]Silence, 0, len(found))
	for _, f := range found {
		out = append(out, f.Silence)
	}
	return out, nil
}

// check refuses what would silence more than the one alert.
func (r Request) check() error {
	if !plainID(r.Run) {
		return endpoint.Invalid("silence: %q is not a run's identifier", outbound.OneLine(r.Run, 40))
	}
	labels := plainLabels(r.Labels)
	if labels["alertname"] == "" {
		return endpoint.Invalid("silence of run %s: the alert has no alertname, so the silence would cover others", r.Run)
	}
	where := 0
	for name := range labels {
		if name != "alertname" && name != "severity" {
			where++
		}
	}
	if where == 0 {
		return endpoint.Invalid("silence of run %s: alert %s has no label that says where, so the silence would cover all of that name", r.Run, outbound.OneLine(labels["alertname"], 80))
	}
	size := 0
	for name, value := range labels {
		size += len(name) + len(value)
	}
	if len(labels) > maxMatchers || size > maxMatcherLen {
		return endpoint.Invalid("silence of run %s: the alert has %d labels with %d bytes, more than %d with %d", r.Run, len(labels), size, maxMatchers, maxMatcherLen)
	}
	return nil
}

// The comment is what people read in Alertmanager, and what a silence is found
// by where annotations are not kept (before 0.32). withEnd keeps its last part
// true.
const (
	commentHead  = "responder run "
	commentUntil = " It ends with the run, at "
)

func (r Request) comment(end time.Time) string {
	c := commentHead + r.Run + " works on this alert."
	if r.Link != "" {
		c += " See " + r.Link + " ."
	}
	return withEnd(c, end)
}

// withEnd writes when a silence ends at the latest. That is also how one that
// was ended by hand is told from one whose time was over.
func withEnd(comment string, end time.Time) string {
	head, _, _ := strings.Cut(comment, commentUntil)
	return head + commentUntil + end.UTC().Format(time.RFC3339) + " at the latest."
}

// runOf finds the run in a silence's annotation or comment.
func runOf(annotations map[string]string, comment string) string {
	if run := annotations[runAnnotation]; run != "" {
		return run
	}
	rest, ok := strings.CutPrefix(comment, commentHead)
	if !ok {
		return ""
	}
	run, _, _ := strings.Cut(rest, " ")
	return run
}

// plannedEnd is when the comment says that a silence ends.
func plannedEnd(comment string) time.Time {
	_, rest, _ := strings.Cut(comment, commentUntil)
	text, _, _ := strings.Cut(rest, " ")
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// plainLabels leaves out labels without a value: Alertmanager does not keep them.
func plainLabels(labels map[string]string) map[string]string {
	out := make(map[string]string, len(labels))
	for name, value := range labels {
		if name != "" && value != "" {
			out[name] = value
		}
	}
	return out
}

func matchersOf(labels map[string]string) []matcher {
	labels = plainLabels(labels)
	out := make([]matcher, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		equal := true
		out = append(out, matcher{Name: name, Value: labels[name], IsEqual: &equal})
	}
	return out
}

func plainID(s string) bool {
	ok, err := regexp.MatchString(`^[0-9A-Za-z-]{1,64}$`, s)
	return ok && err == nil
}
