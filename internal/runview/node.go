package runview

import (
	"fmt"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/api"
)

// NodePage is the nodes as the page shows them.
type NodePage struct {
	Rows    []NodeRow
	More    int       // nodes beyond those
	Unknown []string  // what could not be read
	Read    time.Time // when the cluster was read; zero: it was not
	Now     time.Time // by the service's clock
}

// NodeRow is a node with its standing in words.
type NodeRow struct {
	api.Node
	Standing string // e.g. taken out by Responder, not ready
	Tone     Tone
	GPUTone  Tone // of the verdict; empty: there are none
}

// NodePageOf returns the nodes of a list in words.
func NodePageOf(list api.NodeList) NodePage {
	page := NodePage{More: list.More, Unknown: list.Unknown, Read: list.Read, Now: list.Now}
	for _, n := range list.Nodes {
		standing, tone := NodeStanding(n)
		page.Rows = append(page.Rows, NodeRow{Node: n, Standing: standing, Tone: tone, GPUTone: verdictTone(n.GPUs.Verdict)})
	}
	return page
}

// verdictTone is that of a verdict about GPUs. One that is not known here is bad.
func verdictTone(verdict string) Tone {
	switch verdict {
	case "healthy", "busy":
		return ToneGood
	case "unknown":
		return ToneWait
	case "none":
		return ""
	default:
		return ToneBad
	}
}

// foreign reports whether somebody else than Responder cordoned the node.
func foreign(n api.Node) bool { return n.Cordoned && n.CordonedBy != "responder" }

// NodeStanding describes in words whether a node takes pods, and who keeps them away.
func NodeStanding(n api.Node) (string, Tone) {
	if n.Ready != "true" && n.Ready != "false" {
		return "unknown", ToneWait
	}
	var parts []string
	tone := ToneGood
	if n.Taken {
		parts, tone = append(parts, "taken out by Responder"), ToneWait
	}
	if foreign(n) {
		parts, tone = append(parts, "cordoned by somebody else ("+OrText(n.CordonedBy, "not recorded")+")"), ToneWait
	}
	if len(n.Claims) > 0 {
		parts, tone = append(parts, "others work on it"), ToneWait
	}
	switch {
	case n.Ready == "false":
		parts, tone = append(parts, "not ready"), ToneBad
	case n.Bad:
		parts, tone = append(parts, "bad conditions"), ToneBad
	case len(parts) == 0:
		parts = append(parts, "ready")
	}
	return strings.Join(parts, ", "), tone
}

// NodeServices lists the services on a node with their replicas there.
func NodeServices(n api.Node) string {
	var out []string
	for _, s := range n.Services {
		out = append(out, s.Service+" "+Replicas(s))
	}
	return strings.Join(out, ", ")
}

// Replicas counts the replicas of a service on a node.
func Replicas(s api.NodeService) string {
	if s.Ready == s.Replicas {
		return fmt.Sprintf("%d ready", s.Ready)
	}
	return fmt.Sprintf("%d of %d ready", s.Ready, s.Replicas)
}

// NodeTable returns the table of nodes. Ages are by the service's clock.
func NodeTable(list api.NodeList) *Table {
	t := &Table{
		Columns: []Column{
			{Head: "NODE", Flex: true},
			{Head: "STATE", Flex: true},
			{Head: "OUT FOR"},
			{Head: "GPUS"},
			{Head: "SERVICES", Flex: true},

			{Head: "RUN", Wide: true},
			{Head: "OUT SINCE (UTC)", Wide: true},
			{Head: "GPUS READ BY", Wide: true},
			{Head: "GPUS READ", Wide: true},
			{Head: "CLAIMS", Wide: true},
		},
		Empty: "no service of the catalog has a pod on a node, and Responder took no node out",
	}
	if len(list.Unknown) > 0 {
		t.Empty = "no node is known"
	}
	for _, n := range list.Nodes {
		standing, _ := NodeStanding(n)
		outFor, since := "", ""
		if !n.Since.IsZero() {
			outFor, since = Age(list.Now.Sub(n.Since)), Time(n.Since)
		}
		read := ""
		if !n.GPUs.Read.IsZero() {
			read = Age(list.Now.Sub(n.GPUs.Read)) + " ago"
		}
		t.Add(n.Node, standing, outFor, n.GPUs.Verdict, NodeServices(n), n.Run, since, n.GPUs.Source, read, strings.Join(n.Claims, ", "))
	}
	return t
}

// NodeWhy explains why a node is not in service or its GPUs are not healthy, and what its
// return waits for; empty: it is well.
func NodeWhy(n api.Node) string {
	var b strings.Builder
	line := func(head, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-10s %s\n", head, Inline(text))
		}
	}
	line("unknown", n.Cause)
	line("conditions", strings.Join(n.Conditions, ", "))
	for _, c := range n.Claims {
		line("claimed by", c)
	}
	if n.Taken {
		line("out by", OrText(n.Run, "a run that the node does not name"))
	}
	for _, w := range n.Waits {
		head, text := "waits for", w.Text
		if !n.Taken {
			head = "open"
		}
		if w.Run != "" {
			text += " (" + w.Run + ")"
		}
		line(head, text)
	}
	for _, w := range n.GPUs.Why {
		line("GPUs", w)
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n" + Inline(n.Node) + "\n" + b.String()
}
