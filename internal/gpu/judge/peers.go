package judge

import (
	"slices"
	"sort"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
)

// fleet is the part of all snapshots that GPUs are compared with. It is built
// once: comparing each GPU with all others by their histories would take minutes
// for some hundred nodes.
type fleet struct {
	products map[string]*group // by product name; all nodes
	sites    map[site]*group
	nodes    map[string][]int // by UUID: the snapshots that have such a GPU with fresh readings
}

// site identifies the GPUs of one product on one node.
type site struct {
	product string
	node    int // index of its snapshot
}

// group is the GPUs of one product with fresh readings. Readings from before a GPU
// fell silent do not count.
type group struct {
	all    []peer
	linked int     // of these, with an NVLink up
	clocks []int64 // of those that are at work: means of the last minutes in MHz, sorted
}

// peer is what comparisons need of one GPU.
type peer struct {
	uuid    string
	mhz     int64
	working bool // so that its clock can be compared
	linked  bool
}

// peers summarises the GPUs that one GPU is compared with.
type peers struct {
	count   int
	linked  int   // of these, with an NVLink up
	working int   // of these, whose clocks can be compared
	median  int64 // of their clocks, in MHz
}

func newFleet(now time.Time, snaps []gpu.Snapshot) *fleet {
	f := &fleet{products: map[string]*group{}, sites: map[site]*group{}, nodes: map[string][]int{}}
	for i, s := range snaps {
		for _, g := range s.GPUs {
			if len(fresh(subject{snap: s, gpu: g, now: now})) > 0 {
				continue
			}
			believed, _ := believe(g)
			l, known := loadOf(believed)
			up, _ := linksOf(g)
			p := peer{uuid: g.UUID, mhz: l.mhz, working: known && l.worked, linked: up > 0}
			in(f.products, g.Name).add(p)
			in(f.sites, site{g.Name, i}).add(p)
			f.nodes[g.UUID] = append(f.nodes[g.UUID], i)
		}
	}
	for _, g := range f.products {
		slices.Sort(g.clocks)
	}
	for _, g := range f.sites {
		slices.Sort(g.clocks)
	}
	return f
}

// in returns the group of a key and creates it if it is missing.
func in[K comparable](groups map[K]*group, key K) *group {
	if groups[key] == nil {
		groups[key] = &group{}
	}
	return groups[key]
}

func (g *group) add(p peer) {
	g.all = append(g.all, p)
	if p.linked {
		g.linked++
	}
	if p.working {
		g.clocks = append(g.clocks, p.mhz)
	}
}

// peersOf returns what a GPU of a snapshot is compared with: GPUs of the same
// product on other nodes, or else the others of the same node. The cost does not
// grow with the number of distinct highest clocks that agents report.
func (f *fleet) peersOf(g gpu.GPU, own int) peers {
	most, _ := g.Clocks.SMMaxMHz.Get()
	all, here := in(f.products, g.Name), in(f.sites, site{g.Name, own})
	if len(all.all) > len(here.all) {
		return all.without(here, most)
	}
	var others group
	for _, p := range here.all {
		if p.uuid != g.UUID {
			others.add(p)
		}
	}
	slices.Sort(others.clocks)
	return others.without(&group{}, most)
}

// without summarises a group except some members, for a GPU with that highest
// clock (0: not known). Clocks above what the product can run at are ignored.
func (g *group) without(some *group, most int64) peers {
	believed := func(clocks []int64) []int64 {
		return clocks[:sort.Search(len(clocks), func(i int) bool { return most > 0 && float64(clocks[i]) > beyond*float64(most) })]
	}
	clocks, out := believed(g.clocks), believed(some.clocks)
	p := peers{count: len(g.all) - len(some.all), linked: g.linked - some.linked, working: len(clocks) - len(out)}
	if p.working == 0 {
		return p
	}
	middle := p.working / 2
	for _, c := range out { // each one that is left out and not above it moves it up
		if c > clocks[middle] {
			break
		}
		middle++
	}
	p.median = clocks[middle]
	return p
}

// twinOf returns another node whose fresh readings include this very GPU; empty if
// none of the nodes judged together has it.
func (f *fleet) twinOf(g gpu.GPU, own int, snaps []gpu.Snapshot) string {
	for _, i := range f.nodes[g.UUID] {
		if i != own && snaps[i].Node != snaps[own].Node {
			return snaps[i].Node
		}
	}
	return ""
}
