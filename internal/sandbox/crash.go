package sandbox

import (
	"time"

	"github.com/inference-responder/responder/internal/kube"
)

// death is why the process of an engine ended.
type death string

const (
	cudaMemory death = "cuda-memory" // an allocation on the GPU fails: the process ends with an error
	hostMemory death = "host-memory" // the kernel kills it at its memory limit: OOMKilled
	failure    death = "error"       // anything else
)

// How the kubelet starts a container again, as Kubernetes documents it: at once, then
// after ten seconds, twice as long each time and five minutes at most. A container that
// ran for ten minutes begins anew.
const (
	backOffFirst = 10 * time.Second
	backOffMost  = 5 * time.Minute
	backOffReset = 10 * time.Minute
)

// crash ends the process of a pod's engine. Its requests fail, and it loads its model
// again.
func (f *fleet) crash(p *pod, why death, at time.Time) {
	if p.engine != nil {
		p.engine.Crash()
	}
	if p.ready && at.Sub(p.loaded) >= backOffReset {
		p.crashes = 0
	}
	wait := time.Duration(0)
	if p.crashes > 0 {
		wait = min(backOffMost, backOffFirst<<min(p.crashes-1, 10))
	}
	p.ended = &kube.Ended{Container: f.spec.service.Container, Reason: "Error", ExitCode: 1, Began: p.again, At: at, Message: lastWords(why, p.ready), Served: kube.ServedNo}
	if p.ended.Began.IsZero() {
		p.ended.Began = p.created
	}
	if p.ready {
		p.ended.Served = kube.ServedYes
	}
	if why == hostMemory {
		p.ended.Reason, p.ended.ExitCode, p.ended.MemoryLimit = "OOMKilled", 137, hostLimit
	}
	p.crashes++
	p.restarts++
	p.ready, p.died, p.again = false, why, at.Add(wait)
	p.loaded = p.again.Add(f.loads(p, uint64(p.restarts)))
	if wait > 0 {
		f.warn("BackOff", "Pod/"+p.name, "Back-off restarting failed container "+f.spec.service.Container, at)
	}
}

// hostLimit is the memory that an engine's container may use on its host.
const hostLimit = 256 << 30

// lastWords returns what a process prints as it ends: the kubelet keeps it where the
// container's termination message falls back to its log.
func lastWords(why death, served bool) string {
	switch {
	case why == hostMemory:
		return "" // it is killed
	case why == cudaMemory && served:
		return "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.64 GiB. GPU 0 has a total capacity of 79.19 GiB of which 1.12 GiB is free."
	case why == cudaMemory:
		return "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."
	default:
		return "RuntimeError: Engine core initialization failed. See root cause above."
	}
}

// loads returns how long a pod loads its model, on its nth start.
func (f *fleet) loads(p *pod, n uint64) time.Duration {
	load := f.spec.loading
	if load == 0 {
		load = time.Duration(f.spec.hardware.Load(diskRate) * float64(time.Second))
	}
	load += time.Duration(f.rng.unit("load", nameHash(p.name)+n) * float64(loadSpread))
	return load.Round(time.Second)
}

// doomed returns why an engine ends as soon as it has read its weights; empty: it starts.
func (f *fleet) doomed(p *pod) death {
	if p.set.image.dies != "" {
		return p.set.image.dies
	}
	d := f.dialect()
	flags := d.flags(args{d.name, p.set.fields}).WithDefaults()
	if f.spec.hardware.Blocks(flags.GPUMemoryUtilization, flags.BlockSize) == 0 {
		return cudaMemory
	}
	return ""
}

// sickenAgain lets those die again that die some time after each start.
func (f *fleet) sickenAgain(at time.Time) {
	for _, p := range f.pods {
		if p.ready && p.diesAfter > 0 && at.Sub(p.loaded) >= p.diesAfter {
			f.crash(p, p.diesOf, at)
		}
		if p.ready && p.engine != nil && p.engine.OutOfMemory() {
			f.crash(p, cudaMemory, at)
		}
	}
}

// container sets what Kubernetes shows of a pod's container after it died.
func (p *pod) container(out *kube.Pod, at time.Time) {
	out.Restarts, out.OOMKilled = p.restarts, p.died == hostMemory
	if p.ended != nil {
		ended := *p.ended
		ended.Again = !at.Before(p.again)
		out.Ended = &ended
	}
	if p.restarts > 0 && at.Before(p.again) {
		out.Waiting = "CrashLoopBackOff"
	}
}
