package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"go.yaml.in/yaml/v3"
)

// Every command that tells the service something answers, for programs too, with
// what the service holds after it.
func TestDecisionsAnswerPrograms(t *testing.T) {
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.Path
		w.Header().Set("Content-Type", client.JSONType)
		if strings.HasSuffix(r.URL.Path, "/promote") {
			// Two levers of a kind: the one that was lifted is the one that changed last.
			fmt.Fprint(w, `{"levers":[
				{"playbook":"p","service":"s","lever":"more","kind":"kube.scale","level":"suggest","heldBy":[],"results":[]},
				{"playbook":"p","service":"s","lever":"less","kind":"kube.scale","level":"auto","heldBy":[],"results":[],"changed":"2026-03-01T12:00:00Z"}]}`)
			return
		}
		if r.URL.Path == client.SessionsPath {
			fmt.Fprint(w, `{"sessions":[],"ended":2}`)
			return
		}
		fmt.Fprint(w, `{"run":{"run":"r-1","playbook":"p","status":"planning"}}`)
	}))
	defer server.Close()
	for _, c := range []struct{ args, asks, table, has string }{
		{"approve r-1 --yes", "POST /api/v1/runs/r-1/approve", "approved r-1; follow it", "run: r-1"},
		{"deny r-1 --reason x", "POST /api/v1/runs/r-1/deny", "denied r-1", "run: r-1"},
		{"replan r-1", "POST /api/v1/runs/r-1/replan", "r-1 plans afresh", "run: r-1"},
		{"runs cancel r-1 --reason x", "POST /api/v1/runs/r-1/cancel", "asked r-1 to stop", "run: r-1"},
		{"runs resolve r-1 --applied --reason x", "POST /api/v1/runs/r-1/resolve", "told r-1", "run: r-1"},
		{"runs release r-1 --reason x", "POST /api/v1/runs/r-1/release", "released r-1", "run: r-1"},
		{"sessions end --person ada", "DELETE /api/v1/sessions", "sessions ended: 2; still signed in: 0", "ended: 2"},
		{"ladder promote p s kube.scale --reason x", "POST /api/v1/ladder/promote", "promoted: less of playbook p on s is at auto", "lever: less"},
	} {
		for _, format := range []string{"table", "json", "yaml"} {
			var stdout, stderr strings.Builder
			args := append(strings.Fields(c.args), "--server", server.URL, "-o", format)
			asked = ""
			p := &command.Process{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Getenv: os.Getenv, Temp: &command.Temporary{}}
			if code := Run(t.Context(), args, p); code != command.ExitOK || stderr.Len() > 0 || asked != c.asks {
				t.Errorf("%v: exit code %d, asked %q: %s", args, code, asked, stderr.String())
				continue
			}
			text := stdout.String()
			if format == "table" {
				if !strings.HasPrefix(text, c.table) {
					t.Errorf("%v: %s, want %q", args, text, c.table)
				}
				continue
			}
			var v any
			decode := yaml.Unmarshal
			if format == "json" {
				decode = json.Unmarshal
			}
			if err := decode([]byte(text), &v); err != nil {
				t.Errorf("%v: %v: %s", args, err, text)
			}
			if again, err := yaml.Marshal(v); err != nil || !strings.Contains(string(again), c.has) {
				t.Errorf("%v: %s (%v), want %q in it", args, again, err, c.has)
			}
		}
	}
}

// TestHoldCommands: keep, return and cancel say what they mean for a hold, which pauses
// every rollout of the service until it ends.
func TestHoldCommands(t *testing.T) {
	const loan = `{"run":{"run":"r-1","playbook":"loan-return","status":"watching","service":"serving/chat","loan":"r-0/hold#1","loanLever":"rollout.hold",
		"serviceSpec":{"namespace":"serving","workload":{"kind":"Deployment","name":"chat"}}}}`
	const resume = "kubectl -n serving rollout resume deployment/chat"
	for _, tt := range []struct {
		args, run string
		says      []string
	}{
		{"loans keep r-1 --reason x", loan, []string{"r-1 is kept: nothing ends the hold of serving/chat any more", "a fix too", resume}},
		{"loans return r-1 --reason x", loan, []string{"r-1 looks now", "if it is, the hold stays", "To let that release go on: " + resume}},
		{"runs cancel r-1 --reason x", loan, []string{"asked r-1 to stop: nothing ends the hold", resume}},
		{
			"runs cancel r-0 --reason x", `{"run":{"run":"r-0","status":"deciding","loans":[{"loan":"r-0/hold#1","kind":"rollout.hold"}]}}`,
			[]string{"asked r-0 to stop; the rollout that it holds stays held until another release replaces it"},
		},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", client.JSONType)
			fmt.Fprint(w, tt.run)
		}))
		var stdout, stderr strings.Builder
		p := &command.Process{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Getenv: os.Getenv, Temp: &command.Temporary{}}
		if code := Run(t.Context(), append(strings.Fields(tt.args), "--server", server.URL), p); code != command.ExitOK {
			t.Errorf("%s: exit code %d: %s", tt.args, code, stderr.String())
		}
		for _, want := range tt.says {
			if !strings.Contains(stdout.String(), want) {
				t.Errorf("%s: %q, want %q in it", tt.args, stdout.String(), want)
			}
		}
		server.Close()
	}
}

// TestDecisionAboutAnotherPlan: who names a plan that is not asked about any more reads one
// message, with the command for what is asked now. Another refusal stays what it is.
func TestDecisionAboutAnotherPlan(t *testing.T) {
	const again = "responder approve r-1 --digest sha256:new --reason 'it'\\''s me'"
	for _, tt := range []struct {
		status int
		code   string
		gate   string
		want   string
	}{
		{
			http.StatusConflict, api.CodeStale, `{"gate":"g","digest":"sha256:new"}`,
			"responder: nothing was decided: the open question is about sha256:new, not about sha256:old\nread it first: responder runs show r-1\nthen approve:  " + again + "\n",
		},
		{
			http.StatusConflict, api.CodeStale, `{"gate":"g","digest":"undo:sha256:new","takeBack":true}`,
			"responder: nothing was decided: the open question is about undo:sha256:new, not about sha256:old\nread it first: responder runs show r-1\nthen approve:  " +
				strings.Replace(again, "sha256", "undo:sha256", 1) + "\n",
		},
		{http.StatusConflict, api.CodeStale, `{"gate":"g","digest":"sha256:old"}`, "responder: refused; so"},
		{http.StatusConflict, "conflict", `{"gate":"g","digest":"sha256:new"}`, "responder: refused; so"}, // the deadline is over
		{http.StatusForbidden, "forbidden", `{"gate":"g","digest":"sha256:new"}`, "responder: you may not do that: refused; so"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", client.JSONType)
			if r.Method == http.MethodPost {
				w.WriteHeader(tt.status)
				fmt.Fprintf(w, `{"error":{"code":%q,"message":"refused","hint":"so"}}`, tt.code)
				return
			}
			fmt.Fprintf(w, `{"run":{"run":"r-1","gate":%s}}`, tt.gate)
		}))
		var stdout, stderr strings.Builder
		p := &command.Process{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Getenv: os.Getenv, Temp: &command.Temporary{}}
		args := []string{"approve", "r-1", "--digest", "sha256:old", "--reason", "it's me", "--server", server.URL}
		if code := Run(t.Context(), args, p); code == command.ExitOK || !strings.HasPrefix(stderr.String(), tt.want) {
			t.Errorf("%d, %s: exit code %d:\n%s\nwant\n%s", tt.status, tt.gate, code, stderr.String(), tt.want)
		}
		server.Close()
	}
}
