package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gpu/repair"
	"github.com/inference-responder/responder/internal/notify/notifytest"
	"github.com/inference-responder/responder/internal/step"
)

func TestRepairsConfiguration(t *testing.T) {
	const base = "auth: {insecure: true}\ngpu: {repairs: {"
	c, err := config.Parse("dir/r.yaml", []byte(base+"url: 'https://tickets.example/x', token_file: t, ca_file: ca, timeout: 3s, idempotent: true}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if r := c.GPU.Repairs; r.TokenFile != "dir/t" || r.CAFile != "dir/ca" || !r.Idempotent {
		t.Errorf("%+v", r)
	}
	for more, want := range map[string]string{
		"token_file: t":                                "gpu.repairs.url",
		"url: 'tickets/secret'":                        "gpu.repairs.url: is not a URL",
		"url: 'http://a', timeout: 2m":                 "gpu.repairs.timeout",
		"url: 'http://a/secret', token_file: t":        "gpu.repairs.token_file: gpu.repairs.url is plain http",
		"url: 'HTTP://10.1.2.3/secret', token_file: t": "gpu.repairs.token_file: gpu.repairs.url is plain http",
		"url: 'http://a', key: 2":                      `unknown field "key"`,
	} {
		if _, err := config.Parse("r.yaml", []byte(base+more+"}}\n")); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", more, err, want)
		}
	}
}

// TestRepairsAreAskedFor: what the client says of a failure reaches the lever.
func TestRepairsAreAskedFor(t *testing.T) {
	server := notifytest.StartRepairServer(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := openRepairs(config.Config{GPU: config.GPU{Repairs: repair.Config{URL: server.URL, TokenFile: token, Idempotent: true}}})
	if err != nil || !r.Once() {
		t.Fatal(r, err)
	}
	ask := step.RepairRequest{Key: "k", Node: "gpu-17", Reason: "hot", Run: "r-1"}
	server.Fail(notifytest.Fault{Lose: true}, notifytest.Fault{Status: 422, Body: "no s3cret"})
	for _, unknown := range []bool{true, false} {
		_, err := r.Ask(t.Context(), ask)
		if e := new(fault.Error); !errors.As(err, &e) || e.Unknown != unknown || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v, unknown %t wanted", err, unknown)
		}
	}
	if ticket, err := r.Ask(t.Context(), ask); err != nil || ticket != "OPS-1" || len(server.Taken()) != 1 {
		t.Errorf("%q, %v, taken %v", ticket, err, server.Taken())
	}
	ask.Withdraw, ask.Key = "k", "k2"
	if _, err := r.Ask(t.Context(), ask); err != nil || server.Taken()[1].Body["action"] != "withdraw" {
		t.Errorf("%v, taken %v", err, server.Taken())
	}
}
