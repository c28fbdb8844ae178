package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/inference-responder/responder/internal/credential"
	"github.com/inference-responder/responder/internal/fault"
)

// Revisions returns the revision history, oldest first.
func (c *Client) Revisions(ctx context.Context, ref Ref) ([]Revision, error) {
	o, err := c.load(ctx, ref)
	if err != nil {
		return nil, err
	}
	return o.history()
}

func (o *object) history() ([]Revision, error) {
	var out []Revision
	names := &redactor{}
	if o.deployment != nil {
		sets := slices.SortedFunc(slices.Values(o.replicaSets), func(a, b appsv1.ReplicaSet) int {
			return cmp.Compare(revisionOf(a.Annotations), revisionOf(b.Annotations))
		})
		for _, rs := range sets {
			if n := revisionOf(rs.Annotations); n != 0 {
				out = append(out, Revision{
					Number: n, Name: rs.Name, Created: rs.CreationTimestamp.Time, Current: n == o.revision(),
					Cause: rs.Annotations[changeCause], Fields: names.flatten(rs.Spec.Template),
				})
			}
		}
	} else {
		all := slices.SortedFunc(slices.Values(o.revisions), func(a, b appsv1.ControllerRevision) int {
			return cmp.Compare(a.Revision, b.Revision)
		})
		for _, r := range all {
			template, err := revisionTemplate(r)
			if err != nil {
				return nil, err
			}
			out = append(out, Revision{
				Number: r.Revision, Name: r.Name, Created: r.CreationTimestamp.Time,
				Current: r.Name == o.statefulSet.Status.UpdateRevision,
				Cause:   r.Annotations[changeCause], Fields: names.flatten(template),
			})
		}
	}
	var before time.Time // when the revision before became current
	for i := range out {
		out[i].Cause = credential.RedactScript(out[i].Cause) // often a command
		out[i].Active = out[i].Created
		if before.After(out[i].Active) {
			// It was current before and came back, which gave it a higher number. The
			// cluster does not record when: not before those with lower numbers.
			out[i].Active = before
		}
		before = out[i].Active
		if out[i].Current {
			out[i].Active = o.activeSince(out, i)
			hash, err := templateHash(o.template)
			if err != nil {
				return nil, err
			}
			mark := o.meta.Annotations[AnnotationTemplate]
			out[i].Ours, out[i].Acquitted = mark == hash, mark == acquitted+hash
			out[i].PutBack = out[i].Acquitted || mark == putBack+hash
		}
	}
	return out, nil
}

// changeCause is the annotation in which people record why they rolled out.
const changeCause = "kubernetes.io/change-cause"

// activeSince returns when the current revision last became current. For a new
// revision that is its creation. One that was rolled back to existed before, and
// the cluster does not record the moment. Then the earliest known time that is
// certainly not before it counts: when its rollout last progressed or completed
// (condition Progressing), or when the pod template was last written
// (managedFields). A late value makes a rollback look younger, never older, so
// that a change is rather suspected than overlooked.
func (o *object) activeSince(all []Revision, i int) time.Time {
	created := all[i].Created
	newest := created
	for _, r := range all {
		if r.Created.After(newest) {
			newest = r.Created
		}
	}
	if !o.reused(all[i].Name) && newest.Equal(created) {
		return created
	}
	var known time.Time
	if o.deployment != nil {
		for _, cond := range o.deployment.Status.Conditions {
			if cond.Type == appsv1.DeploymentProgressing {
				known = cond.LastUpdateTime.Time
			}
		}
	}
	if known.Before(newest) {
		known = o.templateWritten()
	}
	if known.Before(newest) {
		return newest
	}
	return known
}

// reused reports whether the ReplicaSet was current before and became current
// again. Its controller records its former numbers.
func (o *object) reused(name string) bool {
	for _, rs := range o.replicaSets {
		if rs.Name == name {
			return rs.Annotations["deployment.kubernetes.io/revision-history"] != "" || rs.Annotations[rolloutRevision+"-history"] != ""
		}
	}
	return false
}

// templateWritten returns when a manager of the pod template last changed any of
// its fields; zero if the server keeps no managedFields.
func (o *object) templateWritten() time.Time {
	var last time.Time
	for _, m := range o.meta.ManagedFields {
		if m.Subresource == "" && m.Time != nil && m.FieldsV1 != nil && strings.Contains(string(m.FieldsV1.Raw), `"f:template"`) && m.Time.After(last) {
			last = m.Time.Time
		}
	}
	return last
}

// revisionTemplate reads the pod template of a StatefulSet's revision.
func revisionTemplate(r appsv1.ControllerRevision) (corev1.PodTemplateSpec, error) {
	var stored struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(r.Data.Raw, &stored); err != nil {
		return corev1.PodTemplateSpec{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("controllerrevision %s/%s cannot be read", r.Namespace, r.Name), Err: cause{err}}
	}
	return stored.Spec.Template, nil
}
