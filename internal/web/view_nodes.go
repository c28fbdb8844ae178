package web

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/inference-responder/responder/internal/runview"
)

func nodesView(p page, d runview.NodePage) g.Node {
	return g.Group{
		h.H1(g.Text("Nodes and GPUs")),
		quiet(g.Text("Nodes on which services have pods, and those that Responder took out."),
			some(!d.Read.IsZero(), g.Text(" Read "+span(d.Now.Sub(d.Read))+" ago; the cluster is asked at most every 30 seconds."))),
		some(len(d.Unknown) > 0, h.Div(h.Class("notice wait"), h.Role("status"),
			h.P(h.B(g.Text("Not known, so that nodes or services may be missing:"))),
			h.Ul(g.Map(d.Unknown, func(s string) g.Node { return h.Li(text(s)) })))),
		some(len(d.Rows) > 0, h.Ul(h.Class("runs"), g.Map(d.Rows, func(n runview.NodeRow) g.Node { return nodeView(p, d, n) }))),
		some(d.More > 0, quiet(g.Text(runview.Count(d.More, "more node")+" left out here. Nodes that are out of service or not ready come first."))),
		some(len(d.Rows) == 0 && len(d.Unknown) == 0, quiet(g.Text("No service of the catalog has a pod on a node, and Responder took no node out."))),
	}
}

// nodeView renders a node: who keeps pods off it and until when, its GPUs, its services.
func nodeView(p page, d runview.NodePage, n runview.NodeRow) g.Node {
	tone := n.Tone
	if n.GPUTone == runview.ToneBad || n.GPUTone == runview.ToneWait && tone == runview.ToneGood {
		tone = n.GPUTone
	}
	points := func(texts []string) g.Node {
		return some(len(texts) > 0, h.Ul(g.Map(texts, func(s string) g.Node { return h.Li(text(s)) })))
	}
	return h.Li(h.Class(string(tone)),
		h.B(h.Class("run"), text(n.Node.Node)), g.Text(" "), pill(string(n.Tone), n.Standing), g.Text(" "), pill(string(n.GPUTone), gpuWords(n.GPUs.Verdict)),
		some(n.Cause != "", h.P(g.Text("It could not be read: "), text(n.Cause))),
		g.Map(n.Conditions, func(s string) g.Node { return h.P(g.Text("Condition: "), text(s)) }),
		g.Map(n.Claims, func(s string) g.Node { return h.P(g.Text("Claimed by "), text(s)) }),
		some(n.Taken, h.P(outWords(p, d, n))),
		waitsView(p, n),
		some(len(n.GPUs.Why) > 0, h.P(h.B(g.Text("GPUs:"))), points(n.GPUs.Why)),
		h.P(servicesOn(p, n)),
		some(n.GPUs.Verdict != "none", quiet(g.Text(readWords(d, n)))),
	)
}

func gpuWords(verdict string) string {
	if verdict == "none" {
		return "no GPUs"
	}
	return "GPUs " + verdict
}

// outWords renders since when Responder keeps pods off a node, and which run began it.
func outWords(p page, d runview.NodePage, n runview.NodeRow) g.Node {
	since := g.Group{g.Text("Out of service, since when is not recorded on the node")}
	if !n.Since.IsZero() {
		since = g.Group{g.Text("Out of service since "), clock(n.Since), g.Text(", for " + span(d.Now.Sub(n.Since)))}
	}
	return g.Group{since, g.Text(", by "), runLink(p, n.Run)}
}

// runLink renders the name of a run, with a link if it has a page.
func runLink(p page, id string) g.Node {
	switch {
	case id == "":
		return g.Text("a run that the node does not name")
	case runID.MatchString(id):
		return h.A(h.Href(p.Root+"runs/"+id), g.Text("run "+id))
	default:
		return g.Group{g.Text("run "), text(id)}
	}
}

func waitsView(p page, n runview.NodeRow) g.Node {
	var out g.Group
	for _, w := range n.Waits {
		if runID.MatchString(w.Run) {
			out = append(out, h.Li(h.A(h.Href(p.Root+"runs/"+w.Run), long(w.Text))))
		} else {
			out = append(out, h.Li(long(w.Text)))
		}
	}
	heading := "Its return waits for:"
	if !n.Taken {
		heading = "Open:"
	}
	return some(len(out) > 0, h.P(h.B(g.Text(heading))), h.Ul(out))
}

func servicesOn(p page, n runview.NodeRow) g.Node {
	out := g.Group{g.Text("No service has a pod on it.")}
	for i, x := range n.Services {
		if i == 0 {
			out = g.Group{g.Text("Services: ")}
		} else {
			out = append(out, g.Text(", "))
		}
		out = append(out, h.A(h.Href(serviceAddress(p, x.Service)), text(x.Service)), g.Text(" "+runview.Replicas(x)))
	}
	return out
}

// readWords describes who read the GPUs of a node, and how long ago.
func readWords(d runview.NodePage, n runview.NodeRow) string {
	if n.GPUs.Read.IsZero() {
		return "There are no readings of its GPUs."
	}
	by := map[string]string{"nvml": "the node agent", "dcgm": "dcgm-exporter", "sandbox": "the sandbox"}[n.GPUs.Source]
	return runview.Count(n.GPUs.Seen, "GPU") + " read by " + runview.OrText(by, n.GPUs.Source) + " " + span(d.Now.Sub(n.GPUs.Read)) + " ago."
}
