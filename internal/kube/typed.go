package kube

import (
	"context"
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// This file names the built-in resources that are read and written as Go types. They are
// those that are used: client-go's clientset compiles every API group there is, a quarter
// of what the demo waits for.

// groupVersions are the API groups with built-in types.
var groupVersions = []struct {
	version schema.GroupVersion
	add     func(*runtime.Scheme) error
}{
	{corev1.SchemeGroupVersion, corev1.AddToScheme},
	{appsv1.SchemeGroupVersion, appsv1.AddToScheme},
	{authenticationv1.SchemeGroupVersion, authenticationv1.AddToScheme},
	{authorizationv1.SchemeGroupVersion, authorizationv1.AddToScheme},
	{autoscalingv2.SchemeGroupVersion, autoscalingv2.AddToScheme},
	{batchv1.SchemeGroupVersion, batchv1.AddToScheme},
	{discoveryv1.SchemeGroupVersion, discoveryv1.AddToScheme},
	{policyv1.SchemeGroupVersion, policyv1.AddToScheme},
}

// Codecs read and write the objects of the built-in types, as protobuf and as JSON.
var Codecs, parameters = codecs()

func codecs() (serializer.CodecFactory, runtime.ParameterCodec) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // lists of resources
	for _, g := range groupVersions {
		if err := g.add(scheme); err != nil {
			panic(err) // a fault of the program: two types under one name
		}
	}
	return serializer.NewCodecFactory(scheme), runtime.NewParameterCodec(scheme)
}

// typed has a client for each of [groupVersions].
type typed map[schema.GroupVersion]rest.Interface

func newTyped(config *rest.Config, client *http.Client) (typed, error) {
	t := typed{}
	for _, g := range groupVersions {
		of := rest.CopyConfig(config)
		of.GroupVersion, of.APIPath = &g.version, "/apis"
		if g.version.Group == "" {
			of.APIPath = "/api"
		}
		of.NegotiatedSerializer = Codecs.WithoutConversion()
		made, err := rest.RESTClientForConfigAndClient(of, client)
		if err != nil {
			return nil, err
		}
		t[g.version] = made
	}
	return t, nil
}

// typedObject is a pointer to an object with a name; typedList is a pointer to a list.
type (
	typedObject[T any] interface {
		*T
		runtime.Object
		metav1.Object
	}
	typedList[L any] interface {
		*L
		runtime.Object
	}
)

// resourceOf returns the client of a resource. An empty namespace is all of them.
func resourceOf[T, L any, P typedObject[T], Q typedList[L]](t typed, version schema.GroupVersion, resource, namespace string) *gentype.ClientWithList[P, Q] {
	return gentype.NewClientWithList(resource, t[version], parameters, namespace,
		func() P { return new(T) }, func() Q { return new(L) }, gentype.PrefersProtobuf[P]())
}

// core is the client of the core API, and of the paths that belong to no group.
func (t typed) core() rest.Interface { return t[corev1.SchemeGroupVersion] }

func (t typed) pods(namespace string) *gentype.ClientWithList[*corev1.Pod, *corev1.PodList] {
	return resourceOf[corev1.Pod, corev1.PodList](t, corev1.SchemeGroupVersion, "pods", namespace)
}

func (t typed) nodes() *gentype.ClientWithList[*corev1.Node, *corev1.NodeList] {
	return resourceOf[corev1.Node, corev1.NodeList](t, corev1.SchemeGroupVersion, "nodes", "")
}

func (t typed) events(namespace string) *gentype.ClientWithList[*corev1.Event, *corev1.EventList] {
	return resourceOf[corev1.Event, corev1.EventList](t, corev1.SchemeGroupVersion, "events", namespace)
}

func (t typed) quotas(namespace string) *gentype.ClientWithList[*corev1.ResourceQuota, *corev1.ResourceQuotaList] {
	return resourceOf[corev1.ResourceQuota, corev1.ResourceQuotaList](t, corev1.SchemeGroupVersion, "resourcequotas", namespace)
}

func (t typed) deployments(namespace string) *gentype.ClientWithList[*appsv1.Deployment, *appsv1.DeploymentList] {
	return resourceOf[appsv1.Deployment, appsv1.DeploymentList](t, appsv1.SchemeGroupVersion, "deployments", namespace)
}

func (t typed) statefulSets(namespace string) *gentype.ClientWithList[*appsv1.StatefulSet, *appsv1.StatefulSetList] {
	return resourceOf[appsv1.StatefulSet, appsv1.StatefulSetList](t, appsv1.SchemeGroupVersion, "statefulsets", namespace)
}

func (t typed) replicaSets(namespace string) *gentype.ClientWithList[*appsv1.ReplicaSet, *appsv1.ReplicaSetList] {
	return resourceOf[appsv1.ReplicaSet, appsv1.ReplicaSetList](t, appsv1.SchemeGroupVersion, "replicasets", namespace)
}

func (t typed) controllerRevisions(namespace string) *gentype.ClientWithList[*appsv1.ControllerRevision, *appsv1.ControllerRevisionList] {
	return resourceOf[appsv1.ControllerRevision, appsv1.ControllerRevisionList](t, appsv1.SchemeGroupVersion, "controllerrevisions", namespace)
}

func (t typed) autoscalers(namespace string) *gentype.ClientWithList[*autoscalingv2.HorizontalPodAutoscaler, *autoscalingv2.HorizontalPodAutoscalerList] {
	return resourceOf[autoscalingv2.HorizontalPodAutoscaler, autoscalingv2.HorizontalPodAutoscalerList](t, autoscalingv2.SchemeGroupVersion, "horizontalpodautoscalers", namespace)
}

func (t typed) jobs(namespace string) *gentype.ClientWithList[*batchv1.Job, *batchv1.JobList] {
	return resourceOf[batchv1.Job, batchv1.JobList](t, batchv1.SchemeGroupVersion, "jobs", namespace)
}

func (t typed) endpointSlices(namespace string) *gentype.ClientWithList[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList] {
	return resourceOf[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](t, discoveryv1.SchemeGroupVersion, "endpointslices", namespace)
}

func (t typed) disruptionBudgets(namespace string) *gentype.ClientWithList[*policyv1.PodDisruptionBudget, *policyv1.PodDisruptionBudgetList] {
	return resourceOf[policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudgetList](t, policyv1.SchemeGroupVersion, "poddisruptionbudgets", namespace)
}

// evict asks for the eviction of a pod.
func (t typed) evict(ctx context.Context, e *policyv1.Eviction) error {
	return t[policyv1.SchemeGroupVersion].Post().AbsPath("/api/v1").Namespace(e.Namespace).
		Resource("pods").Name(e.Name).SubResource("eviction").Body(e).Do(ctx).Error()
}

func (t typed) accessReviews() *gentype.Client[*authorizationv1.SelfSubjectAccessReview] {
	return gentype.NewClient("selfsubjectaccessreviews", t[authorizationv1.SchemeGroupVersion], parameters, "",
		func() *authorizationv1.SelfSubjectAccessReview { return &authorizationv1.SelfSubjectAccessReview{} },
		gentype.PrefersProtobuf[*authorizationv1.SelfSubjectAccessReview]())
}

func (t typed) tokenReviews() *gentype.Client[*authenticationv1.TokenReview] {
	return gentype.NewClient("tokenreviews", t[authenticationv1.SchemeGroupVersion], parameters, "",
		func() *authenticationv1.TokenReview { return &authenticationv1.TokenReview{} },
		gentype.PrefersProtobuf[*authenticationv1.TokenReview]())
}
