package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/inference-responder/responder/internal/fault"
)

// scaleTries bounds how often a scale is sent that meets a write of the object's status.
const scaleTries = 5

// Scale sets the replicas of the object if the precondition still holds. The error
// is a [*fault.Error].
//
// It writes the subresource scale, so that the right to do it is a right to nothing
// else. A Scale has no generation that the server could test: the resource version of
// the object that was read stands in for it. Controllers move that with every status, so a conflict is
// looked at again, and sent again only while the generation is the planned one.
func (c *Client) Scale(ctx context.Context, ch ScaleChange) (Applied, error) {
	for try := 1; ; try++ {
		o, err := c.load(ctx, ch.Ref)
		if err != nil {
			return Applied{}, err
		}
		if err := o.still(ch.Pre); err != nil {
			return Applied{}, err
		}
		if ch.Replicas < 0 {
			return Applied{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("scale %s: %d replicas", o, ch.Replicas)}
		}
		if o.replicas() == ch.Replicas {
			return Applied{}, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("scale %s: it has %d replicas already", o, ch.Replicas)}
		}
		a, err := c.scale(ctx, o, ch)
		var conflict *fault.Error
		if try == scaleTries || !errors.As(err, &conflict) || conflict.Reason != fault.Conflict {
			return a, err
		}
	}
}

// scale sends the only kind of request of this package that writes a Scale.
func (c *Client) scale(ctx context.Context, o *object, ch ScaleChange) (Applied, error) {
	answer, err := c.patchPart(ctx, o, "scale", []operation{
		{Op: "test", Path: "/metadata/uid", Value: ch.Pre.UID},
		{Op: "test", Path: "/metadata/resourceVersion", Value: o.meta.ResourceVersion},
		// "add" also replaces: 0 replicas are left out.
		{Op: "add", Path: "/spec/replicas", Value: ch.Replicas},
	}, ch.Key, ch.DryRun)
	if err != nil {
		return Applied{}, err
	}
	n, _, err := unstructured.NestedInt64(answer.Object, "spec", "replicas") // 0 is left out
	if err != nil {
		return Applied{}, &fault.Error{Reason: fault.ServerError, Unknown: !ch.DryRun, Message: fmt.Sprintf("scale %s: the answer holds no number of replicas", o), Err: cause{err}}
	}
	after := Applied{UID: ch.Pre.UID, Generation: ch.Pre.Generation, Replicas: int(n)}
	if after.Replicas != o.replicas() {
		after.Generation++ // nothing else was written in this request, and nothing before it since the object was read
	}
	return after, nil
}

// patchPart sends the only kind of request of this package that writes a part of a workload
// by its subresource. The mark of the effect is the field manager.
func (c *Client) patchPart(ctx context.Context, o *object, part string, patch []operation, key string, dryRun bool) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("change %s: patch", o), Err: cause{err}}
	}
	options := metav1.PatchOptions{FieldManager: EffectManager(key), FieldValidation: metav1.FieldValidationStrict}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	of := appsv1.SchemeGroupVersion.WithResource("statefulsets")
	switch {
	case o.rollout != nil:
		of = rollouts
	case o.deployment != nil:
		of.Resource = "deployments"
	}
	answer, err := c.dynamic.Resource(of).Namespace(o.ref.Namespace).Patch(ctx, o.ref.Name, types.JSONPatchType, body, options, part)
	if err != nil {
		return nil, request{verb: "patch", group: of.Group, resource: of.Resource + "/" + part, namespace: o.ref.Namespace, name: o.ref.Name, write: !dryRun}.fail(err)
	}
	return answer, nil
}

// Undo sets the pod template to that of an earlier revision if the precondition
// still holds. The error is a [*fault.Error].
//
// It builds the patch of kubectl's rollback
// (k8s.io/kubectl/pkg/polymorphichelpers, rollback.go). That code cannot be used:
// it takes neither a precondition nor a context. There are two differences. The
// object's annotations stay, except the change-cause; kubectl restores all old
// ones and so drops what others wrote since. A StatefulSet's template is replaced
// by a JSON patch with the same effect as the stored strategic merge patch.
func (c *Client) Undo(ctx context.Context, ch UndoChange) (Applied, error) {
	o, err := c.load(ctx, ch.Ref)
	if err != nil {
		return Applied{}, err
	}
	if err := o.still(ch.Pre); err != nil {
		return Applied{}, err
	}
	if o.deployment != nil && o.deployment.Spec.Paused && o.held() == "" {
		return Applied{}, &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf("roll back %s: its rollouts are paused: resume them first (kubectl rollout resume)", o)}
	}
	earlier, err := o.earlier(ch.Revision)
	if err != nil {
		return Applied{}, err
	}
	if apiequality.Semantic.DeepEqual(earlier.template, withoutHash(o.template)) {
		return Applied{}, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("roll back %s: its pod template is that of revision %d already", o, ch.Revision)}
	}
	raw, err := c.rawTemplate(ctx, o, earlier)
	if err != nil {
		return Applied{}, err
	}
	marks := record(ch.Run, ch.Key)
	if marks[AnnotationTemplate], err = templateHash(earlier.template); err != nil {
		return Applied{}, err
	}
	switch {
	case ch.PutBack && ch.Acquits:
		marks[AnnotationTemplate] = acquitted + marks[AnnotationTemplate]
	case ch.PutBack:
		marks[AnnotationTemplate] = putBack + marks[AnnotationTemplate]
	}
	if ch.Hold != "" {
		marks[AnnotationHeld] = ch.Hold
	}
	patch := append(o.guarded(ch.Pre, marks), operation{Op: "replace", Path: "/spec/template", Value: raw})
	switch {
	case ch.Hold != "":
		patch = append(patch, paused())
	case o.held() != "":
		patch = append(patch, o.resumed()...)
	}
	_, has := o.meta.Annotations[changeCause]
	switch {
	case earlier.cause != "":
		patch = append(patch, operation{Op: "add", Path: annotationPath(changeCause), Value: earlier.cause})
	case has:
		patch = append(patch, operation{Op: "remove", Path: annotationPath(changeCause)})
	}
	return c.patch(ctx, o, patch, ch.DryRun)
}

// Restart rolls the same pod template out once more if the precondition still
// holds, as kubectl rollout restart does. The error is a [*fault.Error].
func (c *Client) Restart(ctx context.Context, ch RestartChange) (Applied, error) {
	o, err := c.load(ctx, ch.Ref)
	if err != nil {
		return Applied{}, err
	}
	if err := o.still(ch.Pre); err != nil {
		return Applied{}, err
	}
	at := ch.At.UTC().Format(time.RFC3339)
	template := *o.template.DeepCopy()
	if template.Annotations == nil {
		template.Annotations = map[string]string{}
	}
	template.Annotations[RestartedAt] = at
	marks := record(ch.Run, ch.Key)
	if marks[AnnotationTemplate], err = o.restarted(template); err != nil {
		return Applied{}, err
	}
	patch := o.guarded(ch.Pre, marks)
	if len(o.template.Annotations) == 0 {
		patch = append(patch, operation{Op: "add", Path: "/spec/template/metadata/annotations", Value: map[string]string{RestartedAt: at}})
	} else {
		patch = append(patch, operation{Op: "add", Path: "/spec/template" + annotationPath(RestartedAt), Value: at})
	}
	return c.patch(ctx, o, patch, ch.DryRun)
}

// restarted returns the mark of a pod template that is the current one but for the time
// of its restart. A repair of ours stays one. What others released stays theirs: a
// restart does not repair it.
func (o *object) restarted(template corev1.PodTemplateSpec) (string, error) {
	now, err := templateHash(o.template)
	if err != nil {
		return "", err
	}
	next, err := templateHash(template)
	switch mark := o.meta.Annotations[AnnotationTemplate]; {
	case err != nil || mark == now:
		return next, err
	case mark == acquitted+now:
		return acquitted + next, nil
	}
	return putBack + next, nil
}

// past is an earlier revision.
type past struct {
	template corev1.PodTemplateSpec
	cause    string
	set      string // name of its ReplicaSet
	stored   []byte // content of its ControllerRevision
}

// earlier returns a revision; 0 selects the one before the current.
func (o *object) earlier(number int64) (past, error) {
	if number == 0 {
		if number = o.before(); number == 0 {
			return past{}, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("roll back %s: there is no earlier revision (spec.revisionHistoryLimit bounds how many are kept)", o)}
		}
	}
	for _, rs := range o.replicaSets {
		if revisionOf(rs.Annotations) == number {
			return past{template: withoutHash(rs.Spec.Template), cause: rs.Annotations[changeCause], set: rs.Name}, nil
		}
	}
	for _, r := range o.revisions {
		if r.Revision == number {
			template, err := revisionTemplate(r)
			return past{template: template, cause: r.Annotations[changeCause], stored: r.Data.Raw}, err
		}
	}
	return past{}, &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf("roll back %s: there is no revision %d (spec.revisionHistoryLimit bounds how many are kept)", o, number)}
}

// rawTemplate returns a revision's pod template as the server stores it. The typed
// template lacks fields that a newer server knows and this client does not, so
// writing it would remove them.
func (c *Client) rawTemplate(ctx context.Context, o *object, p past) (map[string]any, error) {
	revision := map[string]any{}
	if o.deployment != nil {
		rs, err := c.dynamic.Resource(appsv1.SchemeGroupVersion.WithResource("replicasets")).Namespace(o.ref.Namespace).Get(ctx, p.set, metav1.GetOptions{})
		if err != nil {
			return nil, request{verb: "get", group: "apps", resource: "replicasets", namespace: o.ref.Namespace, name: p.set}.fail(err)
		}
		revision = rs.Object
	} else if err := json.Unmarshal(p.stored, &revision); err != nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("roll back %s: the stored revision cannot be read", o), Err: cause{err}}
	}
	template, found, err := unstructured.NestedMap(revision, "spec", "template")
	if err != nil || !found {
		return nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("roll back %s: the stored revision holds no pod template", o), Err: cause{err}}
	}
	delete(template, "$patch") // a directive of strategic merge patches
	unstructured.RemoveNestedField(template, "metadata", "labels", appsv1.DefaultDeploymentUniqueLabelKey)
	return template, nil
}

// before returns the number of the revision before the current one; 0: there is
// none.
func (o *object) before() int64 {
	var all []int64
	for _, n := range o.revisionByOwner() {
		if n != 0 && n < o.revision() {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return 0
	}
	return slices.Max(all)
}

func withoutHash(t corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	t = *t.DeepCopy()
	delete(t.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	delete(t.Labels, rolloutHash)
	return t
}

// String returns the object's name for messages.
func (o *object) String() string { return o.ref.Kind + " " + o.ref.Namespace + "/" + o.ref.Name }

func (o *object) replicas() int {
	if o.deployment != nil {
		return replicas(o.deployment.Spec.Replicas)
	}
	return replicas(o.statefulSet.Spec.Replicas)
}

// still checks the precondition early, for a better message than the server's.
func (o *object) still(pre Precondition) error {
	switch {
	case pre.UID == "" || pre.Generation == 0:
		return &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("change %s: the precondition on UID and generation is missing", o)}
	case string(o.meta.UID) != pre.UID:
		return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("change %s: it was deleted and recreated since it was read", o)}
	case o.meta.Generation != pre.Generation:
		return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("change %s: it is at generation %d, not at %d as read", o, o.meta.Generation, pre.Generation)}
	}
	return nil
}

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// guarded begins a patch. It holds the preconditions, which the server tests on
// the stored object in the same transaction, and the marks that identify the
// change after a crash.
func (o *object) guarded(pre Precondition, marks map[string]string) []operation {
	patch := []operation{
		{Op: "test", Path: "/metadata/uid", Value: pre.UID},
		{Op: "test", Path: "/metadata/generation", Value: pre.Generation},
	}
	if len(o.meta.Annotations) == 0 {
		// The map must exist, and one that was created meanwhile must not be replaced.
		return append(patch,
			operation{Op: "test", Path: "/metadata/resourceVersion", Value: o.meta.ResourceVersion},
			operation{Op: "add", Path: "/metadata/annotations", Value: marks})
	}
	for _, k := range slices.Sorted(maps.Keys(marks)) {
		patch = append(patch, operation{Op: "add", Path: annotationPath(k), Value: marks[k]})
	}
	return patch
}

func record(run, key string) map[string]string {
	return map[string]string{AnnotationRun: run, AnnotationEffect: key}
}

func annotationPath(key string) string {
	return "/metadata/annotations/" + pointer(key)
}

// pointer escapes one part of a JSON Pointer (RFC 6901).
func pointer(part string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(part) }

// patch sends the only kind of request of this package that writes a whole workload.
func (c *Client) patch(ctx context.Context, o *object, patch []operation, dryRun bool) (Applied, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return Applied{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("change %s: patch", o), Err: cause{err}}
	}
	options := metav1.PatchOptions{FieldManager: FieldManager, FieldValidation: metav1.FieldValidationStrict}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	r := request{verb: "patch", group: "apps", namespace: o.ref.Namespace, name: o.ref.Name, write: !dryRun}
	if o.rollout != nil {
		return Applied{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("change %s: of a Rollout of Argo Rollouts only the replicas and the abort are changed", o)}
	}
	if o.deployment != nil {
		r.resource = "deployments"
		d, err := c.typed.deployments(o.ref.Namespace).Patch(ctx, o.ref.Name, types.JSONPatchType, body, options)
		if err != nil {
			return Applied{}, r.fail(err)
		}
		return applied(d.ObjectMeta, replicas(d.Spec.Replicas), d.Spec.Template), nil
	}
	r.resource = "statefulsets"
	s, err := c.typed.statefulSets(o.ref.Namespace).Patch(ctx, o.ref.Name, types.JSONPatchType, body, options)
	if err != nil {
		return Applied{}, r.fail(err)
	}
	return applied(s.ObjectMeta, replicas(s.Spec.Replicas), s.Spec.Template), nil
}

func applied(meta metav1.ObjectMeta, n int, template corev1.PodTemplateSpec) Applied {
	return Applied{UID: string(meta.UID), Generation: meta.Generation, Replicas: n, Fields: (&redactor{}).flatten(template)}
}
