package alertmanager

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/notifytest"
	"github.com/inference-responder/responder/internal/outbound/endpoint"
)

var update = flag.Bool("update", false, "write the golden files")

func start(t *testing.T) (*notifytest.Alertmanager, *Silences) {
	t.Helper()
	server := notifytest.StartAlertmanager(t)
	s, err := NewSilences(Config{AlertmanagerURL: server.URL, Max: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return server, s
}

func testSilence() Request {
	return Request{
		Run: "r-01JABC", Link: "https://responder.example/runs/r-01JABC", For: 10 * time.Minute,
		Labels: map[string]string{"alertname": "InferenceTTFTFastBurn", "namespace": "serving", "service": "chat", "severity": "page", "empty": ""},
	}
}

// The payload: every label by equality, bounded in time, found again by people
// and by us.
func TestSilencePayload(t *testing.T) {
	at := time.Date(2026, 3, 1, 10, 30, 0, 0, time.UTC)
	r := testSilence()
	end := at.Add(10 * time.Minute)
	body, err := endpoint.EncodeJSON(postedSilence{
		Matchers: matchersOf(r.Labels), StartsAt: at, EndsAt: end, CreatedBy: createdBy, Comment: r.comment(end),
		Annotations: map[string]string{runAnnotation: r.Run, "responder.link": r.Link},
	})
	if err != nil {
		t.Fatal(err)
	}
	notifytest.Golden(t, *update, "silence", body)
}

func TestSilenceLife(t *testing.T) {
	for _, annotations := range []bool{true, false} { // before 0.32 the comment has to do
		t.Run(fmt.Sprintf("annotations %v", annotations), func(t *testing.T) {
			server, s := start(t)
			server.Annotations = annotations
			made, err := s.Create(t.Context(), testSilence())
			if err != nil {
				t.Fatal(err)
			}
			if left := time.Until(made.EndsAt); left > 10*time.Minute || left < 9*time.Minute {
				t.Errorf("it ends in %s", left)
			}
			again, err := s.Create(t.Context(), testSilence())
			if err != nil || again.ID != made.ID || len(server.Silences()) != 1 {
				t.Errorf("asked twice: %v, %v, %d silences", again.ID, err, len(server.Silences()))
			}
			found, err := s.List(t.Context())
			if err != nil || len(found) != 1 || found[0].ID != made.ID || found[0].Run != "r-01JABC" {
				t.Fatalf("after a crash: %+v, %v", found, err)
			}
			if diff := cmp.Diff(plainLabels(testSilence().Labels), found[0].Labels); diff != "" {
				t.Errorf("labels, -want +got:\n%s", diff)
			}
			longer, err := s.Extend(t.Context(), made.ID, 30*time.Minute)
			if err != nil || longer.ID != made.ID || !longer.EndsAt.After(made.EndsAt.Add(19*time.Minute)) {
				t.Errorf("extended: %+v, %v", longer, err)
			}
			if err := s.Expire(t.Context(), made.ID); err != nil || len(server.Active()) != 0 {
				t.Errorf("expired: %v, %d active", err, len(server.Active()))
			}
			if err := s.Expire(t.Context(), made.ID); err != nil {
				t.Errorf("expired twice: %v", err)
			}
			// The run goes on with another lever: ours was not ended by a person.
			if next, err := s.Create(t.Context(), testSilence()); err != nil || next.ID == made.ID {
				t.Errorf("created again: %+v, %v", next, err)
			}
		})
	}
}

// However often it is asked, a silence does not outlive its bound.
func TestSilenceIsBounded(t *testing.T) {
	server, s := start(t)
	r := testSilence()
	r.For = 100 * time.Hour
	made, err := s.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if made, err = s.Extend(t.Context(), made.ID, 100*time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	kept := server.Silences()[0]
	if life := kept.EndsAt.Sub(kept.StartsAt); life > time.Hour {
		t.Errorf("a life of %s, more than an hour", life)
	}
}

func TestSilenceTooBroad(t *testing.T) {
	server, s := start(t)
	for what, change := range map[string]func(*Request){
		"no labels":          func(r *Request) { r.Labels = nil },
		"no alertname":       func(r *Request) { delete(r.Labels, "alertname") },
		"empty alertname":    func(r *Request) { r.Labels["alertname"] = "" },
		"only alertname":     func(r *Request) { r.Labels = map[string]string{"alertname": "A"} },
		"only severity":      func(r *Request) { r.Labels = map[string]string{"alertname": "A", "severity": "page", "x": ""} },
		"no run":             func(r *Request) { r.Run = "" },
		"run of other signs": func(r *Request) { r.Run = "r-1 works" },
		"labels without end": func(r *Request) { r.Labels["l"] = strings.Repeat("x", maxMatcherLen) },
		"too many of them all": func(r *Request) {
			for i := range maxMatchers {
				r.Labels[fmt.Sprint("l", i)] = "x"
			}
		},
	} {
		r := testSilence()
		r.Labels = maps.Clone(r.Labels)
		change(&r)
		_, err := s.Create(t.Context(), r)
		notifytest.WantReason(t, what, err, fault.Invalid)
	}
	if n := len(server.Silences()); n != 0 {
		t.Errorf("%d silences were created", n)
	}
	// A value that looks like a regular expression is a value.
	r := testSilence()
	r.Labels["service"] = ".*"
	if _, err := s.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for _, m := range server.Silences()[0].Matchers {
		if *m.IsRegex || !*m.IsEqual {
			t.Errorf("matcher %+v is no equality", m)
		}
	}
}

// What a person decided about a silence stays.
func TestSilenceEndedByHand(t *testing.T) {
	server, s := start(t)
	made, err := s.Create(t.Context(), testSilence())
	if err != nil {
		t.Fatal(err)
	}
	server.ExpireByHand(made.ID)
	_, err = s.Create(t.Context(), testSilence())
	notifytest.WantReason(t, "create", err, fault.Conflict)
	_, err = s.Extend(t.Context(), made.ID, time.Hour)
	notifytest.WantReason(t, "extend", err, fault.Conflict)
	if n := len(server.Active()); n != 0 {
		t.Errorf("%d silences are active after a person ended it", n)
	}
	other := testSilence()
	other.Run = "r-02"
	if _, err := s.Create(t.Context(), other); err != nil {
		t.Errorf("another run: %v", err)
	}
}

// Silences of people are left alone.
func TestSilenceOfOthers(t *testing.T) {
	server, s := start(t)
	body, err := json.Marshal(postedSilence{
		Matchers: matchersOf(testSilence().Labels), StartsAt: time.Now(), EndsAt: time.Now().Add(time.Hour), CreatedBy: "ada", Comment: commentHead + "r-01JABC works",
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.ask(t.Context(), endpoint.Request{Method: "POST", Path: "api/v2/silences", ContentType: "application/json", Body: body}); err != nil {
		t.Fatal(err)
	}
	id := server.Silences()[0].ID
	notifytest.WantReason(t, "expire", s.Expire(t.Context(), id), fault.Conflict)
	_, err = s.Extend(t.Context(), id, time.Hour)
	notifytest.WantReason(t, "extend", err, fault.Conflict)
	if found, err := s.List(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("taken for ours: %+v, %v", found, err)
	}
	if len(server.Active()) != 1 {
		t.Error("it was ended")
	}
}

// A lost answer makes no second silence, and answers of something else are
// errors.
func TestSilenceFaults(t *testing.T) {
	server, s := start(t)
	server.Fail(notifytest.Fault{Status: 200, Body: "[]"}, notifytest.Fault{Lose: true})
	_, err := s.Create(t.Context(), testSilence())
	notifytest.WantReason(t, "lost answer", err, fault.Unreachable)
	if _, err := s.Create(t.Context(), testSilence()); err != nil || len(server.Silences()) != 1 {
		t.Errorf("after a lost answer: %v, %d silences", err, len(server.Silences()))
	}
	for _, body := range []string{"<html>", "{}", `[{"id":5}]`, `[{"matchers":{}}]`} {
		server.Fail(notifytest.Fault{Status: 200, Body: body})
		_, err := s.List(t.Context())
		notifytest.WantReason(t, body, err, fault.ServerError)
	}
	server.Fail(notifytest.Fault{Status: 200, Body: "[" + strings.Repeat(" ", maxSilences) + "]"})
	_, err = s.List(t.Context())
	notifytest.WantReason(t, "endless", err, fault.ServerError)
	server.Fail(notifytest.Fault{Status: 200, Body: "[]"}, notifytest.Fault{Status: 200, Body: `{"silenceID":"../alerts"}`})
	r := testSilence()
	r.Run = "r-09"
	_, err = s.Create(t.Context(), r)
	notifytest.WantReason(t, "odd identifier", err, fault.ServerError)
	if err := s.Expire(t.Context(), "00000000-0000-0000-0000-000000000000"); err != nil {
		t.Errorf("one that is gone: %v", err)
	}
	notifytest.WantReason(t, "traversal", s.Expire(t.Context(), "../../-/reload"), fault.Invalid)
}

func TestBadLimits(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Second, 48 * time.Hour} {
		if _, err := NewSilences(Config{AlertmanagerURL: "http://h", Max: limit}); err == nil {
			t.Errorf("a longest life of %s is accepted", limit)
		}
	}
}

// A server that echoes the token does not bring it into an error.
func TestTokenStaysOutOfErrors(t *testing.T) {
	const token = "canary-token"
	server := notifytest.StartAlertmanager(t)
	s, err := NewSilences(Config{AlertmanagerURL: server.URL, TokenFile: notifytest.SecretFile(t, token), Max: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range []notifytest.Fault{{Status: 400, Body: "bad: " + token}, {Status: 503, Body: token}} {
		server.Fail(fault)
		if _, err := s.List(t.Context()); err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("%+v: %v", fault, err)
		}
	}
}
