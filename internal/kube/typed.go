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
	"k8s.io/apimachinery/pkg/types"
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

// typedResource asks for one resource as Go types: T its objects, L its lists. Pointers to
// both are runtime objects. An empty namespace is all of them.
type typedResource[T, L any] struct {
	client          rest.Interface
	name, namespace string
}

// ask begins a request about all objects.
func (r typedResource[T, L]) ask(request *rest.Request, options runtime.Object) *rest.Request {
	return request.UseProtobufAsDefault().NamespaceIfScoped(r.namespace, r.namespace != "").Resource(r.name).VersionedParams(options, parameters)
}

// Get reads an object.
func (r typedResource[T, L]) Get(ctx context.Context, name string, options metav1.GetOptions) (*T, error) {
	out := new(T)
	return out, r.ask(r.client.Get(), &options).Name(name).Do(ctx).Into(any(out).(runtime.Object))
}

// List reads all objects that the options select.
func (r typedResource[T, L]) List(ctx context.Context, options metav1.ListOptions) (*L, error) {
	out := new(L)
	return out, r.ask(r.client.Get(), &options).Do(ctx).Into(any(out).(runtime.Object))
}

// Create stores an object, and returns it as it is stored.
func (r typedResource[T, L]) Create(ctx context.Context, object *T, options metav1.CreateOptions) (*T, error) {
	out := new(T)
	return out, r.ask(r.client.Post(), &options).Body(object).Do(ctx).Into(any(out).(runtime.Object))
}

// Patch changes an object, and returns it as it is stored.
func (r typedResource[T, L]) Patch(ctx context.Context, name string, kind types.PatchType, body []byte, options metav1.PatchOptions) (*T, error) {
	out := new(T)
	return out, r.ask(r.client.Patch(kind), &options).Name(name).Body(body).Do(ctx).Into(any(out).(runtime.Object))
}

// Delete removes an object.
func (r typedResource[T, L]) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	return r.client.Delete().UseProtobufAsDefault().NamespaceIfScoped(r.namespace, r.namespace != "").
		Resource(r.name).Name(name).Body(&options).Do(ctx).Error()
}

// core is the client of the core API, and of the paths that belong to no group.
func (t typed) core() rest.Interface { return t[corev1.SchemeGroupVersion] }

func (t typed) pods(namespace string) typedResource[corev1.Pod, corev1.PodList] {
	return typedResource[corev1.Pod, corev1.PodList]{t[corev1.SchemeGroupVersion], "pods", namespace}
}

func (t typed) nodes() typedResource[corev1.Node, corev1.NodeList] {
	return typedResource[corev1.Node, corev1.NodeList]{t[corev1.SchemeGroupVersion], "nodes", ""}
}

func (t typed) events(namespace string) typedResource[corev1.Event, corev1.EventList] {
	return typedResource[corev1.Event, corev1.EventList]{t[corev1.SchemeGroupVersion], "events", namespace}
}

func (t typed) quotas(namespace string) typedResource[corev1.ResourceQuota, corev1.ResourceQuotaList] {
	return typedResource[corev1.ResourceQuota, corev1.ResourceQuotaList]{t[corev1.SchemeGroupVersion], "resourcequotas", namespace}
}

func (t typed) deployments(namespace string) typedResource[appsv1.Deployment, appsv1.DeploymentList] {
	return typedResource[appsv1.Deployment, appsv1.DeploymentList]{t[appsv1.SchemeGroupVersion], "deployments", namespace}
}

func (t typed) statefulSets(namespace string) typedResource[appsv1.StatefulSet, appsv1.StatefulSetList] {
	return typedResource[appsv1.StatefulSet, appsv1.StatefulSetList]{t[appsv1.SchemeGroupVersion], "statefulsets", namespace}
}

func (t typed) replicaSets(namespace string) typedResource[appsv1.ReplicaSet, appsv1.ReplicaSetList] {
	return typedResource[appsv1.ReplicaSet, appsv1.ReplicaSetList]{t[appsv1.SchemeGroupVersion], "replicasets", namespace}
}

func (t typed) controllerRevisions(namespace string) typedResource[appsv1.ControllerRevision, appsv1.ControllerRevisionList] {
	return typedResource[appsv1.ControllerRevision, appsv1.ControllerRevisionList]{t[appsv1.SchemeGroupVersion], "controllerrevisions", namespace}
}

func (t typed) autoscalers(namespace string) typedResource[autoscalingv2.HorizontalPodAutoscaler, autoscalingv2.HorizontalPodAutoscalerList] {
	return typedResource[autoscalingv2.HorizontalPodAutoscaler, autoscalingv2.HorizontalPodAutoscalerList]{t[autoscalingv2.SchemeGroupVersion], "horizontalpodautoscalers", namespace}
}

func (t typed) jobs(namespace string) typedResource[batchv1.Job, batchv1.JobList] {
	return typedResource[batchv1.Job, batchv1.JobList]{t[batchv1.SchemeGroupVersion], "jobs", namespace}
}

func (t typed) endpointSlices(namespace string) typedResource[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList] {
	return typedResource[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList]{t[discoveryv1.SchemeGroupVersion], "endpointslices", namespace}
}

func (t typed) disruptionBudgets(namespace string) typedResource[policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudgetList] {
	return typedResource[policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudgetList]{t[policyv1.SchemeGroupVersion], "poddisruptionbudgets", namespace}
}

// evict asks for the eviction of a pod.
func (t typed) evict(ctx context.Context, e *policyv1.Eviction) error {
	return t[policyv1.SchemeGroupVersion].Post().AbsPath("/api/v1").Namespace(e.Namespace).
		Resource("pods").Name(e.Name).SubResource("eviction").Body(e).Do(ctx).Error()
}

func (t typed) accessReviews() typedResource[authorizationv1.SelfSubjectAccessReview, metav1.List] {
	return typedResource[authorizationv1.SelfSubjectAccessReview, metav1.List]{t[authorizationv1.SchemeGroupVersion], "selfsubjectaccessreviews", ""}
}

func (t typed) tokenReviews() typedResource[authenticationv1.TokenReview, metav1.List] {
	return typedResource[authenticationv1.TokenReview, metav1.List]{t[authenticationv1.SchemeGroupVersion], "tokenreviews", ""}
}
