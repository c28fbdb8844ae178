package kube

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/credential"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// This file tells how a Job ended.

const (
	jobLines  = 10 // of its log that are evidence
	jobInText = 3  // of these, in the text of a failure

	logWithin = 10 * time.Second // less than a look has: a kubelet that is gone holds nothing up
)

// jobEnd is how a Job ended, for the journal.
type jobEnd struct {
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	ExitCode  *int   `json:"exitCode,omitempty"` // nil: no container of it ended
	Reason    string `json:"reason,omitempty"`   // of the Job, or else of the pod, or else of the container
	SHA256    string `json:"sha256,omitempty"`   // of the log that was read; empty: it was not
}

// ended observes a Job that is there. Its log is read once, when it is first seen to have
// ended.
func (l runJob) ended(ctx context.Context, j kube.Job, r jobReceipt) step.Observation {
	o := step.Observation{Applied: true}
	name := "Job " + j.Namespace + "/" + j.Name
	switch {
	case !j.Over() && j.Failed:
		o.Progress = fmt.Sprintf("%s is being ended (%s): %s", name, j.Reason, j.Message)
	case !j.Over() && j.Waits != "":
		o.Progress = name + " waits: " + j.Waits
	case !j.Over():
		o.Progress = name + " runs"
	case r.Ended != nil && j.Complete:
		o.Settled, o.Progress = true, name+" ended well"
	default:
		end, facts, lines := l.evidence(ctx, j)
		r.Ended, o.Seen = &end, append(facts, lines...)
		o.Settled, o.Degraded = j.Complete, j.Failed
		o.Progress = name + " ended well"
		if j.Failed {
			r.Ended = nil // a receipt with an end is of one that ended well
			facts = append([]string{fmt.Sprintf("%s failed (%s: %s)", name, cmp.Or(j.Reason, "no reason"), j.Message)}, facts...)
			o.Progress = strings.Join(append(facts, lines[max(0, len(lines)-jobInText):]...), "; ")
		}
	}
	o.Receipt, o.Renews = step.EncodeJSON(r), true
	return o
}

// evidence reads how the containers of a Job's last pod ended, and what the one that
// decided it printed last.
func (l runJob) evidence(ctx context.Context, j kube.Job) (end jobEnd, facts, lines []string) {
	end.Reason = j.Reason
	if len(j.Pods) == 0 {
		return end, []string{"its pods are gone: the exit code is not known"}, nil
	}
	pod := j.Pods[len(j.Pods)-1]
	end.Pod, end.Reason = pod.Name, cmp.Or(j.Reason, pod.Reason)
	if len(j.Pods) > 1 {
		facts = append(facts, fmt.Sprintf("it was tried %d times; the last pod is %s", len(j.Pods), pod.Name))
	}
	for _, p := range j.Pods {
		if p.Reason != "" {
			facts = append(facts, fmt.Sprintf("pod %s was ended: %s", p.Name, withMessage(p.Reason, p.Message)))
		}
	}
	for i, c := range pod.Ends {
		fact := fmt.Sprintf("container %s exited with %d (%s)", c.Container, c.ExitCode, cmp.Or(c.Reason, "no reason"))
		facts = append(facts, withMessage(fact, c.Message))
		if end.ExitCode == nil || *end.ExitCode == 0 { // the first that failed decides, or the last
			end.Container, end.ExitCode, end.Reason = c.Container, &pod.Ends[i].ExitCode, cmp.Or(j.Reason, pod.Reason, c.Reason)
		}
	}
	if end.Container == "" {
		return end, append(facts, fmt.Sprintf("no container of pod %s is known to have ended (%s)", pod.Name, pod.Phase)), nil
	}
	if l.logs == nil {
		return end, append(facts, "its log was not read: no cluster is configured"), nil
	}
	ctx, cancel := context.WithTimeout(ctx, logWithin)
	defer cancel()
	text, err := l.logs.Log(ctx, kube.LogQuery{Namespace: j.Namespace, Pod: pod.Name, Container: end.Container})
	if err != nil {
		return end, append(facts, "its log was not read: "+err.Error()), nil
	}
	sum := sha256.Sum256([]byte(text))
	end.SHA256 = hex.EncodeToString(sum[:])
	for _, line := range tail(strings.Split(strings.TrimRight(credential.WithoutKeys(text), "\n"), "\n"), jobLines) {
		if line != "" {
			lines = append(lines, "it printed: "+line)
		}
	}
	return end, facts, lines
}

// withMessage adds what a pod or a container says of its end.
func withMessage(text, message string) string {
	if message == "" {
		return text
	}
	return text + ": " + shown(message)
}
