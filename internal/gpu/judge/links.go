package judge

import (
	"fmt"

	"github.com/inference-responder/responder/internal/gpu"
)

// Limits of DCGM's health check.
const (
	replaysPerMinute = 8        // of PCIe
	linkErrorsPerMin = 100 * 60 // CRC errors of NVLink only matter at 100 per second; one replay or recovery does
)

// growth returns how much a counter grew per minute in the recent minutes, and
// whether that is known. A counter that went down was reset.
func (u subject) growth(counter func(gpu.Counters) gpu.Reading[uint64]) (perMinute float64, known bool) {
	minutes := u.minutes(recent)
	if len(minutes) < 2 {
		return 0, false
	}
	first, ok1 := counter(minutes[0].Counters).Get()
	last, ok2 := counter(minutes[len(minutes)-1].Counters).Get()
	if !ok1 || !ok2 {
		return 0, false
	}
	if last < first {
		first = 0
	}
	return float64(last-first) / float64(len(minutes)-1), true
}

func pcie(u subject) []sign {
	var out []sign
	p := u.gpu.PCIe
	width, ok1 := p.Width.Get()
	widest, ok2 := p.WidthMax.Get()
	if ok1 && ok2 && width < widest {
		out = append(out, sign{outcome: outcome{verdict: Degraded}, text: fmt.Sprintf("PCIe runs with %d of %d lanes", width, widest), evidence: fmt.Sprintf("width=%d width_max=%d", width, widest)})
	}
	gen, ok1 := p.Generation.Get()
	best, ok2 := p.GenerationMax.Get()
	if ok1 && ok2 && gen < best {
		s := sign{outcome: outcome{verdict: Healthy}, text: fmt.Sprintf("PCIe runs as generation %d of %d, as it does to save power", gen, best), evidence: fmt.Sprintf("generation=%d generation_max=%d", gen, best)}
		if l, ok := loadOf(u.gpu); ok && l.percent >= atWork {
			s.outcome, s.text = outcome{verdict: Degraded}, fmt.Sprintf("PCIe runs as generation %d of %d under load", gen, best)
		}
		out = append(out, s)
	}
	if rate, ok := u.growth(func(c gpu.Counters) gpu.Reading[uint64] { return c.PCIeReplays }); ok && rate > replaysPerMinute {
		out = append(out, sign{
			outcome: outcome{verdict: Degraded}, text: fmt.Sprintf("%.0f PCIe replays per minute, %d is the limit", rate, replaysPerMinute),
			evidence: "replays=" + p.Replays.String(),
		})
	}
	return out
}

// linksOf counts the NVLinks that are up and those that are down.
func linksOf(g gpu.GPU) (up, down int) {
	for _, l := range g.NVLinks {
		if active, ok := l.Active.Get(); ok && active {
			up++
		} else if ok {
			down++
		}
	}
	return up, down
}

// linksDown judges NVLinks that are down. If all links of a GPU are down, it may
// be a GPU without NVLink peers, so its peers decide.
func (u subject) linksDown() []sign {
	up, down := linksOf(u.gpu)
	if down == 0 {
		return nil
	}
	s := sign{
		outcome: outcome{verdict: Degraded}, text: fmt.Sprintf("%d of %d NVLinks are down", down, up+down),
		evidence: fmt.Sprintf("active=%d inactive=%d", up, down),
	}
	if up > 0 {
		return []sign{s}
	}
	s.text = fmt.Sprintf("none of its %d NVLinks is up, while those of its peers are", down)
	s.evidence += fmt.Sprintf("; %d of %s with NVLinks up", u.peers.linked, plural(u.peers.count, "peer"))
	if u.peers.linked == 0 {
		s.verdict, s.text = Healthy, fmt.Sprintf("none of its %d NVLinks is up, nor are those of a peer", down)
	}
	return []sign{s}
}

// failedRecoveries returns how many recoveries of links failed, if NVLink counts
// them.
func failedRecoveries(g gpu.GPU) string {
	failed := g.LinkErrors(func(l gpu.NVLink) []gpu.Reading[uint64] { return []gpu.Reading[uint64]{l.RecoveryFailed} })
	if _, known := failed.Get(); !known {
		return ""
	}
	return ", of which failed recoveries " + failed.String()
}

func nvlink(u subject) []sign {
	out := u.linksDown()
	now := u.gpu.Counters()
	if rate, ok := u.growth(func(c gpu.Counters) gpu.Reading[uint64] { return c.NVLinkReplays }); ok && rate > 0 {
		out = append(out, sign{
			outcome: outcome{verdict: Degraded}, text: fmt.Sprintf("%.3g NVLink replays, recoveries or integrity errors per minute", rate),
			evidence: "nvlink_replays=" + now.NVLinkReplays.String() + failedRecoveries(u.gpu),
		})
	}
	if rate, ok := u.growth(func(c gpu.Counters) gpu.Reading[uint64] { return c.NVLinkCRC }); ok && rate > 0 {
		s := sign{outcome: outcome{verdict: Healthy}, text: fmt.Sprintf("%.3g NVLink CRC errors per minute, which the links correct", rate), evidence: "nvlink_crc=" + now.NVLinkCRC.String()}
		if rate >= linkErrorsPerMin {
			s.outcome, s.text = outcome{verdict: Degraded}, fmt.Sprintf("%.0f NVLink CRC errors per minute, %d is the limit", rate, linkErrorsPerMin)
		}
		out = append(out, s)
	}
	return out
}

func fabric(u subject) []sign {
	f := u.gpu.Fabric
	state, ok := f.State.Get()
	if !ok || state == gpu.FabricNotSupported {
		return nil
	}
	evidence := fmt.Sprintf("state=%d status=%s health=%s", state, f.Status, f.Health)
	switch state {
	case gpu.FabricNotStarted, gpu.FabricInProgress:
		return []sign{{outcome: outcome{verdict: Degraded}, text: "the GPU has not joined its NVLink fabric: CUDA does not start there", evidence: evidence}}
	case gpu.FabricCompleted:
	default:
		return []sign{{outcome: outcome{verdict: Uncertain}, text: fmt.Sprintf("unknown NVLink fabric state %d", state), evidence: evidence}}
	}
	if status, ok := f.Status.Get(); ok && status != 0 {
		return []sign{{outcome: outcome{verdict: Failing}, text: fmt.Sprintf("joining the NVLink fabric failed with NVML status %d", status), evidence: evidence}}
	}
	return fabricHealth(f, evidence)
}

// fabricFindings are the fields of NVML's fabric health mask and the values that
// mean a fault. Other known values mean health.
var fabricFindings = []struct {
	shift, width int64
	bad          map[int64]string
	last         int64 // value that nvml.h knows
}{
	{0, 0x3, map[int64]string{1: "the NVLink fabric has less bandwidth than it should"}, 2},
	{2, 0x3, map[int64]string{1: "a route of the NVLink fabric is being recovered"}, 2},
	{4, 0x3, map[int64]string{1: "a route of the NVLink fabric is broken"}, 2},
	{6, 0x3, map[int64]string{1: "the NVLink fabric recovers from a time-out of an access"}, 2},
	{8, 0xf, map[int64]string{
		2: "the NVLink fabric is wrongly configured: system GUID", 3: "the NVLink fabric is wrongly configured: serial number of the chassis",
		4: "the NVLink fabric is wrongly configured: no partition", 5: "the NVLink fabric is wrongly configured: too few NVLinks",
	}, 5},
}

// fabricHealth reads the health mask. Values that nvml.h does not define are
// unknown.
func fabricHealth(f gpu.Fabric, evidence string) []sign {
	health, ok := f.Health.Get()
	if !ok {
		return nil
	}
	var out []sign
	rest := health
	for _, p := range fabricFindings {
		value := health >> p.shift & p.width
		rest &^= p.width << p.shift
		if text := p.bad[value]; text != "" {
			out = append(out, sign{outcome: outcome{verdict: Degraded}, text: text, evidence: evidence})
		}
		if value > p.last {
			rest |= value << p.shift
		}
	}
	if rest != 0 {
		out = append(out, sign{outcome: outcome{verdict: Uncertain}, text: fmt.Sprintf("the NVLink fabric's health mask has unknown bits: 0x%x", rest), evidence: evidence})
	}
	return out
}
