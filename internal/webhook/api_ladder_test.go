package webhook

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/api"
)

func TestLadder(t *testing.T) {
	h := newHouse()
	s := mustNew(t, options(t, h))
	const path = "/api/v1/ladder"
	if w := ask(s, http.MethodGet, path, readToken, nil); strings.TrimSpace(w.Body.String()) != `{"levers":[]}` {
		t.Errorf("no levers are %s", w.Body)
	}
	h.levers = []api.TrackRecord{
		{Playbook: "p", Service: "chat", Lever: "rollback", Demoted: true},
		{Playbook: "p", Service: "code", Lever: "rollback", Demoted: true},
	}
	if got := decoded[api.LeverList](t, ask(s, http.MethodGet, path+"?service=code&playbook=p", readToken, nil)).Levers; len(got) != 1 || got[0].Service != "code" {
		t.Errorf("on code: %+v", got)
	}
	const good = `{"playbook":"p","service":"chat","lever":"rollback","reason":"fixed"}`
	for _, c := range []struct {
		name, token, body string
		want              int
	}{
		{"a reader", readToken, good, http.StatusForbidden},
		{"nobody", "", good, http.StatusUnauthorized},
		{"no reason", decideToken, `{"playbook":"p","service":"chat","lever":"rollback"}`, http.StatusBadRequest},
		{"no lever", decideToken, `{"playbook":"p","service":"chat","reason":"x"}`, http.StatusBadRequest},
		{"who it is", decideToken, `{"playbook":"p","service":"chat","lever":"rollback","reason":"x","by":"user:root"}`, http.StatusBadRequest},
		{"a reason that steers a terminal", decideToken, `{"playbook":"p","service":"chat","lever":"rollback","reason":"\u001b[2J"}`, http.StatusBadRequest},
	} {
		if w := ask(s, http.MethodPost, path+"/promote", c.token, strings.NewReader(c.body)); w.Code != c.want {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
	}
	if !h.levers[0].Demoted {
		t.Fatal("somebody promoted who may not")
	}
	got := decoded[api.LeverList](t, ask(s, http.MethodPost, path+"/promote", decideToken, strings.NewReader(good))).Levers
	if len(got) != 1 || got[0].Demoted || got[0].Why != "user:decide: fixed" || !h.levers[1].Demoted {
		t.Errorf("promoted: %+v", got)
	}
	h.refuse = fmt.Errorf("%w: it is not demoted", ErrConflict)
	if w := ask(s, http.MethodPost, path+"/promote", decideToken, strings.NewReader(good)); w.Code != http.StatusConflict {
		t.Errorf("refused: %d %s", w.Code, w.Body)
	}
}

func TestLastGood(t *testing.T) {
	h := newHouse()
	s := mustNew(t, options(t, h))
	const path = "/api/v1/last-good"
	if w := ask(s, http.MethodGet, path, readToken, nil); strings.TrimSpace(w.Body.String()) != `{"good":[]}` {
		t.Errorf("nothing verified is %s", w.Body)
	}
	h.good = []api.LastGood{{Service: "chat", Variable: "--max-num-seqs", Value: "64"}, {Service: "code", Variable: "replicas", Value: "3"}}
	if got := decoded[api.LastGoodList](t, ask(s, http.MethodGet, path+"?service=code", readToken, nil)).Good; len(got) != 1 || got[0].Value != "3" {
		t.Errorf("of code: %+v", got)
	}
}
