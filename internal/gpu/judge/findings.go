package judge

import (
	"fmt"
	"slices"
	"strings"
)

// Finding is a reason and the GPUs that share it exactly.
type Finding struct {
	Reason
	GPUs []int // indices; none: it is about the node
}

// Findings returns all reasons of a judgement, the node's first, each once.
func (n NodeJudgement) Findings() []Finding {
	var out []Finding
	for _, r := range n.Reasons {
		out = append(out, Finding{Reason: r})
	}
	own := len(out)
	for _, g := range n.GPUs {
		for _, r := range g.Reasons {
			i := slices.IndexFunc(out[own:], func(f Finding) bool {
				return f.Rule == r.Rule && f.Verdict == r.Verdict && f.Text == r.Text && f.Evidence == r.Evidence
			})
			if i < 0 {
				i = len(out) - own
				out = append(out, Finding{Reason: r})
			}
			out[own+i].GPUs = append(out[own+i].GPUs, g.Index)
		}
	}
	return out
}

// Where returns the GPUs, such as "GPU 0-2, 5"; empty for a finding about the
// node.
func (f Finding) Where() string {
	var spans []string
	for i := 0; i < len(f.GPUs); {
		j := i
		for j+1 < len(f.GPUs) && f.GPUs[j+1] == f.GPUs[j]+1 {
			j++
		}
		one := fmt.Sprint(f.GPUs[i])
		if j > i {
			one += fmt.Sprintf("-%d", f.GPUs[j])
		}
		spans, i = append(spans, one), j+1
	}
	if len(spans) == 0 {
		return ""
	}
	return "GPU " + strings.Join(spans, ", ")
}
