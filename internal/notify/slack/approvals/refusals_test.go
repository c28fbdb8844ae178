package approvals

import (
	"fmt"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/notify/slack"
)

// One user does not crowd the refusals of others out of the journal, nor do forgers, and
// all together do not fill it.
func TestRefusalsAreBounded(t *testing.T) {
	var f refusals
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	kept := func(user string, times int) (n int) {
		for range times {
			if f.keep(slack.Refused{UserID: user}, now) {
				n++
			}
		}
		return n
	}
	if n := kept("", 100); n != refusedForgers {
		t.Errorf("%d of forgers are kept", n)
	}
	if n := kept("U1", 100); n != refusedPerson {
		t.Errorf("%d of one user are kept", n)
	}
	if n := kept("U2", 1); n != 1 {
		t.Error("that of another user is not kept")
	}
	all := refusedPerson + 1
	for i := range 100 {
		all += kept(fmt.Sprint("V", i), 1)
	}
	if all != refusedPeople {
		t.Errorf("%d of many are kept", all)
	}
	now = now.Add(61 * time.Second)
	if n := kept("U1", 1); n != 1 {
		t.Error("after a minute it is not kept")
	}
}
