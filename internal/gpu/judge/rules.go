package judge

import (
	"fmt"

	"github.com/inference-responder/responder/internal/gpu"
)

// rule looks at one property of a GPU or a node. Rules are independent, and the
// worst sign is the verdict: one more sign never makes it milder.
type rule struct {
	id     string
	source string
	look   func(subject) []sign
}

// Sources of rules.
const (
	sourceNVML  = "nvml.h 13.0"
	sourceDCGM  = "DCGM, gpu_hardware_limits.h"
	sourceRows  = "NVIDIA GPU memory error management, docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt"
	sourcePages = "NVIDIA dynamic page retirement, docs.nvidia.com/deploy/dynamic-page-retirement"
	sourceOwn   = "unknown is not healthy"
	sourcePeers = "comparison with GPUs of the same product that do the same work"
)

// nodeRules are about a node as a whole.
var nodeRules = []rule{
	{"node-readable", sourceOwn, nodeReadable},
	{"gpus-present", "count of GPUs against the PCI bus", gpusPresent},
}

// gpuRules are the rules for a GPU. Equally bad reasons keep this order.
var gpuRules = []rule{
	{"gpu-lost", "nvml.h 13.0, NVML_ERROR_GPU_IS_LOST", gpuLost},
	{"needs-reset", "nvml.h 13.0, NVML_ERROR_RESET_REQUIRED", gpuNeedsReset},
	{"xid", xidCatalog, xidSeen},
	{"event", "nvml.h 13.0, nvmlEventType", eventSeen},
	{"recovery-action", "nvml.h 13.0, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", recoveryAsked},
	{"ecc-uncorrectable", sourceRows, eccUncorrectable},
	{"memory-repair", sourceRows, memoryRepair},
	{"retired-pages", sourcePages + "; " + sourceDCGM, retiredPages},
	{"throttle", "nvml.h 13.0, nvmlClocksEventReasons", throttling},
	{"temperature", "nvml.h 13.0, nvmlTemperatureThresholds", temperature},
	{"pcie", sourceDCGM, pcie},
	{"nvlink", sourceDCGM, nvlink},
	{"fabric", "nvml.h 13.0, nvmlGpuFabricInfo", fabric},
	{"slower-than-peers", sourcePeers, slowerThanPeers},
	{"one-node", "a UUID is of one GPU", onOneNode},
	{"fresh", sourceOwn, fresh},
	{"history", sourceOwn, enoughHistory},
	{"needed", sourceOwn, needed},
	{"divided", "nvml.h 13.0, on MIG-enabled GPUs", divided},
	{"readable", sourceOwn, readable},
	{"plausible", sourceOwn, plausible},
	{"new-reason", "nvml.h 13.0: new reasons might be added", newReason},
	{"busy", "nvml.h 13.0, nvmlClocksEventReasonSwPowerCap", busy},
}

// memoryFlag is a reading that is bad when it is true.
type memoryFlag struct {
	name string
	get  func(gpu.GPU) gpu.Reading[bool]
	outcome
	text string
}

var memoryFlags = []memoryFlag{
	{"rows.failed", func(g gpu.GPU) gpu.Reading[bool] { return g.Rows.Failed }, outcome{verdict: Failing, rma: true}, "a memory row could not be remapped: no spare row is left"},
	{"ecc.sram_threshold_exceeded", func(g gpu.GPU) gpu.Reading[bool] { return g.ECC.SRAMThresholdExceeded }, outcome{verdict: Failing, rma: true}, "uncorrectable errors in SRAM are past the threshold for replacement"},
	{"rows.pending", func(g gpu.GPU) gpu.Reading[bool] { return g.Rows.Pending }, outcome{verdict: Degraded, reset: true}, "a memory row waits for a reset to be remapped"},
	{"pages.pending", func(g gpu.GPU) gpu.Reading[bool] { return g.Pages.Pending }, outcome{verdict: Degraded, reset: true}, "a memory page waits for a reset to be retired"},
	{"rows.channel_repair_pending", func(g gpu.GPU) gpu.Reading[bool] { return g.Rows.ChannelRepairPending }, outcome{verdict: Degraded, reset: true}, "a memory channel waits for a reset to be repaired"},
	{"rows.tpc_repair_pending", func(g gpu.GPU) gpu.Reading[bool] { return g.Rows.TPCRepairPending }, outcome{verdict: Degraded, reset: true}, "a processor cluster waits for a reset to be repaired"},
}

// recoveryOutcome is what each recovery action of the driver means.
var recoveryOutcome = map[gpu.RecoveryAction]struct {
	outcome
	text string
}{
	gpu.RecoveryNone:          {outcome{verdict: Healthy}, ""},
	gpu.RecoveryReset:         {outcome{verdict: Failing, reset: true}, "the driver asks for a reset of the GPU"},
	gpu.RecoveryReboot:        {outcome{verdict: Failing, reset: true}, "the driver asks for a reboot of the node"},
	gpu.RecoveryDrainP2P:      {outcome{verdict: Degraded}, "the driver asks to stop peer traffic over NVLink"},
	gpu.RecoveryDrainAndReset: {outcome{verdict: Failing, reset: true}, "the driver asks to drain the GPU and reset it"},
}

func recoveryAsked(u subject) []sign {
	action, ok := u.gpu.Recovery.Get()
	if !ok || action == gpu.RecoveryNone {
		return nil
	}
	evidence := fmt.Sprintf("recovery_action=%d", action)
	o, known := recoveryOutcome[action]
	if !known {
		return []sign{{outcome: outcome{verdict: Uncertain}, text: fmt.Sprintf("the driver asks for unknown recovery action %d", action), evidence: evidence}}
	}
	return []sign{{outcome: o.outcome, text: o.text, evidence: evidence}}
}
