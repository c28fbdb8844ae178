package fleet

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// at is a service with pods on these nodes.
func at(name string, nodes ...string) party {
	p := party{svc: playbook.Service{Name: name, Namespace: "serving"}, since: noon, nodes: map[string]bool{}}
	for _, n := range nodes {
		p.nodes[n] = true
	}
	return p
}

func with(p party, change func(*party)) party {
	change(&p)
	return p
}

func TestOnNode(t *testing.T) {
	tenants := func(names ...string) map[string]bool {
		out := map[string]bool{}
		for _, n := range names {
			out[n] = true
		}
		return out
	}
	two := []party{at("chat", "a", "b"), at("code", "b", "c")}
	others := []party{at("embed"), at("rerank"), at("vision")}
	for name, c := range map[string]struct {
		found, healthy []party
		places         map[string]place
		want           string
	}{
		"one node, no healthy service on it":       {two, others, map[string]place{"b": {}}, "b"},
		"one of three healthy services is on it":   {two, others, map[string]place{"b": {tenants: tenants("embed")}}, "b"},
		"too many healthy services are on it":      {two, others, map[string]place{"b": {tenants: tenants("embed", "rerank")}}, ""},
		"no node in common":                        {[]party{at("chat", "a"), at("code", "c")}, others, nil, ""},
		"no healthy service to compare with":       {two, nil, map[string]place{"b": {}}, ""},
		"trouble is evidence without a comparison": {two, nil, map[string]place{"b": {trouble: "it is not ready"}}, "b"},
		"two nodes in common, none in trouble":     {[]party{at("chat", "a", "b"), at("code", "a", "b")}, others, map[string]place{"a": {}, "b": {}}, ""},
		"two nodes in common, one in trouble": {
			[]party{at("chat", "a", "b"), at("code", "a", "b")}, others, map[string]place{"a": {}, "b": {trouble: "GPU 3: fails"}}, "b",
		},
		"who else is on it cannot be read":   {two, others, map[string]place{"b": {unread: errors.New("no"), trouble: "x"}}, ""},
		"one workload was not read":          {[]party{at("chat", "b"), with(at("code"), func(p *party) { p.nodes = nil })}, others, nil, ""},
		"every healthy service is on it too": {two, others[:1], map[string]place{"b": {tenants: tenants("embed")}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := onNode(c.found, c.healthy, c.places)
			if got.what != c.want || (got.by == "node") != (c.want != "") {
				t.Errorf("%+v, want node %q", got, c.want)
			}
			if c.want != "" && got.key() != "node b" {
				t.Errorf("key %q", got.key())
			}
		})
	}
}

func TestByRelease(t *testing.T) {
	changed := func(name string, at time.Time, changes ...string) party {
		p := party{svc: playbook.Service{Name: name}, since: noon, changes: map[string]time.Time{}}
		for _, c := range changes {
			p.changes[c] = at
		}
		return p
	}
	before := noon.Add(-10 * time.Minute)
	two := []party{changed("chat", before, "image vllm:2", "args[--x] 1"), changed("code", before, "image vllm:2")}
	for name, c := range map[string]struct {
		found, healthy []party
		want           string
	}{
		"one image in both":                  {two, []party{changed("embed", before, "image other:1")}, "image vllm:2"},
		"a healthy service has it too":       {two, []party{changed("embed", before, "image vllm:2")}, ""},
		"different images":                   {[]party{two[0], changed("code", before, "image vllm:3")}, nil, ""},
		"it came after one of them breached": {[]party{two[0], changed("code", noon.Add(10*time.Minute), "image vllm:2")}, nil, ""},
		"it shows a minute later":            {[]party{two[0], changed("code", noon.Add(time.Minute), "image vllm:2")}, nil, "image vllm:2"},
		"one of three was not changed":       {[]party{two[0], two[1], changed("code", before)}, nil, "image vllm:2"},
		"two of four were not changed":       {[]party{two[0], two[1], changed("code", before), changed("embed", before)}, nil, ""},
		"one was not changed":                {[]party{two[0], changed("code", before)}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := byRelease(c.found, c.healthy); got.what != c.want {
				t.Errorf("%+v, want %q", got, c.want)
			}
		})
	}
}

func TestByModel(t *testing.T) {
	p := func(name string, change func(*party)) party {
		out := party{svc: playbook.Service{Name: name}, blocked: true}
		change(&out)
		return out
	}
	pulls := func(host string) func(*party) {
		return func(p *party) { p.pulls, p.images, p.models = true, host, "huggingface.co" }
	}
	loads := func(p *party) { p.models = "huggingface.co" }
	for name, c := range map[string]struct {
		found []party
		want  string
	}{
		"one image registry":             {[]party{p("chat", pulls("r.example")), p("code", pulls("r.example"))}, "r.example"},
		"two registries, one model host": {[]party{p("chat", pulls("r.example")), p("code", pulls("q.example"))}, "huggingface.co"},
		"one model host":                 {[]party{p("chat", loads), p("code", loads)}, "huggingface.co"},
		"all pods are ready in one":      {[]party{p("chat", loads), p("code", func(p *party) { p.blocked, p.models = false, "huggingface.co" })}, ""},
		"one model": {[]party{
			p("chat", func(p *party) { p.svc.Model = "llama" }), p("chat-long", func(p *party) { p.svc.Model = "llama" }),
		}, "llama"},
		"nothing in common": {[]party{p("chat", loads), p("code", func(*party) {})}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := byModel(c.found); got.what != c.want {
				t.Errorf("%+v, want %q", got, c.want)
			}
		})
	}
}

func TestBehindGateway(t *testing.T) {
	behind := func(gateway string, names ...string) []party {
		var out []party
		for _, n := range names {
			out = append(out, party{svc: playbook.Service{Name: n, Gateway: gateway}})
		}
		return out
	}
	for name, c := range map[string]struct {
		found, healthy []party
		want           string
	}{
		"all behind one":            {behind("edge", "chat", "code"), behind("west", "embed"), "edge"},
		"one healthy one behind it": {behind("edge", "chat", "code"), behind("edge", "embed"), "edge"},
		"most behind it are well":   {behind("edge", "chat", "code"), behind("edge", "embed", "rerank"), ""},
		"two gateways":              {append(behind("edge", "chat"), behind("west", "code")...), nil, ""},
		"none is known":             {behind("", "chat", "code"), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := behindGateway(c.found, c.healthy); got.what != c.want {
				t.Errorf("%+v, want %q", got, c.want)
			}
		})
	}
}

func TestWholeFleet(t *testing.T) {
	for _, c := range []struct {
		breach, measured int
		want             bool
	}{{2, 2, false}, {3, 6, true}, {3, 7, false}, {3, 3, true}, {40, 200, false}} {
		if got := wholeFleet(make([]party, c.breach), c.measured); (got.key() == "fleet") != c.want {
			t.Errorf("%d of %d: %+v", c.breach, c.measured, got)
		}
	}
}

func TestHotRoom(t *testing.T) {
	for name, c := range map[string]struct {
		hot  map[string][]string
		want bool
	}{
		"two services on a hot node each": {map[string][]string{"chat": {"a"}, "code": {"b"}}, true},
		"one hot node under two services": {map[string][]string{"chat": {"a"}, "code": {"a"}}, false},
		"hot nodes of this service alone": {map[string][]string{"chat": {"a", "b"}}, false},
		"others are hot, this one is not": {map[string][]string{"code": {"a"}, "embed": {"b"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := hotRoom("chat", c.hot)
			if (got.key() == "heat") != c.want {
				t.Errorf("%+v", got)
			}
			if c.want && !strings.Contains(got.text, "a (chat), b (code)") {
				t.Errorf("text %q", got.text)
			}
		})
	}
}

func TestWhereFrom(t *testing.T) {
	svc := playbook.Service{Container: "vllm"}
	for _, c := range []struct {
		fields          map[string]string
		models, imageAt string
	}{
		{map[string]string{"containers[vllm].args[--model]": "meta-llama/Llama-3.3-70B-Instruct", "containers[vllm].image": "vllm/vllm-openai:v0.11.0"}, "huggingface.co", "docker.io"},
		{map[string]string{"containers[vllm].args[--model]": "s3://models/llama", "containers[vllm].image": "registry.example:5000/vllm"}, "s3://models", "registry.example:5000"},
		{map[string]string{"containers[vllm].args[--model]": "/models/llama", "containers[vllm].image": "vllm"}, "", "docker.io"},
		{map[string]string{"containers[vllm].env[HF_ENDPOINT]": "https://hub.example/x", "containers[vllm].args[--model]": "a/b"}, "hub.example", ""},
		{nil, "", ""},
	} {
		if got := modelHost(svc, c.fields); got != c.models {
			t.Errorf("%v: models from %q, want %q", c.fields, got, c.models)
		}
		if got := imageRegistry(svc, c.fields); got != c.imageAt {
			t.Errorf("%v: images from %q, want %q", c.fields, got, c.imageAt)
		}
	}
}

// A release is not said to be missing on healthy services that were not read.
func TestReleaseWithUnreadServices(t *testing.T) {
	got := func(p *party) { p.changes = map[string]time.Time{"image vllm:v2": noon.Add(-time.Minute)} }
	found := []party{with(at("chat"), got), with(at("code"), got)}
	lost := with(at("embed"), func(p *party) { p.unread = errors.New("forbidden") })
	c := byRelease(found, []party{lost, at("rerank")})
	if c.by != "release" || !strings.Contains(c.text, "no healthy service is known to have it (1 could not be read)") {
		t.Errorf("%+v", c)
	}
}
