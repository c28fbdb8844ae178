package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// planned returns that a Dynamo graph has a planner, which sets the replicas of all
// components by itself, or may have one: its components cannot be read. Empty: it has none.
func (c *Client) planned(ctx context.Context, graph Ref) (string, error) {
	gvr := schema.GroupVersionResource{Group: "nvidia.com", Version: "v1alpha1", Resource: "dynamographdeployments"}
	o, err := c.dynamic.Resource(gvr).Namespace(graph.Namespace).Get(ctx, graph.Name, metav1.GetOptions{})
	if err != nil {
		return "", request{verb: "get", group: gvr.Group, resource: gvr.Resource, namespace: graph.Namespace, name: graph.Name}.fail(err)
	}
	services, found, err := unstructured.NestedMap(o.Object, "spec", "services")
	if err != nil || !found {
		return fmt.Sprintf("whether a planner sets them is not known: %s %s has no spec.services that can be read", graph.Kind, graph.Name), nil
	}
	for name, s := range services {
		fields, readable := s.(map[string]any)
		kind, _, err := unstructured.NestedString(fields, "componentType")
		if !readable || err != nil {
			return fmt.Sprintf("whether a planner sets them is not known: spec.services.%s of %s %s cannot be read", name, graph.Kind, graph.Name), nil
		}
		if kind == "planner" {
			return fmt.Sprintf("the planner %s of %s %s sets the replicas of its components by itself%s", name, graph.Kind, graph.Name, plannerBounds(fields)), nil
		}
	}
	return "", nil
}

// plannerBounds returns, as the end of a sentence, within which bounds a planner
// scales: what holds it back is for people to change. It reads the configuration that
// stands in --config, or the flags that Dynamo had before. Source: PlannerConfig in
// the documentation of Dynamo.
func plannerBounds(service map[string]any) string {
	args, _, _ := unstructured.NestedStringSlice(service, "extraPodSpec", "mainContainer", "args") // anything else: not known
	config := struct {
		Budget *int `json:"max_gpu_budget"`
		Least  *int `json:"min_endpoint"`
	}{}
	var bounds []string
	flag := func(i int, name string) (string, bool) {
		value, joined := strings.CutPrefix(args[i], name+"=")
		if !joined && args[i] == name && i+1 < len(args) {
			return args[i+1], true
		}
		return value, joined
	}
	for i := range args {
		if v, ok := flag(i, "--config"); ok {
			if err := json.Unmarshal([]byte(v), &config); err != nil {
				bounds = append(bounds, "its --config")
			}
		}
		for _, name := range []string{"--max-gpu-budget", "--min-endpoint"} {
			v, ok := flag(i, name)
			if n, err := strconv.Atoi(v); ok && err == nil {
				bounds = append(bounds, fmt.Sprintf("%s %d", name, n))
			}
		}
	}
	if config.Budget != nil {
		bounds = append(bounds, fmt.Sprintf("max_gpu_budget %d", *config.Budget))
	}
	if config.Least != nil {
		bounds = append(bounds, fmt.Sprintf("min_endpoint %d", *config.Least))
	}
	if len(bounds) == 0 {
		return ""
	}
	return ", within " + strings.Join(bounds, " and ") + ": where that holds it back, change it there"
}
