package kube

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/credential"
	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// LogsKind declares kube.logs.
func LogsKind() playbook.Kind {
	return playbook.Kind{
		Name: "kube.logs",
		Role: playbook.RoleCheck,
		Doc: `Reads the last lines that containers of the service's pods printed, and those of the container that ran before in the same pod, and tells what they say
of failures: CUDA out of memory, NCCL, a dead engine, the tokenizer, a model that does not load, by the words of the service's engine.

At most 500 lines and 256 KiB of each container are read. Evidence keeps the last ` + "`lines`" + ` of them, cut at 300 bytes each, and the SHA-256 of all that was read.
Credentials are redacted. Lines that engines print while all is well, and what a line repeats of a request, are left out; a line of an error may hold
some of a request all the same, and evidence stands in the journal: grant pods/log (role responder-logs) only where that is fine. When none of the logs can be read, without the right for
example, the check fails.`,
		With: step.Fields[logsWith](),
		Out:  step.Fields[logsOut](),
	}
}

// Bounds of the evidence.
const (
	maxLogPods  = 3
	maxLogLine  = 300       // bytes
	maxLogTail  = 8 << 10   // bytes of the lines of one container
	recentCrash = time.Hour // how long ago a container ended that is read without being named
)

type logsWith struct {
	Pod       string `json:"pod" doc:"Name of the pod. Unset: those that are not ready or crashed within the last hour, else the one that became ready last; at most 3."`
	Container string `json:"container" doc:"Name of the container. Unset: the service's, else the first of the pod."`
	Lines     int    `json:"lines" default:"20" min:"1" max:"200" unit:"lines" doc:"Lines of each container that evidence keeps."`
}

type logsOut struct {
	Signs   []string `json:"signs" doc:"What any of the logs tells of failures, each once: gpu_memory, cache_too_small, gpu_taken, gpu_error, nccl, engine_dead, tokenizer, no_model, bad_flag, other."`
	Logs    []logOut `json:"logs" doc:"The containers whose logs were read; the one before in the same pod comes first."`
	Missing string   `json:"missing" doc:"Why one of the logs could not be read; empty: all could."`
}

type logOut struct {
	Pod       string    `json:"pod" doc:"Pod."`
	Container string    `json:"container" doc:"Container."`
	Previous  bool      `json:"previous" doc:"It is of the container that ran before."`
	Bytes     int       `json:"bytes" unit:"bytes" doc:"Read of it."`
	SHA256    string    `json:"sha256" doc:"Of the bytes that were read, before anything was left out."`
	Told      []toldOut `json:"told" doc:"Lines that tell of failures, in the order in which they first do."`
	Tail      []string  `json:"tail" doc:"The last lines."`
}

type toldOut struct {
	Sign  string `json:"sign" doc:"What it tells."`
	Line  string `json:"line" doc:"The first such line."`
	Count int    `json:"count" unit:"lines" doc:"How many lines tell it."`
}

type kubeLogs struct {
	w    step.Workloads
	logs step.Logs
}

// NewLogs returns the check kube.logs.
func NewLogs(d step.Deps) step.Check { return kubeLogs{d.Workloads, d.Logs} }

// Run implements [step.Check].
func (c kubeLogs) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[logsWith](LogsKind(), in.With)
	if err != nil {
		return step.Finding{}, err
	}
	if c.w == nil {
		return step.Finding{}, step.NotConfigured("cluster", "kubernetes")
	}
	ref := step.RefOf(in.Service)
	w, err := c.w.Workload(ctx, ref)
	if err != nil {
		return step.Finding{}, err
	}
	pods, err := logged(ref, w.Pods, with.Pod, in.Now)
	if err != nil {
		return step.Finding{}, err
	}
	e, _ := engine.Named(in.Service.Engine)
	out := logsOut{Signs: []string{}, Logs: []logOut{}}
	var failed error
	for _, p := range pods {
		err := out.read(ctx, c.logs, e, ref.Namespace, p, containerOf(p, with.Container, in.Service.Container), with.Lines)
		failed = cmp.Or(failed, err)
	}
	switch {
	case failed != nil && len(out.Logs) == 0:
		return step.Finding{}, failed
	case failed != nil:
		out.Missing = failed.Error()
	}
	for _, l := range out.Logs {
		for _, told := range l.Told {
			if !slices.Contains(out.Signs, told.Sign) {
				out.Signs = append(out.Signs, told.Sign)
			}
		}
	}
	return step.Finding{Out: out, Facts: out.facts()}, nil
}

// logged returns the pods whose logs are read: the named one, or those in trouble,
// else the one that became ready last.
func logged(ref kube.Ref, pods []kube.Pod, name string, now time.Time) ([]kube.Pod, error) {
	if name != "" {
		at := slices.IndexFunc(pods, func(p kube.Pod) bool { return p.Name == name })
		if at < 0 {
			return nil, &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf("kube.logs: %s has no pod %s", step.RefText(ref), name)}
		}
		return pods[at : at+1], nil
	}
	pods = slices.DeleteFunc(slices.Clone(pods), func(p kube.Pod) bool { return p.Node == "" }) // nothing ran yet
	slices.SortStableFunc(pods, func(a, b kube.Pod) int {
		return cmp.Or(b.ReadySince.Compare(a.ReadySince), cmp.Compare(a.Name, b.Name))
	})
	troubled := slices.DeleteFunc(slices.Clone(pods), func(p kube.Pod) bool {
		return p.Ready && (p.Ended == nil || p.Ended.At.Before(now.Add(-recentCrash)))
	})
	if len(troubled) == 0 {
		return pods[:min(len(pods), 1)], nil
	}
	return troubled[:min(len(troubled), maxLogPods)], nil
}

// containerOf returns the container to read; empty: the only one.
func containerOf(p kube.Pod, named, ofService string) string {
	switch {
	case named != "" || len(p.Containers) == 0:
		return cmp.Or(named, ofService)
	case slices.ContainsFunc(p.Containers, func(c kube.PodContainer) bool { return c.Name == ofService }):
		return ofService
	}
	return p.Containers[0].Name
}

// read adds the logs of a pod's container: of the one before where it was started
// again, and of the one now. It returns why one of them could not be read.
func (o *logsOut) read(ctx context.Context, logs step.Logs, e engine.Engine, namespace string, p kube.Pod, container string, lines int) (failed error) {
	if logs == nil {
		return step.NotConfigured("cluster", "kubernetes")
	}
	for _, previous := range []bool{true, false} {
		if previous && p.Restarts == 0 {
			continue
		}
		text, err := logs.Log(ctx, kube.LogQuery{Namespace: namespace, Pod: p.Name, Container: container, Previous: previous})
		if err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		sum := sha256.Sum256([]byte(text))
		kept := engine.Quiet(credential.WithoutKeys(text))
		l := logOut{Pod: p.Name, Container: container, Previous: previous, Bytes: len(text), SHA256: hex.EncodeToString(sum[:]), Told: []toldOut{}, Tail: tail(kept, lines)}
		for _, t := range e.Read(kept) {
			l.Told = append(l.Told, toldOut{string(t.Sign), shown(t.Text), t.Count})
		}
		o.Logs = append(o.Logs, l)
	}
	return failed
}

// tail returns the last lines, as many as fit.
func tail(all []string, lines int) []string {
	out := []string{}
	for size, i := 0, len(all)-1; i >= 0 && len(out) < lines; i-- {
		line := shown(all[i])
		if size += len(line); size > maxLogTail {
			break
		}
		out = append(out, line)
	}
	slices.Reverse(out)
	return out
}

// shown returns a line as evidence has it: redacted, then cut, so that no part of a
// credential is left.
func shown(line string) string {
	line = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, credential.Redact(line))
	if len(line) > maxLogLine {
		line = strings.ToValidUTF8(line[:maxLogLine], "") + "..."
	}
	return line
}

func (o logsOut) facts() []string {
	var facts []string
	for _, l := range o.Logs {
		which := l.Pod
		if l.Previous {
			which += ", the container before"
		}
		for _, t := range l.Told {
			facts = append(facts, fmt.Sprintf("%s: %s (%dx): %s", which, t.Sign, t.Count, t.Line))
		}
	}
	if len(facts) == 0 && len(o.Logs) > 0 {
		facts = append(facts, fmt.Sprintf("the last lines of %s tell of no failure that is known", o.Logs[len(o.Logs)-1].Pod))
	}
	if len(o.Logs) == 0 {
		facts = append(facts, "no pod has printed anything yet")
	}
	if o.Missing != "" {
		facts = append(facts, "not read: "+o.Missing)
	}
	return facts
}
