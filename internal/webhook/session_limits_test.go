package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/webhook/session"
)

// Groups that the issuer takes away last until the session ends: it is asked once.
func TestGroupsLastForTheSession(t *testing.T) {
	s, i, surfers := withBrowserSignIn(t, newHouse(), "", nil)
	groups := func() []string {
		all := decoded[api.SessionList](t, ask(s, http.MethodGet, sessionsPath, sessionsToken, http.NoBody)).Sessions
		if len(all) != 1 {
			t.Fatalf("%d sessions", len(all))
		}
		return all[0].Groups
	}
	b := surfers()
	if status, _, _ := b.get(pathToIssuer); status != 200 {
		t.Fatal(status)
	}
	had := groups()
	i.Person(map[string]any{"groups": []string{}})
	if status, _, _ := b.get("/"); status != 200 || len(had) == 0 || !slices.Equal(groups(), had) {
		t.Errorf("%d, groups %v, and then %v", status, had, groups())
	}
	if status, at, _ := b.get(pathToIssuer); status == 200 && at == "/" && slices.Equal(groups(), had) {
		t.Errorf("after another sign-in the groups are %v still", groups())
	}
}

// Where the memory of answered attempts is full, nobody signs in through the issuer.
func TestManySignInsKeepOthersOut(t *testing.T) {
	s, _, surfers := withBrowserSignIn(t, newHouse(), "", nil)
	for i := 0; ; i++ {
		if err := s.auth.browsers.spent.Spend(strconv.Itoa(i), time.Now()); errors.Is(err, session.ErrFull) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if status, _, body := surfers().get(pathToIssuer); status != http.StatusTooManyRequests || !strings.Contains(body, "Too many people sign in at present") {
		t.Errorf("%d: %s", status, body)
	}
}

// Guessing by Authorization: Basic is limited by address, not by name: from many addresses
// nobody waits. In the form many addresses slow a name down for all but known browsers.
func TestGuessingFromManyAddresses(t *testing.T) {
	f, now := newFailures(), time.Now()
	wrong := func() error { return errBadCredential }
	for i := range limitOfName.most {
		address := fmt.Sprintf("192.0.%d.%d:1", 2+i/250, 1+i%250)
		if wait := f.basic(address, true, now); wait != 0 {
			t.Fatalf("guess %d waits for %s", i, wait)
		}
		if wait, _ := f.check("ada", address, "", now, wrong); wait != 0 {
			t.Fatalf("guess %d in the form waits for %s", i, wait)
		}
	}
	if wait, _ := f.check("ada", "198.51.100.1:1", "", now, wrong); wait == 0 {
		t.Error("one more guess in the form does not wait")
	}
	if wait, _ := f.check("ada", "198.51.100.1:1", "known", now, func() error { return nil }); wait != 0 {
		t.Errorf("a known browser waits for %s", wait)
	}
}
