package kube

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// This file makes, observes and takes back what job_run.go plans.

// jobReceipt is the receipt of an apply, or of an undo.
type jobReceipt struct {
	Action  machine.Action `json:"action"`
	UID     string         `json:"uid"`
	Stopped bool           `json:"stopped,omitempty"` // of an undo: the Job had not ended and was deleted
	Waited  bool           `json:"waited,omitempty"`  // and waited for its start
	Ended   *jobEnd        `json:"ended,omitempty"`   // how it ended; nil: it has not been seen to
}

// receiptOf decodes a receipt of an action; without one of it, the zero value.
func receiptOf(plan machine.Plan, data json.RawMessage, action machine.Action) (jobReceipt, error) {
	if len(data) == 0 {
		return jobReceipt{}, nil
	}
	r, err := step.Payload[jobReceipt](plan.Step, data)
	if err != nil || r.Action != action {
		return jobReceipt{}, err
	}
	return r, nil
}

// seenJob is what a look finds under the name of a Job.
type seenJob struct {
	kube.Job

	there bool
	ours  bool // this run's visit made it by that action, of this plan
}

// runs reports whether a Job of ours may still do something.
func (s seenJob) runs() bool { return s.there && !s.Over() }

// see looks for a Job of a plan. uid is that of the receipt; empty: not known.
func (l runJob) see(ctx context.Context, in step.Input, j plannedJob, action machine.Action, uid string) (seenJob, error) {
	job, err := l.jobs.Job(ctx, j.Namespace, j.Name)
	if step.HasReason(err, fault.NotFound) {
		return seenJob{}, nil
	}
	if err != nil {
		return seenJob{}, err
	}
	ours := job.Annotations[kube.AnnotationRun] == in.Run && step.OursKey(job.Annotations[kube.AnnotationEffect], in, action) &&
		job.Labels[labelDigest] == j.labels()[labelDigest] && (uid == "" || uid == job.UID)
	return seenJob{Job: job, there: true, ours: ours}, nil
}

// make creates a Job once: one that an attempt before has made is found.
func (l runJob) make(ctx context.Context, in step.Input, j plannedJob, action machine.Action) (json.RawMessage, error) {
	made, err := l.jobs.CreateJob(ctx, j.creation(in, false))
	if step.HasReason(err, fault.Conflict) {
		at, readErr := l.see(ctx, in, j, action, "")
		switch {
		case readErr == nil && at.ours:
			made, err = at.Job, nil
		case readErr == nil && at.there:
			return nil, &fault.Error{Reason: fault.ForeignChange, Message: fmt.Sprintf("%s: there is another %s, %s", jobRun, j, madeBy(at.Job))}
		default: // it was there a moment ago, and may be ours
			e := *step.AsError(err)
			e.Unknown = true
			return nil, &e
		}
	}
	if err != nil {
		return nil, err
	}
	return step.EncodeJSON(jobReceipt{Action: action, UID: made.UID}), nil
}

// Apply implements [step.Lever]. A template that the platform team has changed since the
// plan does not run as it was.
func (l runJob) Apply(ctx context.Context, in step.Input, plan machine.Plan) (json.RawMessage, error) {
	p, err := step.Payload[jobPayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	if l.jobs == nil {
		return nil, step.NotConfigured("cluster", "kubernetes")
	}
	f, undo, err := l.fill(in.Service.Name, p.Job.Template, p.Values)
	if err != nil {
		return nil, err
	}
	if string(f.Manifest) != string(p.Job.Manifest) || (undo == nil) != (p.Undo == nil) || undo != nil && string(undo.Manifest) != string(p.Undo.Manifest) {
		return nil, &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: template %s was changed since it was planned", jobRun, p.Job.Template)}
	}
	return l.make(ctx, in, p.Job, machine.ActionApply)
}

// Undo implements [step.Lever]. A Job that has not ended is stopped first: Undo is called
// again for the one that takes it back, once its pods have ended (see Observation.Next).
// That one is made once, also if somebody deletes it.
func (l runJob) Undo(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage) (json.RawMessage, error) {
	p, err := step.Payload[jobPayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	if l.jobs == nil {
		return nil, step.NotConfigured("cluster", "kubernetes")
	}
	r, err := receiptOf(plan, receipt, machine.ActionApply)
	if err != nil {
		return nil, err
	}
	at, err := l.see(ctx, in, p.Job, machine.ActionApply, r.UID)
	switch {
	case err != nil:
		return nil, err
	case at.there && !at.ours:
		return nil, &fault.Error{Reason: fault.ForeignChange, Message: fmt.Sprintf("%s: there is another %s, %s", jobRun, p.Job, madeBy(at.Job))}
	case !at.there && len(receipt) == 0 && in.OperatorMade != machine.ActionApply:
		return nil, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("%s: %s is not there, and no attempt is known to have made it", jobRun, p.Job)}
	case at.runs():
		err := l.jobs.DeleteJob(ctx, kube.JobDeletion{Namespace: at.Namespace, Name: at.Name, UID: at.UID})
		return step.EncodeJSON(jobReceipt{Action: machine.ActionUndo, UID: at.UID, Stopped: true, Waited: !at.Began}), err
	case p.Undo != nil:
		return l.make(ctx, in, *p.Undo, machine.ActionUndo)
	case p.ReadOnly:
		return nil, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("%s: template %s changes nothing, there is nothing to take back", jobRun, p.Job.Template)}
	default:
		return nil, &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf("%s: %s cannot be taken back: template %s names no undo", jobRun, p.Job, p.Job.Template)}
	}
}

// Observe implements [step.Lever].
func (l runJob) Observe(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage, undo bool) (step.Observation, error) {
	p, err := step.Payload[jobPayload](plan.Step, plan.Payload)
	if err != nil {
		return step.Observation{}, err
	}
	if l.jobs == nil {
		return step.Observation{}, step.NotConfigured("cluster", "kubernetes")
	}
	r, err := receiptOf(plan, receipt, machine.ActionApply)
	if err != nil {
		return step.Observation{}, err
	}
	at, err := l.see(ctx, in, p.Job, machine.ActionApply, r.UID)
	if err != nil {
		return step.Observation{}, err
	}
	if at.there && !at.ours {
		return step.Observation{Foreign: true, Progress: fmt.Sprintf("there is another %s, %s", p.Job, madeBy(at.Job))}, nil
	}
	if undo {
		return l.observeUndo(ctx, in, plan, receipt, p, at)
	}
	switch {
	case !at.there && in.OperatorMade == machine.ActionApply:
		return step.Observation{Foreign: true, Progress: p.Job.String() + " was made, as people say, and is gone: what it did is not known"}, nil
	case !at.there && r.UID == "":
		return step.Observation{Progress: p.Job.String() + " is not there"}, nil
	case !at.there && r.Ended == nil, at.Leaving && at.runs():
		return step.Observation{Foreign: true, Progress: p.Job.String() + " is gone, or is being deleted, before it was seen to end: what it did is not known"}, nil
	case !at.there:
		return step.Observation{Applied: true, Settled: true, Progress: p.Job.String() + " ended well, and is deleted since", Receipt: receipt}, nil
	}
	return l.ended(ctx, at.Job, jobReceipt{Action: machine.ActionApply, UID: at.UID, Ended: r.Ended}), nil
}

// observeUndo observes what became of an undo. at is the Job that it takes back.
func (l runJob) observeUndo(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage, p jobPayload, at seenJob) (step.Observation, error) {
	r, err := receiptOf(plan, receipt, machine.ActionUndo)
	if err != nil {
		return step.Observation{}, err
	}
	if at.runs() {
		if !at.Leaving {
			return step.Observation{Progress: p.Job.String() + " runs"}, nil
		}
		stopped := jobReceipt{Action: machine.ActionUndo, UID: at.UID, Stopped: true, Waited: !at.Began}
		return step.Observation{Applied: true, Progress: p.Job.String() + " was stopped, and its pods are ending", Receipt: step.EncodeJSON(stopped)}, nil
	}
	if p.Undo == nil {
		return undoneAlone(p, at, r), nil
	}
	back, err := l.see(ctx, in, *p.Undo, machine.ActionUndo, "")
	switch {
	case err != nil:
		return step.Observation{}, err
	case back.there && !back.ours:
		return step.Observation{Foreign: true, Progress: fmt.Sprintf("there is another %s, %s", p.Undo, madeBy(back.Job))}, nil
	case back.there:
		if r.UID != back.UID {
			r.Ended = nil // of another one
		}
		return l.ended(ctx, back.Job, jobReceipt{Action: machine.ActionUndo, UID: back.UID, Ended: r.Ended}), nil
	case r.Ended != nil:
		return step.Observation{Applied: true, Settled: true, Progress: p.Undo.String() + " ended well, and is deleted since", Receipt: receipt}, nil
	case r.Stopped && in.OperatorMade != machine.ActionUndo:
		return step.Observation{Applied: true, Settled: true, Next: true, Progress: fmt.Sprintf("%s was stopped; %s is next", p.Job, p.Undo), Receipt: receipt}, nil
	}
	return step.Observation{Progress: p.Undo.String() + " is not there: what it did is not known"}, nil
}

// undoneAlone observes the undo of a Job that no other takes back. at does not run, and r is
// the receipt of the undo.
func undoneAlone(p jobPayload, at seenJob, r jobReceipt) step.Observation {
	o := step.Observation{Applied: true, Settled: true, Receipt: step.EncodeJSON(jobReceipt{Action: machine.ActionUndo, UID: at.UID, Stopped: true, Waited: r.Waited})}
	switch {
	case at.there && !p.ReadOnly:
		return step.Observation{Progress: p.Job.String() + " has ended, and nothing takes it back"}
	case p.ReadOnly:
		o.Progress = p.Job.String() + " runs no more; its template changes nothing"
	case !r.Stopped:
		return step.Observation{Progress: p.Job.String() + " is gone, and nothing shows that it was stopped"}
	case r.Waited:
		o.Progress = p.Job.String() + " was removed while it waited for its start; it was not seen to run"
	default:
		o.Stays, o.Progress = true, p.Job.String()+" was stopped; what it did until then is not known, and stays"
	}
	return o
}
