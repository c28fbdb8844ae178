package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/runview"
)

const takenBy = "r-00VHNCZB00N00H1NY9WZ9Q4QAJ"

// someNodes are a node in each of the states that people meet it in.
func someNodes() api.NodeList {
	chat := []api.NodeService{{Service: "serving/inference-chat", Replicas: 2, Ready: 1}, {Service: "serving/other", Replicas: 1, Ready: 1}}
	healthy := api.NodeGPUs{Verdict: "healthy", Seen: 8, Source: "nvml", Read: now.Add(-4 * time.Second)}
	return api.NodeList{
		Read: now.Add(-12 * time.Second), Now: now,
		Nodes: []api.Node{
			{
				Node: "gpu-1", Ready: "true", Cordoned: true, CordonedBy: "responder", Taken: true, Run: takenBy, Since: now.Add(-3 * time.Hour),
				Waits: []api.NodeWait{{Text: "run of node-return: deciding", Run: takenBy}, {Text: "a repair that was asked for: the label responder.dev/gpu-reset=requested"}},
				GPUs:  api.NodeGPUs{Verdict: "failing", Seen: 8, Source: "dcgm", Read: now.Add(-30 * time.Second), Why: []string{"failing: GPU 3: 41 uncorrectable ECC errors"}},
			},
			{Node: "gpu-2", Ready: "true", Taken: true, Run: "r-0", Waits: []api.NodeWait{{Text: "a run of node-return"}}, GPUs: healthy},
			{Node: "gpu-3", Ready: "true", Cordoned: true, CordonedBy: "kubectl", Services: chat, GPUs: healthy},
			{Node: "gpu-4", Ready: "false", Bad: true, Conditions: []string{"Ready=Unknown"}, Claims: []string{"kured (annotation weave.works/kured-reboot-in-progress)"}, Services: chat, GPUs: api.NodeGPUs{Verdict: "unknown", Why: []string{"unknown: no readings of the node's GPUs: no agent runs there"}}},
			{Node: "gpu-5", Ready: "unknown", Cause: "list nodes: forbidden", Services: chat, GPUs: api.NodeGPUs{Verdict: "unknown"}},
			{Node: "<b>cpu</b>", Ready: "true", Services: chat[1:], Waits: []api.NodeWait{{Text: "run of gpu-fault: gathering", Run: takenBy}}, GPUs: api.NodeGPUs{Verdict: "none"}},
		},
		More: 7, Unknown: []string{"the pods of namespace <i>other</i>: forbidden"},
	}
}

func TestNodesPage(t *testing.T) {
	h := atNight(t)
	h.nodes = runview.NodePageOf(someNodes())
	body := look(t, site(t, h), reader, http.MethodGet, "/nodes").Body.String()
	golden(t, "nodes", body)
	for _, want := range []string{
		"taken out by Responder", "cordoned by somebody else (kubectl)", "not ready", ">GPUs unknown<", ">unknown<", "It could not be read: list nodes: forbidden", "7 more nodes left out",
		"&lt;b&gt;cpu&lt;/b&gt;", ">no GPUs<", "1 of 2 ready", "by run r-0<", `href="./runs/` + takenBy, "namespace &lt;i&gt;other&lt;/i&gt;: forbidden", "since when is not recorded",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	// What is not known is not shown as well.
	row := body[strings.Index(body, ">gpu-5<"):]
	if row = row[:strings.Index(row, "&lt;b&gt;cpu")]; strings.Contains(row, "pill good") {
		t.Errorf("a node of which nothing is known is shown as well: %s", row)
	}
}

// Without a cluster, and without nodes, the page says which of both it is.
func TestNodesPageWithoutNodes(t *testing.T) {
	h := atNight(t)
	for want, page := range map[string]runview.NodePage{
		"no cluster is configured":                      {Unknown: []string{"no cluster is configured"}},
		"No service of the catalog has a pod on a node": {Read: now, Now: now},
	} {
		h.nodes = page
		body := look(t, site(t, h), ada, http.MethodGet, "/nodes").Body.String()
		if !strings.Contains(body, want) || strings.Contains(body, "pill good") {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// The page tells its script to load it again when a node changes, and not with every age.
func TestNodesTagChangesWithNodes(t *testing.T) {
	h := atNight(t)
	tag := func(list api.NodeList) string {
		h.nodes = runview.NodePageOf(list)
		return look(t, site(t, h), ada, http.MethodHead, "/nodes").Header().Get("ETag")
	}
	before, later, other := someNodes(), someNodes(), someNodes()
	later.Now, later.Read = later.Now.Add(time.Minute), later.Read.Add(time.Minute)
	other.Nodes[2].Cordoned = false
	if tag(before) != tag(later) || tag(before) == tag(other) {
		t.Errorf("tags: %s, later %s, other %s", tag(before), tag(later), tag(other))
	}
}

func TestManyNodesStaySmall(t *testing.T) {
	h := atNight(t)
	list := someNodes()
	for i := range 200 - len(list.Nodes) {
		n := list.Nodes[2]
		n.Node = fmt.Sprintf("gpu-more-%d", i)
		list.Nodes = append(list.Nodes, n)
	}
	h.nodes = runview.NodePageOf(list)
	if n := look(t, site(t, h), ada, http.MethodGet, "/nodes").Body.Len(); n > 150<<10 {
		t.Errorf("%d bytes", n)
	}
}
