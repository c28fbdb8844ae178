package web

import (
	"fmt"
	"net/http"

	"github.com/inference-responder/responder/internal/runview"
)

func (s *Site) nodes(w http.ResponseWriter, r *http.Request, v Visitor) error {
	d := s.o.Nodes(r.Context())
	p := s.frame(r, v, "Nodes and GPUs", "nodes")
	p.Tag, p.Live, p.Refresh = tagOf(append(lines(p.Pauses), nodesTag(d)...)...), true, 30
	if r.Method != http.MethodHead {
		p.Main = nodesView(p, d)
	}
	return s.write(w, r, http.StatusOK, p)
}

// nodesTag changes with what people act on. Texts with ages and readings change with
// every look.
func nodesTag(d runview.NodePage) []string {
	out := []string{fmt.Sprint(d.More, len(d.Unknown))}
	for _, n := range d.Rows {
		out = append(out, fmt.Sprint(n.Node.Node, n.Standing, n.Run, n.GPUs.Verdict, n.Waits, n.Services))
	}
	return out
}
