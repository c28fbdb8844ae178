package kube

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Texts of the cluster that evidence shows hold no credentials, whoever wrote them, and
// say the rest.
func TestCredentialsOfMessagesStayHidden(t *testing.T) {
	const message = "could not read secret: permission denied: Get https://u:canary@h/x password=canary"
	condition := func(kind string, status corev1.ConditionStatus) map[string]any {
		return map[string]any{"type": kind, "status": string(status), "reason": "R", "message": message}
	}
	var hpa autoscalingv2.HorizontalPodAutoscaler
	hpa.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{
		{Type: autoscalingv2.ScalingLimited, Status: corev1.ConditionTrue, Message: message}, {Type: autoscalingv2.ScalingActive, Status: corev1.ConditionFalse, Message: message},
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&hpa)
	if err != nil {
		t.Fatal(err)
	}
	var scaler Autoscaler
	if err := scaler.judge(&unstructured.Unstructured{Object: fields}); err != nil {
		t.Fatal(err)
	}
	deployment := func(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus) *object {
		return &object{deployment: &appsv1.Deployment{Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{Type: kind, Status: status, Message: message}}}}}
	}
	var waiting, unscheduled corev1.Pod
	waiting.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: message}}}}
	unscheduled.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message}}
	for name, got := range map[string]string{
		"waiting":        describePod(waiting, nil).Message,
		"PodScheduled":   describePod(unscheduled, nil).Message,
		"ReplicaFailure": deployment(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue).stuck(),
		"Progressing":    deployment(appsv1.DeploymentProgressing, corev1.ConditionFalse).stuck(),
		"limited":        scaler.Limited,
		"broken":         scaler.Broken,
		"job":            describeJob(&batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Message: message}}}}).Message,
		"route":          conditionOf(map[string]any{"conditions": []any{condition("Accepted", corev1.ConditionFalse)}}, "Accepted").message,
	} {
		if strings.Contains(got, "canary") || !strings.Contains(got, "could not read secret: permission denied: Get https://u:") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// The path of a probe is shown, and what people record of a rollout, which is often a
// command.
func TestCredentialsOfProbesAndCausesStayHidden(t *testing.T) {
	probe := healthProbe(corev1.Container{}, &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/health?token=canary"}}})
	const command = "kubectl set env deploy/chat DB_PASSWORD=canary LICENCE=canary --record=true"
	marks := map[string]string{changeCause: command, "deployment.kubernetes.io/revision": "1"}
	raw, err := json.Marshal(map[string]any{"spec": map[string]any{"template": corev1.PodTemplateSpec{}}})
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"probe": probe.Path}
	for kind, o := range map[string]*object{
		"Deployment": {deployment: &appsv1.Deployment{}, replicaSets: []appsv1.ReplicaSet{{ObjectMeta: metav1.ObjectMeta{Annotations: marks}}}},
		"StatefulSet": {statefulSet: &appsv1.StatefulSet{}, revisions: []appsv1.ControllerRevision{{
			ObjectMeta: metav1.ObjectMeta{Annotations: marks}, Revision: 1, Data: runtime.RawExtension{Raw: raw},
		}}},
	} {
		all, err := o.history()
		if err != nil || len(all) != 1 {
			t.Fatalf("%s: %+v, %v", kind, all, err)
		}
		texts[kind] = all[0].Cause
	}
	for name, got := range texts {
		if strings.Contains(got, "canary") || name != "probe" && !strings.HasPrefix(got, "kubectl set env deploy/chat DB_PASSWORD=") || name == "probe" && !strings.HasPrefix(got, "/health?token=") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// An image may have a login to its registry in its address, which is hidden; that it changed
// is told. The image itself is shown.
func TestCredentialsOfImagesStayHidden(t *testing.T) {
	var r redactor
	image := func(name string) string {
		return r.flatten(corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: name}}}})["containers[c].image"]
	}
	a, b := image("me:canary1@registry.example.com:5000/org/m:v1"), image("me:canary2@registry.example.com:5000/org/m:v1")
	if strings.Contains(a+b, "canary") || a == b || !strings.Contains(a, "@registry.example.com:5000/org/m:v1") {
		t.Errorf("%q and %q", a, b)
	}
	if plain := "registry.example.com:5000/org/m:v1@sha256:0123abcd"; image(plain) != plain {
		t.Errorf("%q", image(plain))
	}
}

// The text of an annotation may be a file of any kind.
func TestCredentialsOfAnnotationsStayHidden(t *testing.T) {
	for name, text := range map[string]string{
		"a name and a value":  "replicas: 2\nusers:\n- name: DB_PASSWORD\n  value: canary\n",
		"a block":             "replicas: 2\npassword: |\n  canary\n",
		"a list":              "replicas: 2\npassword:\n  - canary\n",
		"a Secret":            "kind: Secret\nstringData:\n  a: canary\n",
		"a Secret in JSON":    `{"kind":"Secret","data":{"a":"canary"}}`,
		"a Secret in JSON, 2": `{"apiVersion":"v1","kind":"List","items":[{"kind":"Secret","stringData":{"a":"canary"}}]}`,
		"YAML on one line":    "users: [{name: DB_PASSWORD, value: canary}]",
		"a comment of XML":    "<replicas: 2><password><!-- of the hub --><![CDATA[canary]]></password>",
		"XML":                 "<replicas: 2><password><![CDATA[canary]]></password>",
		"XML on lines":        "<replicas: 2>\n<password>\n<![CDATA[\ncanary\n]]></password>",
	} {
		got := (&redactor{}).flatten(corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"cfg": text}}})["annotations[cfg]"]
		if strings.Contains(got, "canary") || strings.Contains(text, "replicas: 2") && !strings.Contains(got, "replicas: 2") {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, text := range []string{"first line\nsecond line", "could not read secret: permission denied", `{"a": 1, "b": {"c": "x"}}`} {
		got := (&redactor{}).flatten(corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"cfg": text}}})["annotations[cfg]"]
		if got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}
