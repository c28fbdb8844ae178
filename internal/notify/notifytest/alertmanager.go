package notifytest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Alertmanager keeps silences as the real one does: a change of matchers or of
// the start makes a new one, and ended ones are kept.
type Alertmanager struct {
	Faults
	URL string

	// Annotations reports whether they are kept, as from 0.32 on.
	Annotations bool

	mu       sync.Mutex // guards what follows
	started  time.Time
	alerts   []map[string]string
	silences []AlertmanagerSilence
}

// AlertmanagerSilence is a silence as the API shows it.
type AlertmanagerSilence struct {
	ID       string `json:"id"`
	Matchers []struct {
		Name    string `json:"name"`
		Value   string `json:"value"`
		IsRegex *bool  `json:"isRegex"`
		IsEqual *bool  `json:"isEqual"`
	} `json:"matchers"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
	CreatedBy   string            `json:"createdBy"`
	Comment     string            `json:"comment"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Status      struct {
		State string `json:"state"`
	} `json:"status"`
}

// StartAlertmanager starts one that keeps annotations.
func StartAlertmanager(t testing.TB) *Alertmanager {
	t.Helper()
	a := &Alertmanager{Annotations: true, started: time.Now().Add(-24 * time.Hour)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v2/silences", a.list)
	mux.HandleFunc("GET /api/v2/alerts", func(w http.ResponseWriter, _ *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		out := []map[string]any{}
		for _, labels := range a.alerts {
			out = append(out, map[string]any{"labels": labels})
		}
		answer(w, http.StatusOK, out)
	})
	mux.HandleFunc("GET /api/v2/status", func(w http.ResponseWriter, _ *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		answer(w, http.StatusOK, map[string]any{"uptime": a.started})
	})
	mux.HandleFunc("POST /api/v2/silences", a.post)
	mux.HandleFunc("GET /api/v2/silence/{id}", a.get)
	mux.HandleFunc("DELETE /api/v2/silence/{id}", a.remove)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, mux.ServeHTTP) }))
	t.Cleanup(server.Close)
	a.URL = server.URL
	return a
}

// Silences returns all silences, with their states now.
func (a *Alertmanager) Silences() []AlertmanagerSilence {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := slices.Clone(a.silences)
	for i := range out {
		out[i].Status.State = out[i].state()
	}
	return out
}

// SetAlerts sets the alerts that fire, by their labels.
func (a *Alertmanager) SetAlerts(labels ...map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.alerts = labels
}

// Restart starts it anew: it keeps its silences, and no alerts.
func (a *Alertmanager) Restart() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.alerts, a.started = nil, time.Now()
}

// Active returns those that silence something now.
func (a *Alertmanager) Active() []AlertmanagerSilence {
	return slices.DeleteFunc(a.Silences(), func(s AlertmanagerSilence) bool { return s.Status.State != "active" })
}

// ExpireByHand ends a silence as a person does.
func (a *Alertmanager) ExpireByHand(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.silences {
		if a.silences[i].ID == id {
			a.silences[i].EndsAt = time.Now()
		}
	}
}

func (s AlertmanagerSilence) state() string {
	switch now := time.Now(); {
	case now.Before(s.StartsAt):
		return "pending"
	case now.Before(s.EndsAt):
		return "active"
	default:
		return "expired"
	}
}

func (a *Alertmanager) list(w http.ResponseWriter, r *http.Request) {
	out := slices.DeleteFunc(a.Silences(), func(s AlertmanagerSilence) bool {
		return r.URL.Query().Get(s.Status.State) == "false"
	})
	answer(w, http.StatusOK, out)
}

func (a *Alertmanager) get(w http.ResponseWriter, r *http.Request) {
	for _, s := range a.Silences() {
		if s.ID == r.PathValue("id") {
			answer(w, http.StatusOK, s)
			return
		}
	}
	http.NotFound(w, r)
}

func (a *Alertmanager) remove(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, s := range a.silences {
		if s.ID != r.PathValue("id") {
			continue
		}
		if s.state() == "expired" { // before 0.27
			answer(w, http.StatusInternalServerError, fmt.Sprintf("silence %s already expired", s.ID))
			return
		}
		a.silences[i].EndsAt = time.Now()
		return
	}
	http.NotFound(w, r)
}

func (a *Alertmanager) post(w http.ResponseWriter, r *http.Request) {
	var s AlertmanagerSilence
	if r.Header.Get("Content-Type") != "application/json" {
		answer(w, http.StatusUnsupportedMediaType, map[string]any{"code": 415, "message": "unsupported media type"})
		return
	}
	if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
		answer(w, http.StatusBadRequest, map[string]any{"code": 400, "message": err.Error()})
		return
	}
	now := time.Now()
	if problem := s.problem(now); problem != "" {
		answer(w, http.StatusBadRequest, problem)
		return
	}
	if !a.Annotations {
		s.Annotations = nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.silences, func(old AlertmanagerSilence) bool { return old.ID == s.ID })
	switch {
	case s.ID != "" && i < 0:
		answer(w, http.StatusNotFound, "silence not found")
		return
	case i >= 0 && a.silences[i].state() == "active" && reflect.DeepEqual(a.silences[i].Matchers, s.Matchers) && a.silences[i].StartsAt.Unix() == s.StartsAt.Unix():
		a.silences[i] = s
	default:
		if i >= 0 && a.silences[i].state() != "expired" {
			a.silences[i].EndsAt = now
		}
		s.ID = uuid()
		if s.StartsAt.Before(now) {
			s.StartsAt = now
		}
		a.silences = append(a.silences, s)
	}
	answer(w, http.StatusOK, map[string]string{"silenceID": s.ID})
}

// problem returns what Alertmanager would not accept.
func (s AlertmanagerSilence) problem(now time.Time) string {
	switch {
	case len(s.Matchers) == 0:
		return "at least one matcher required"
	case s.Comment == "" || s.CreatedBy == "":
		return "comment and createdBy are required"
	case !s.StartsAt.Before(s.EndsAt):
		return "Failed to create silence: start time must be before end time"
	case s.EndsAt.Before(now):
		return "Failed to create silence: end time can't be in the past"
	}
	for _, m := range s.Matchers {
		if m.Name == "" || m.IsRegex == nil {
			return "invalid label matcher"
		}
	}
	return ""
}

func uuid() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	h := fmt.Sprintf("%x", b)
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}
