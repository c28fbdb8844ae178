package app

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
	"github.com/inference-responder/responder/internal/step"
)

// canary is in every credential of the templates of a test.
const canary = "cAnArY"

// leakyTemplate is a pod template with a credential in every form in which people leave
// one there.
func leakyTemplate(n string) corev1.PodTemplateSpec {
	t := kubetest.Template("inference-chat", "vllm/vllm-openai:v0.11", "--max-num-seqs", "256", "--greeting", canary+n,
		"https://hooks.slack.com/services/T0/B0/"+canary+n)
	c := &t.Spec.Containers[0]
	for name, value := range map[string]string{
		"PGPASSWORD": canary + n, "DB_PASS": canary + n, "GREETING": canary + n,
		"HF_ENDPOINT":  "https://a.blob.core.windows.net/m?sv=1&sig=" + canary + n,
		"VLLM_HOST_IP": "https://hooks.slack.com/services/T0/B0/" + canary + n,
		"VLLM_TOKENS":  "hvs.CAESIJ0123456789" + canary + n,
		"VLLM_PLUGINS": "postgres://u:" + canary + n + "@h/db",
	} {
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
	}
	t.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "init", Command: []string{"sh", "-c", `export DB_PASSWORD="one ` + canary + n + ` two" && pull`}}}
	return t
}

// leakyWorkloads are simulated ones whose revisions have the fields of real templates.
type leakyWorkloads struct {
	step.Workloads
	client *kube.Client
	ref    kube.Ref
}

func (w leakyWorkloads) Revisions(ctx context.Context, ref kube.Ref) ([]kube.Revision, error) {
	out, err := w.Workloads.Revisions(ctx, ref)
	if err != nil {
		return nil, err
	}
	real, err := w.client.Revisions(ctx, w.ref)
	for i := range min(len(out), len(real)) {
		maps.Copy(out[len(out)-1-i].Fields, real[len(real)-1-i].Fields)
	}
	return out, err
}

// TestCredentialsOfTemplatesStayHidden: no credential of a pod template reaches the log,
// the journal, Slack, the page or the API, and that one changed shows in all of them.
func TestCredentialsOfTemplatesStayHidden(t *testing.T) {
	cluster := kubetest.New(t)
	ref := kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "inference-chat"}
	cluster.Workload(t, ref, 1, leakyTemplate("1"), leakyTemplate("2"))
	s := startSlack(t)
	sim := burning(t, 120)
	w := SandboxWorld(sim)
	w.Deps.Workloads = leakyWorkloads{w.Deps.Workloads, cluster.Client(t), ref}
	var log bytes.Buffer
	h := startSlackLogged(t, slackConfiguration(t, s, false, t.TempDir()), s, w, slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	h.sim = sim
	until(t, "ready", func() bool { return len(h.missing()) == 0 })
	h.alert(t)
	question := h.question(t, "Approval needed")
	run := h.theRun(t)
	if run.Phase == machine.PhaseEnded {
		t.Fatal("it ended before anybody was asked")
	}
	seen := map[string]string{"Slack": said(question) + h.seen()}
	for name, path := range map[string]string{
		"the API": "/api/v1/runs/" + run.Start.Run, "the API's journal": "/api/v1/audit?limit=1000", "the page": "/runs/" + run.Start.Run,
	} {
		resp, err := http.Get(h.server + path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", path, resp.Status, err)
		}
		seen[name] = string(b)
	}
	journal := h.journal.Path()
	h.stop()
	r, err := audit.OpenReader(t.Context(), journal, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for rec, err := range r.Log(0) {
		if err != nil {
			t.Fatal(err)
		}
		seen["the journal"] += string(rec.Data)
	}
	for where, text := range seen {
		if !strings.Contains(text, "redacted") {
			t.Errorf("%s does not show that a credential changed: %s", where, text)
		}
	}
	seen["the log"] = log.String()
	for where, text := range seen {
		if i := strings.Index(text, canary); i >= 0 {
			t.Errorf("%s shows a credential: %s", where, text[max(0, i-200):min(len(text), i+50)])
		}
	}
}
