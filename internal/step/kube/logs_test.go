package kube

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/credential"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// Without a name those are read that are in trouble, else the one that became ready last.
func TestLogged(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	ready := func(name string, ago time.Duration, ended *kube.Ended) kube.Pod {
		return kube.Pod{Name: name, Node: "n", Ready: true, ReadySince: now.Add(-ago), Ended: ended}
	}
	well := []kube.Pod{ready("a", time.Hour, nil), ready("b", time.Minute, nil), ready("c", 2*time.Hour, nil)}
	crashed := ready("d", time.Minute, &kube.Ended{At: now.Add(-2 * time.Minute)})
	longAgo := ready("e", 20*time.Hour, &kube.Ended{At: now.Add(-20 * time.Hour)})
	for name, c := range map[string]struct {
		pods []kube.Pod
		pod  string
		want []string
	}{
		"all are well":     {append(slices.Clone(well), longAgo), "", []string{"b"}},
		"one crashed":      {append(slices.Clone(well), crashed), "", []string{"d"}},
		"some not ready":   {append(slices.Clone(well), kube.Pod{Name: "z", Node: "n"}, kube.Pod{Name: "y", Node: "n"}), "", []string{"y", "z"}},
		"none has begun":   {[]kube.Pod{{Name: "p"}}, "", nil},
		"one is named":     {well, "c", []string{"c"}},
		"at most three":    {[]kube.Pod{{Name: "1", Node: "n"}, {Name: "2", Node: "n"}, {Name: "3", Node: "n"}, {Name: "4", Node: "n"}}, "", []string{"1", "2", "3"}},
		"none is so named": {well, "x", []string{"error"}},
	} {
		got, err := logged(kube.Ref{}, c.pods, c.pod, now)
		var names []string
		for _, p := range got {
			names = append(names, p.Name)
		}
		if err != nil {
			names = []string{"error"}
		}
		if !slices.Equal(names, c.want) {
			t.Errorf("%s: %v, want %v", name, names, c.want)
		}
	}
}

// TestLogsHaveNoKeys: no line of a private key is evidence, also if the log has only a part of it.
func TestLogsHaveNoKeys(t *testing.T) {
	begin, end, body := "-----BEGIN RSA PRIVATE KEY-----\n", "-----END RSA PRIVATE KEY-----", "MIIEpAIBAAKCAQEA\nq83vEjRWeJCrze8S\n"
	for name, tt := range map[string]struct{ text, want string }{
		"whole":    {"a\n" + begin + body + end + "\nb", "a\n(private key left out)\nb"},
		"two":      {begin + body + end + "\nb\n" + begin + body + end, "(private key left out)\nb\n(private key left out)"},
		"no end":   {"a\n" + begin + body, "a\n(private key left out)"},
		"no begin": {body + end + "\nb", "(private key left out)\nb"},
		"one line": {strings.ReplaceAll(begin+body+end, "\n", `\n`), "(private key left out)"},
		"pgp":      {"-----BEGIN PGP PRIVATE KEY BLOCK-----\n" + body + "-----END PGP PRIVATE KEY BLOCK-----\nb", "(private key left out)\nb"},
		"none":     {"-----BEGIN CERTIFICATE-----\nabc", "-----BEGIN CERTIFICATE-----\nabc"},
	} {
		if got := credential.WithoutKeys(tt.text); got != tt.want {
			t.Errorf("%s: %q", name, got)
		}
		if got := shown(tt.text); strings.Contains(got, "q83v") {
			t.Errorf("%s is shown: %q", name, got)
		}
		if got := strings.Join(tail(strings.Split(credential.WithoutKeys(tt.text), "\n"), 9), "\n"); strings.Contains(got, "q83v") {
			t.Errorf("%s: tail %q", name, got)
		}
	}
}

type oneLog struct {
	text string
	err  error
}

func (l oneLog) Log(context.Context, kube.LogQuery) (string, error) { return l.text, l.err }

// onePod has one pod, which never restarted.
type onePod struct{ step.Workloads }

func (onePod) Workload(context.Context, kube.Ref) (kube.Workload, error) {
	return kube.Workload{Pods: []kube.Pod{{Name: "chat-0", Node: "n"}}}, nil
}

// Evidence is bounded, and no part of a credential is left where a line is cut.
func TestLogsAreBounded(t *testing.T) {
	long := "ERROR " + strings.Repeat("x", maxLogLine-20) + " HF_TOKEN=hf_0123456789abcdef0123456789"
	text := strings.Repeat(long+"\n", 300) + "ERROR the last\x1b[0m"
	read := func(l oneLog) (logsOut, error) {
		f, err := NewLogs(step.Deps{Workloads: onePod{}, Logs: l}).Run(t.Context(), step.Input{Service: playbook.Service{Engine: "vllm"}, With: map[string]any{"lines": int64(200)}})
		if err != nil {
			return logsOut{}, err
		}
		return f.Out.(logsOut), nil
	}
	out, err := read(oneLog{text: text})
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, line := range out.Logs[0].Tail {
		if size += len(line); len(line) > maxLogLine+len("...") || strings.Contains(line, "hf_0") || strings.Contains(line, "\x1b") {
			t.Errorf("kept %q", line)
		}
	}
	if last := out.Logs[0].Tail[len(out.Logs[0].Tail)-1]; size > maxLogTail || last != "ERROR the last[0m" || out.Logs[0].Bytes != len(text) {
		t.Errorf("%d bytes kept of %d, the last line is %q", size, out.Logs[0].Bytes, last)
	}
	if _, err := read(oneLog{err: errors.New("denied")}); err == nil {
		t.Error("no log could be read, and the check succeeds")
	}
}
