package sandbox

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// faultKinds are what may go wrong. A fault is one of them.
var faultKinds = []string{"traffic", "prompts", "some_prompts", "outputs", "prefixes", "memory", "release", "scale", "stuck", "slow", "hang", "crash", "wrong", "gpu", "prometheus"}

// trouble is one thing that goes wrong, while it is being read.
type trouble struct {
	r        *incidentReader
	m        *yamldoc.Mapping
	kind     string
	at, ends time.Duration // ends is 0 where it does not end by itself
	services []*serviceSpec
}

// faults reads the list of faults.
func (r *incidentReader) faults(m *yamldoc.Mapping) {
	n := m.Get("faults")
	if n == nil {
		return
	}
	allowed := append([]string{"at", "for", "service", "after_change"}, faultKinds...)
	for i, item := range r.list(n, m.At("faults")) {
		fm := r.d.Mapping(item, fmt.Sprintf("%s[%d]", m.At("faults"), i), allowed...)
		if fm == nil {
			continue
		}
		f := &trouble{r: r, m: fm}
		for _, k := range faultKinds {
			switch {
			case !fm.Has(k):
			case f.kind != "":
				r.d.Report(fm.Get(k), fm.Path, fmt.Sprintf("a fault is one thing, and this is %s and %s", f.kind, k), "write two items of the list")
			default:
				f.kind = k
			}
		}
		if f.kind == "" {
			r.d.Report(fm.Node, fm.Path, "nothing goes wrong", "allowed: "+strings.Join(faultKinds, ", "))
			continue
		}
		f.read()
	}
}

// read reads when and where, and then what.
func (f *trouble) read() {
	r, m := f.r, f.m
	f.services = []*serviceSpec{&r.s.services[0]}
	if n := m.Get("service"); n != nil {
		f.services = nil
		names, nodes := r.d.Texts(n, m.At("service"))
		for i, name := range names {
			k := slices.IndexFunc(r.s.services, func(s serviceSpec) bool { return s.service.Workload.Name == name })
			if k < 0 {
				r.d.Report(nodes[i], m.At("service"), fmt.Sprintf("no service is named %q", yamldoc.Clip(name)), yamldoc.DidYouMean(name, (&Incident{scenario: r.s}).Services()))
				continue
			}
			f.services = append(f.services, &r.s.services[k])
		}
	}
	if m.Has("after_change") {
		f.leaves()
		return
	}
	if n := m.Need("at", "moment relative to the opening of the world, e.g. -12m"); n != nil {
		f.at = r.offset(n, m.At("at"))
	}
	r.s.age = max(r.s.age, -f.at)
	if m.Has("for") {
		f.ends = f.at + m.Duration("for", maxAfter)
		if f.ends == 0 {
			f.ends = time.Nanosecond
		}
	}
	if f.ends == 0 && f.kind == "prometheus" {
		m.Need("for", "how long Prometheus does not answer")
	}
	r.ends, r.stays = max(r.ends, f.ends), r.stays || f.ends == 0
	f.what()
	if m.Has("for") && !slices.Contains([]string{"traffic", "prompts", "some_prompts", "outputs", "prefixes", "memory", "prometheus"}, f.kind) {
		r.d.Report(m.Get("for"), m.At("for"), f.kind+" does not end by itself", "")
	}
}

// leaves reads traffic that leaves some time after the first change.
func (f *trouble) leaves() {
	if v, ok := f.m.Number("traffic"); !ok || v != 0 || f.m.Has("at") || f.m.Has("for") {
		f.r.d.Report(f.m.Node, f.m.Path, "after a change nothing but the traffic can leave", "write {after_change: 1m, traffic: 0}")
		return
	}
	for _, s := range f.services {
		s.leaves = f.m.Duration("after_change", maxAfter)
	}
}

func (f *trouble) what() {
	path := f.m.At(f.kind)
	n := f.m.Get(f.kind)
	for _, s := range f.services {
		switch f.kind {
		case "traffic":
			f.shifts(&s.traffic)
		case "prompts":
			f.shifts(&s.prompts)
		case "some_prompts":
			f.odd(s)
		case "outputs":
			f.shifts(&s.outputs)
		case "prefixes":
			f.shifts(&s.shared)
		case "memory":
			f.shifts(&s.decodes)
		case "release":
			f.release(s)
		case "scale":
			if v, ok := f.m.Integer("scale", 0, maxReplicas); ok {
				s.scaled = append(s.scaled, scaling{at: f.at, replicas: v})
			}
		case "stuck":
			s.sick = append(s.sick, sickness{from: f.at, pod: f.replica(n, path), stuck: true})
		case "slow", "hang", "crash", "wrong":
			f.sick(s)
		}
	}
	switch f.kind {
	case "gpu":
		f.gpu()
	case "prometheus":
		if word, ok := f.r.d.Text(n, path); ok && word != "away" {
			f.r.d.Report(n, path, fmt.Sprintf("unknown state %q", yamldoc.Clip(word)), "allowed: away")
		}
		f.r.s.away = append(f.r.s.away, span{f.at, f.ends})
	}
}

// rampStep is how long a growing factor stays the same.
const rampStep = 4 * time.Minute

// shifts reads a factor, or one that grows.
func (f *trouble) shifts(to *[]shift) {
	n := f.m.Get(f.kind)
	if n.Kind == yaml.MappingNode {
		g := f.r.d.Mapping(n, f.m.At(f.kind), "from", "to", "over")
		if g == nil {
			return
		}
		g.Need("over", "how long it grows, e.g. 1h")
		first, _ := f.r.number(g, "from", 0, maxFactor)
		last, _ := f.r.number(g, "to", 0, maxFactor)
		steps := int(g.Duration("over", maxAfter) / rampStep)
		for k := 0; k <= steps; k++ {
			*to = append(*to, shift{from: f.at + time.Duration(k)*rampStep, factor: first + (last-first)*float64(k)/float64(max(1, steps))})
		}
	} else if v, ok := f.r.number(f.m, f.kind, 0, maxFactor); ok {
		*to = append(*to, shift{from: f.at, factor: v})
	}
	if f.ends != 0 {
		*to = append(*to, shift{from: f.ends, factor: 1})
	}
}

// odd reads another length that a share of the prompts has.
func (f *trouble) odd(s *serviceSpec) {
	m := f.r.d.Mapping(f.m.Get(f.kind), f.m.At(f.kind), "share", "tokens")
	if m == nil {
		return
	}
	m.Need("share", "of the requests, e.g. 0.02")
	m.Need("tokens", "length of these prompts")
	out := oddPrompts{from: f.at}
	out.share, _ = f.r.number(m, "share", 0, 1)
	out.tokens, _ = m.Integer("tokens", 1, maxTokens)
	s.odd = append(s.odd, out)
	if f.ends != 0 {
		s.odd = append(s.odd, oddPrompts{from: f.ends})
	}
}

// release reads a new revision: what changes in the pod template, and what is bad about
// its image.
func (f *trouble) release(s *serviceSpec) {
	m := f.r.d.Mapping(f.m.Get("release"), f.m.At("release"), "title", "image", "args", "bad")
	if m == nil {
		return
	}
	last := s.revisions[len(s.revisions)-1]
	out := revisionSpec{age: -f.at, cause: m.Text("title"), fields: last.fields}
	change := map[string]string{}
	if n := m.Get("args"); n != nil {
		change = s.argFields(f.r.texts(n, m.At("args")))
	}
	if image := m.Text("image"); image != "" {
		change["containers["+s.service.Container+"].image"] = image
	}
	out.fields = template(last.fields, change)
	if m.Text("image") == "" {
		out.image = last.image // the image is still that one
	}
	if n := m.Get("bad"); n != nil {
		if b := f.r.d.Mapping(n, m.At("bad"), "prefill_chunk", "compute", "memory", "errors", "crash", "wrong"); b != nil {
			out.image = image{}
			out.image.dies = f.death(b, "crash")
			out.image.wrong = wrong(f.oneOf(b, "wrong", "difference", string(wrongOutput), string(wrongPrompt)))
			out.image.chunk, _ = b.Integer("prefill_chunk", 1, maxTokens)
			out.image.compute, _ = f.r.number(b, "compute", 0.01, maxFactor)
			out.image.memory, _ = f.r.number(b, "memory", 0.01, maxFactor)
			out.image.failures, _ = f.r.number(b, "errors", 0, 1)
		}
		if s.git && m.Text("image") == "" {
			f.r.d.Report(n, m.At("bad"), "in Git, what is bad is about an image", "name another image")
		}
	}
	s.revisions = append(s.revisions, out)
}

// sick reads what befalls replicas.
func (f *trouble) sick(s *serviceSpec) {
	fields := map[string][]string{"slow": {"replica", "node", "times"}, "hang": {"replica", "share"}, "crash": {"replica", "why", "again"}, "wrong": {"replica"}}[f.kind]
	m := f.r.d.Mapping(f.m.Get(f.kind), f.m.At(f.kind), fields...)
	if m == nil {
		return
	}
	out := sickness{from: f.at}
	switch n, node := m.Get("replica"), m.Get("node"); {
	case node != nil:
		out.pod = -1
		if i, ok := m.Integer("node", 0, len(f.r.s.nodes)-1); ok {
			out.node = f.r.s.nodes[i].name
		}
	case n != nil:
		out.pod = f.replica(n, m.At("replica"))
	default:
		m.Need("replica", "number of the replica, the oldest is 0, or all")
	}
	switch f.kind {
	case "slow":
		m.Need("times", "how many times as long it computes")
		out.slow, _ = f.r.number(m, "times", 1, maxFactor)
	case "hang":
		m.Need("share", "of the requests that never finish")
		out.hangs, _ = f.r.number(m, "share", 0, 1)
	case "wrong":
		out.wrong = wrongOutput
	default:
		m.Need("why", "cuda-memory, host-memory or error")
		out.dies, out.after = f.death(m, "why"), m.Duration("again", maxAfter)
	}
	s.sick = append(s.sick, out)
}

// death reads why a process ends.
func (f *trouble) death(m *yamldoc.Mapping, name string) death {
	return death(f.oneOf(m, name, "reason", string(cudaMemory), string(hostMemory), string(failure)))
}

// oneOf reads an optional word, which what describes.
func (f *trouble) oneOf(m *yamldoc.Mapping, name, what string, all ...string) string {
	word := m.Text(name)
	if word != "" && !slices.Contains(all, word) {
		f.r.d.Report(m.Get(name), m.At(name), fmt.Sprintf("unknown %s %q", what, yamldoc.Clip(word)), yamldoc.DidYouMean(word, all))
	}
	return word
}

// replica reads which replica: its number, or all.
func (f *trouble) replica(n *yaml.Node, path string) int {
	if n.Value == "all" {
		return -1
	}
	i, ok := yamldoc.Int(n)
	if !ok || i < 0 || i >= maxReplicas {
		f.r.d.Report(n, path, "want the number of a replica or all, got "+yamldoc.Describe(n), "the oldest is 0")
	}
	return int(i)
}

// gpu reads a fault of a GPU, or of one under every place of every node.
func (f *trouble) gpu() {
	m := f.r.d.Mapping(f.m.Get("gpu"), f.m.At("gpu"), "node", "index", "is", "times")
	if m == nil {
		return
	}
	a := ailment{from: f.at, kind: ailing(m.Text("is"))}
	m.Need("is", "hot or failing")
	if a.kind != hot && a.kind != failing && a.kind != "" {
		f.r.d.Report(m.Get("is"), m.At("is"), fmt.Sprintf("unknown ailment %q", yamldoc.Clip(string(a.kind))), yamldoc.DidYouMean(string(a.kind), []string{string(hot), string(failing)}))
	}
	m.Need("times", "how many times too low its clock is, e.g. 8")
	a.drag, _ = f.r.number(m, "times", 1, maxFactor)
	a.gpu, _ = m.Integer("index", 0, 2*gpusPerSlot-1)
	n := m.Need("node", "number of the node, the first is 0, or all")
	if n == nil {
		return
	}
	nodes := f.r.s.nodes
	if n.Value == "all" {
		for i := range nodes {
			for slot := range nodes[i].slots {
				a.gpu = slot*gpusPerSlot + i%gpusPerSlot
				nodes[i].ailments = append(nodes[i].ailments, a)
			}
		}
		return
	}
	k, err := strconv.Atoi(n.Value)
	if err != nil || k < 0 || k >= len(nodes) {
		f.r.d.Report(n, m.At("node"), fmt.Sprintf("want the number of a node, 0 to %d, or all", len(nodes)-1), "")
		return
	}
	nodes[k].ailments = append(nodes[k].ailments, a)
}
