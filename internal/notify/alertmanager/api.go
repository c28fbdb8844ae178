package alertmanager

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/outbound"
	"github.com/inference-responder/responder/internal/outbound/endpoint"
)

// maxSilences bounds a list of silences, in bytes. A silence is about 1 KiB.
const maxSilences = 16 << 20

// maxStatus bounds the status, in bytes. The configuration is in it.
const maxStatus = 16 << 20

// maxAlerts bounds a list of alerts, in bytes.
const maxAlerts = 64 << 20

// postedSilence is a silence as Alertmanager takes it. Fields it does not know
// it ignores, so annotations are always sent.
type postedSilence struct {
	ID          string            `json:"id,omitempty"`
	Matchers    []matcher         `json:"matchers"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
	CreatedBy   string            `json:"createdBy"`
	Comment     string            `json:"comment"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type matcher struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	IsRegex bool   `json:"isRegex"`
	IsEqual *bool  `json:"isEqual,omitempty"` // nil: true
}

// keptSilence is a silence as Alertmanager gives it.
type keptSilence struct {
	postedSilence
	Status struct {
		State State `json:"state"`
	} `json:"status"`
}

// foundSilence is one of ours, with what it takes to post it again.
type foundSilence struct {
	Silence
	posted  postedSilence
	planned time.Time // when it was to end, from its comment; zero: unknown
}

// ours reads a silence that this program created; false for everybody else's
// and for one whose matchers somebody changed.
func (k keptSilence) ours() (foundSilence, bool) {
	run := runOf(k.Annotations, k.Comment)
	if k.CreatedBy != createdBy || !plainID(run) || !plainID(k.ID) {
		return foundSilence{}, false
	}
	labels := map[string]string{}
	for _, m := range k.Matchers {
		if m.IsRegex || m.IsEqual != nil && !*m.IsEqual {
			return foundSilence{}, false
		}
		labels[m.Name] = m.Value
	}
	return foundSilence{
		Silence: Silence{ID: k.ID, Run: run, Labels: labels, StartsAt: k.StartsAt, EndsAt: k.EndsAt, State: k.Status.State},
		posted:  k.postedSilence, planned: plannedEnd(k.Comment),
	}, true
}

// list returns our silences, those that have ended too when asked for.
func (s *Silences) list(ctx context.Context, ended bool) ([]foundSilence, error) {
	body, err := s.ask(ctx, endpoint.Request{
		Method: http.MethodGet, Path: "api/v2/silences", MaxAnswer: maxSilences,
		Query: url.Values{"expired": {fmt.Sprint(ended)}, "active": {"true"}, "pending": {"true"}},
	})
	if err != nil {
		return nil, err
	}
	var all []keptSilence
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, s.strange(err)
	}
	var out []foundSilence
	for _, k := range all {
		// Before 0.25 the server has no such parameter and gives all of them.
		if f, ok := k.ours(); ok && (ended || f.State != Expired) {
			out = append(out, f)
		}
	}
	// Newest first, so that of two with the same labels the later one counts.
	slices.SortStableFunc(out, func(a, b foundSilence) int { return b.StartsAt.Compare(a.StartsAt) })
	return out, nil
}

// get returns one silence of ours.
func (s *Silences) get(ctx context.Context, id string) (foundSilence, error) {
	if !plainID(id) {
		return foundSilence{}, endpoint.Invalid("silence: %q is not an identifier", outbound.OneLine(id, 40))
	}
	body, err := s.ask(ctx, endpoint.Request{Method: http.MethodGet, Path: "api/v2/silence/" + id, MaxAnswer: endpoint.MaxAnswer})
	if err != nil {
		return foundSilence{}, err
	}
	var k keptSilence
	if err := json.Unmarshal(body, &k); err != nil {
		return foundSilence{}, s.strange(err)
	}
	f, ok := k.ours()
	if !ok {
		return foundSilence{}, &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("the silence %s is not one this program made, so it is left alone", id)}
	}
	return f, nil
}

// keptAlert is an alert as Alertmanager gives it.
type keptAlert struct {
	Labels map[string]string `json:"labels"`
}

// alerts returns the alerts that have not resolved.
func (s *Silences) alerts(ctx context.Context) ([]keptAlert, error) {
	body, err := s.ask(ctx, endpoint.Request{
		Method: http.MethodGet, Path: "api/v2/alerts", MaxAnswer: maxAlerts,
		Query: url.Values{"active": {"true"}, "silenced": {"true"}, "inhibited": {"true"}, "unprocessed": {"true"}},
	})
	if err != nil {
		return nil, err
	}
	var all []keptAlert
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, s.strange(err)
	}
	return all, nil
}

// started is when the Alertmanager was started.
func (s *Silences) started(ctx context.Context) (time.Time, error) {
	body, err := s.ask(ctx, endpoint.Request{Method: http.MethodGet, Path: "api/v2/status", MaxAnswer: maxStatus})
	if err != nil {
		return time.Time{}, err
	}
	var status struct {
		Uptime time.Time `json:"uptime"` // the API's name for the time of the start
	}
	if err := json.Unmarshal(body, &status); err != nil {
		return time.Time{}, s.strange(err)
	}
	return status.Uptime, nil
}

// post creates or changes a silence and gives its identifier.
func (s *Silences) post(ctx context.Context, p postedSilence) (string, error) {
	body, err := endpoint.EncodeJSON(p)
	if err != nil {
		return "", err
	}
	answer, err := s.ask(ctx, endpoint.Request{
		Method: http.MethodPost, Path: "api/v2/silences", ContentType: "application/json", Body: body, MaxAnswer: endpoint.MaxAnswer,
	})
	if err != nil {
		return "", err
	}
	var id struct {
		SilenceID string `json:"silenceID"`
	}
	if err := json.Unmarshal(answer, &id); err != nil || !plainID(id.SilenceID) {
		return "", s.strange(err)
	}
	return id.SilenceID, nil
}

func (s *Silences) remove(ctx context.Context, id string) error {
	_, err := s.ask(ctx, endpoint.Request{Method: http.MethodDelete, Path: "api/v2/silence/" + id})
	return err
}

func (s *Silences) ask(ctx context.Context, r endpoint.Request) ([]byte, error) {
	token, err := endpoint.Bearer("Alertmanager", s.tokenFile)
	if err != nil {
		return nil, err
	}
	r.Token = token
	return s.endpoint.Do(ctx, r)
}

func (s *Silences) strange(err error) error {
	return &fault.Error{
		Reason: fault.ServerError, Err: err,
		Message: fmt.Sprintf("Alertmanager at %s answers with something else than API v2 does; check the address and its path prefix", s.endpoint.Where()),
	}
}
