package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
)

// TestServiceOfAnOlderVersion: a service that does not know the question answers with its
// whole catalog. The one that was asked for is shown, and no other in its place.
func TestServiceOfAnOlderVersion(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", client.JSONType)
		fmt.Fprint(w, `{"services":[
			{"service":"serving/chat","autonomy":"auto","workload":{"kind":"Deployment","name":"chat"},"owners":["user:ada"]},
			{"service":"serving/code","autonomy":"observe","workload":{"kind":"Deployment","name":"code"},"owners":[]}]}`)
	}))
	defer server.Close()
	ask := func(args string) (code int, stdout, stderr string) {
		var out, wrong strings.Builder
		p := &command.Process{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &wrong, Getenv: os.Getenv, Temp: &command.Temporary{}}
		code = Run(t.Context(), append(strings.Fields(args), "--server", server.URL), p)
		return code, out.String(), wrong.String()
	}
	code, text, _ := ask("services serving/code")
	if code != command.ExitOK || !strings.HasPrefix(text, "serving/code: Deployment code, autonomy observe") || !strings.Contains(text, "This server does not report") {
		t.Errorf("exit code %d: %s", code, text)
	}
	if code, text, _ := ask("services serving/code -o name"); code != command.ExitOK || text != "serving/code\n" {
		t.Errorf("exit code %d: %s", code, text)
	}
	if code, text, wrong := ask("services serving/cod"); code == command.ExitOK || text != "" || !strings.Contains(wrong, `did you mean "serving/code"`) {
		t.Errorf("exit code %d: %s%s", code, text, wrong)
	}
}
