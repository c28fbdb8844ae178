package kube

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// eventAge is the age up to which a warning counts as current.
const eventAge = time.Hour

// Bounds of what is read: the nodes, one request each, and the events of a namespace,
// a page at a time.
const (
	maxEventNodes = 10
	pageOfEvents  = 500
	maxEvents     = 20_000
)

// Events returns the events of a time about a workload, its history, its pods and
// the nodes that these run on, normal ones included, newest first, one entry per
// reason, object and message. missing says what was not read: of a namespace with more
// than 20,000 events the rest, and events of nodes beyond ten, or without the right to
// those of the namespace default.
func (c *Client) Events(ctx context.Context, ref Ref, since time.Time) (all []EventCount, missing []string, err error) {
	o, err := c.load(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	pods, err := c.pods(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	list, rest, err := c.listEvents(ctx, ref.Namespace, "", about(o.concerns(pods), since), maxEvents)
	if err != nil {
		return nil, nil, err
	}
	if rest {
		missing = append(missing, fmt.Sprintf("what namespace %s has beyond %d events", ref.Namespace, maxEvents))
	}
	all = merged(list)
	nodes := map[string]bool{}
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			nodes[p.Spec.NodeName] = true
		}
	}
	for i, node := range slices.Sorted(maps.Keys(nodes)) {
		var list []corev1.Event
		ofNode := about(func(object string) bool { return object == "Node/"+node }, since)
		if i < maxEventNodes {
			// Nodes belong to no namespace: their events stand in this one.
			list, _, err = c.listEvents(ctx, metav1.NamespaceDefault, "involvedObject.kind=Node,involvedObject.name="+node, ofNode, 0)
		}
		if i == maxEventNodes || IsForbidden(err) {
			missing = append(missing, fmt.Sprintf("the events of %d more nodes", len(nodes)-i))
			break
		}
		if err != nil {
			return nil, nil, err
		}
		all = append(all, merged(list)...)
	}
	slices.SortFunc(all, newest)
	return all, missing, nil
}

// events returns the warnings of the last hour about the workload, its history
// and its pods, newest first, one entry per reason, object and message.
func (c *Client) events(ctx context.Context, o *object, pods []corev1.Pod) ([]EventCount, error) {
	mine := about(o.concerns(pods), c.now().Add(-eventAge))
	list, _, err := c.listEvents(ctx, o.ref.Namespace, "type="+corev1.EventTypeWarning, func(e *corev1.Event) bool {
		return e.Type == corev1.EventTypeWarning && mine(e)
	}, 0)
	return merged(list), err
}

// listEvents returns the events that a selector matches and that are to be kept: a
// namespace may have very many, so that each page is sifted before the next. It reads
// at most as many as most says, all if that is 0; rest: there were more.
func (c *Client) listEvents(ctx context.Context, namespace, selector string, keep func(*corev1.Event) bool, most int) (kept []corev1.Event, rest bool, err error) {
	options := metav1.ListOptions{FieldSelector: selector, Limit: pageOfEvents}
	for read := 0; ; {
		list, err := c.typed.events(namespace).List(ctx, options)
		if err != nil {
			return nil, false, request{verb: "list", resource: "events", namespace: namespace}.fail(err)
		}
		for i := range list.Items {
			if keep(&list.Items[i]) {
				kept = append(kept, list.Items[i])
			}
		}
		read += len(list.Items)
		if options.Continue = list.Continue; options.Continue == "" {
			return kept, false, nil
		}
		if most > 0 && read >= most {
			return kept, true, nil
		}
	}
}

// objectOf returns an event's object as Kind/name.
func objectOf(e *corev1.Event) string { return e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name }

// about returns what reports whether an event is of an object that concerns and
// happened since then.
func about(concerns func(object string) bool, since time.Time) func(*corev1.Event) bool {
	return func(e *corev1.Event) bool {
		last, _ := occurred(e)
		return !last.Before(since) && concerns(objectOf(e))
	}
}

// concerns returns what reports whether an event's object, as Kind/name, is the
// workload, of its history, or one of its pods, those that are gone included.
func (o *object) concerns(pods []corev1.Pod) func(object string) bool {
	about := map[string]bool{o.ref.Kind + "/" + o.ref.Name: true}
	prefixes := []string{}
	for _, rs := range o.replicaSets {
		about["ReplicaSet/"+rs.Name] = true
		prefixes = append(prefixes, "Pod/"+rs.Name+"-") // pods that are gone already
	}
	for _, p := range pods {
		about["Pod/"+p.Name] = true
	}
	return func(object string) bool {
		return about[object] || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(object, p) })
	}
}

// merged merges events with the same reason, object and message, newest first.
func merged(list []corev1.Event) []EventCount {
	counts := map[EventCount]EventCount{}
	for i := range list {
		e := &list[i]
		last, count := occurred(e)
		key := EventCount{Reason: e.Reason, Object: objectOf(e), Message: clip(e.Message)}
		m := counts[key]
		m.Reason, m.Object, m.Message = key.Reason, key.Object, key.Message
		m.Normal = e.Type == corev1.EventTypeNormal
		m.Count += count
		if last.After(m.Last) {
			m.Last = last
		}
		counts[key] = m
	}
	return slices.SortedFunc(maps.Values(counts), newest)
}

func newest(a, b EventCount) int {
	return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
}

// occurred returns when an event last happened and how often. Both have moved
// between fields with the versions of the API.
func occurred(e *corev1.Event) (last time.Time, count int) {
	last, count = e.LastTimestamp.Time, int(e.Count)
	if e.EventTime.After(last) {
		last = e.EventTime.Time
	}
	if e.Series != nil {
		count = max(count, int(e.Series.Count))
		if e.Series.LastObservedTime.After(last) {
			last = e.Series.LastObservedTime.Time
		}
	}
	if last.IsZero() {
		last = e.CreationTimestamp.Time
	}
	return last, max(count, 1)
}
