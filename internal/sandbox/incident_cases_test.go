package sandbox

import (
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox/physics"
)

// chatWorld is a world with the chat service, its neighbour and enough nodes.
func chatWorld(seed uint64, age time.Duration, change func(chat *serviceSpec)) scenario {
	chat := chatService()
	change(&chat)
	return scenario{seed: seed, age: age, services: []serviceSpec{chat, codeService()}, nodes: gpuNodes()}
}

// benchBadRelease: every first token comes late since a release.
func benchBadRelease() Incident {
	return Incident{
		Name: "bad-release", Cause: "release|revision 3|change", Right: []string{"kube.rollout_undo"}, Outcome: "resolved", Bad: 6,
		world: badRollout(),
	}
}

// benchBurst: three times the traffic, and it stays.
func benchBurst() Incident {
	return Incident{
		Name: "traffic-burst", Cause: "saturated|traffic", Right: []string{"kube.scale"}, Outcome: "resolved", Bad: 6,
		world: trafficBurst(),
	}
}

// benchBlip: a burst of a minute, of which a rule over a minute tells at once.
func benchBlip() Incident {
	w := chatWorld(21, 0, func(chat *serviceSpec) {
		chat.traffic = []shift{{from: 0, factor: 3.5}, {from: time.Minute, factor: 1}}
	})
	w.rules = []rule{{"InferenceTTFTFastBurn", "inference-ttft", "TTFT", "vllm:time_to_first_token_seconds", "", "0.5", "1m", "1m", "13.44", "2%", ""}}
	return Incident{Name: "blip", Outcome: "cleared", Bad: 2, Over: time.Minute, world: w}
}

// benchHarmlessRelease: traffic is 2.4 times normal, and ten minutes ago the log
// level was changed.
func benchHarmlessRelease() Incident {
	return Incident{
		Name: "harmless-release", Cause: "saturated|traffic", Right: []string{"kube.scale"}, Outcome: "resolved", Bad: 6,
		world: chatWorld(22, 6*time.Minute, func(chat *serviceSpec) {
			chat.replicas, chat.load.Rate = 3, 5.4
			chat.traffic = []shift{{from: -6 * time.Minute, factor: 2.4}}
			chat.revisions = append(chat.revisions, revisionSpec{
				age: 10 * time.Minute, cause: "quieter logs",
				fields: chatTemplate(map[string]string{"containers[vllm].args[--uvicorn-log-level]": "warning"}),
			})
		}),
	}
}

// benchHotRoom: the cooling of a room with five services fails.
func benchHotRoom() Incident {
	w := scenario{seed: 23, age: 7 * time.Minute, nodes: gpuNodes(), gpuAlerts: true, services: manyServices(5)}
	for i := range w.nodes {
		for slot := range w.nodes[i].slots {
			w.nodes[i].ailments = append(w.nodes[i].ailments, ailment{gpu: slot*gpusPerSlot + i%gpusPerSlot, from: -w.age, kind: hot, drag: 7})
		}
	}
	return Incident{
		Name: "hot-room", Cause: "room|cooling", Outcome: "watching", Notices: 1, Bad: 5 * 45, Red: true, Gap: "runs",
		world: w,
	}
}

// badly releases a revision with that image, age before the world opens.
func badly(chat *serviceSpec, age time.Duration, bad image) {
	chat.revisions = append(chat.revisions, revisionSpec{
		age: age, cause: "release 2026.47",
		fields: chatTemplate(map[string]string{"containers[vllm].image": "vllm/vllm-openai:v0.11.1"}), image: bad,
	})
}

// benchBadAndSaturated: a bad release, and 2.7 times the traffic: both have to be
// repaired.
func benchBadAndSaturated() Incident {
	return Incident{
		Name: "bad-and-saturated", Cause: "release|change", Right: []string{"kube.rollout_undo", "kube.scale"}, Outcome: "resolved", Bad: 27,
		world: chatWorld(24, 12*time.Minute, func(chat *serviceSpec) {
			badly(chat, 12*time.Minute, lateImage())
			chat.traffic = []shift{{from: -12 * time.Minute, factor: 2.7}}
		}),
	}
}

// benchSlowLoad: the rollback loads its model for twelve minutes.
func benchSlowLoad() Incident {
	return Incident{Name: "slow-load", Cause: "release|change", Right: []string{"kube.rollout_undo"}, Outcome: "resolved", Bad: 18, world: slowLoad()}
}

// benchErrors: a third of the requests fail since a release; those that do not are
// fast.
func benchErrors() Incident {
	w := chatWorld(25, 8*time.Minute, func(chat *serviceSpec) {
		badly(chat, 8*time.Minute, image{failures: 0.33})
		chat.service.SLOs = append(slices.Clone(chat.service.SLOs), playbook.SLO{Name: "errors", Objective: 0.99, Window: 28 * 24 * time.Hour})
	})
	ratio := func(window string) string {
		return fmt.Sprintf(`sum by (namespace, service, model_name) (rate(vllm:request_success_total{finished_reason="error"}[%[1]s])) / sum by (namespace, service, model_name) (rate(vllm:request_success_total[%[1]s]))`, window)
	}
	w.rules = append(rules(), rule{alert: "InferenceErrorsFastBurn", slo: "inference-errors", what: "errors", short: "5m", long: "1h", whole: ratio("5m") + " > 0.1344"})
	return Incident{Name: "errors", Cause: "release|change", Right: []string{"kube.rollout_undo"}, Outcome: "resolved", Bad: 7, world: w}
}

// benchTwoAlerts: a release that is slow in both ways; the second alert comes two
// minutes after the first.
func benchTwoAlerts() Incident {
	return Incident{
		Name: "two-alerts", Cause: "release|change", Right: []string{"kube.rollout_undo"}, Outcome: "resolved", Bad: 7,
		world: chatWorld(26, 12*time.Minute, func(chat *serviceSpec) {
			badly(chat, 12*time.Minute, image{chunk: lateImage().chunk, memory: 3.6})
			chat.decodes = []shift{{from: -12 * time.Minute, factor: 0.3}, {from: -8 * time.Minute, factor: 1}}
		}),
	}
}

// benchLeaves: the traffic leaves during the proof of the rollback.
func benchLeaves() Incident {
	return Incident{Name: "traffic-leaves", Cause: "release|change", Right: []string{"kube.rollout_undo"}, Outcome: "escalated", Bad: 6, world: noTraffic()}
}

// benchNoisy: 0.8 % of the requests are always slow, within the objective: a
// rollback to that is proven.
func benchNoisy() Incident {
	return Incident{
		Name: "noisy", Cause: "release|change", Right: []string{"kube.rollout_undo"}, Outcome: "resolved", Bad: 6,
		world: chatWorld(27, 12*time.Minute, func(chat *serviceSpec) {
			chat.load.Prompt.Sigma = 0.95
			badly(chat, 12*time.Minute, lateImage())
		}),
	}
}

// benchTwoSeconds: somebody's rule of 500 ms, and an objective of 2.5 s that is met.
func benchTwoSeconds() Incident {
	return Incident{Name: "two-seconds", Outcome: "no-action", Runs: 2, world: twoSeconds()}
}

// benchRamp: traffic that grows to three times the usual within an hour.
func benchRamp() Incident {
	return Incident{
		Name: "slow-ramp", Cause: "saturated|traffic", Right: []string{"kube.scale"}, Outcome: "resolved", Bad: 15,
		world: chatWorld(28, 40*time.Minute, func(chat *serviceSpec) {
			for k := range 15 {
				chat.traffic = append(chat.traffic, shift{from: time.Duration(-40+4*k) * time.Minute, factor: 2.3 + float64(k)*0.05})
			}
		}),
	}
}

// benchAtMaximum: a service that is saturated and has all the replicas it may have.
func benchAtMaximum() Incident {
	return Incident{
		Name: "at-maximum", Gap: "runs", Cause: "max_scale|most it may|maximum", Outcome: "escalated", Bad: 45, Red: true,
		world: chatWorld(29, 5*time.Minute, func(chat *serviceSpec) {
			chat.service.MaxScale = chat.replicas
			chat.traffic = []shift{{from: -5 * time.Minute, factor: 3}}
		}),
	}
}

// benchNoGPUs: no node has room for more replicas.
func benchNoGPUs() Incident {
	w := chatWorld(30, 5*time.Minute, func(chat *serviceSpec) {
		chat.traffic = []shift{{from: -5 * time.Minute, factor: 3}}
	})
	w.nodes = w.nodes[:3]
	return Incident{Name: "no-gpus", Cause: "no node takes", May: []string{"kube.scale"}, Outcome: "escalated", Bad: 45, Red: true, world: w}
}

// benchDecode: tokens come slowly because batches are large.
func benchDecode() Incident {
	return Incident{
		Name: "decode-bound", Cause: "saturated|decode|batch|load", Right: []string{"kube.scale"}, Outcome: "resolved", Bad: 7,
		world: chatWorld(31, 50*time.Minute, func(chat *serviceSpec) {
			chat.hardware.KVToken *= 4 // more KV heads, and a long context that every token reads
			chat.load.Prompt, chat.load.Shared = physics.Length{Mean: 7400, Sigma: 0.05}, 6700
			for i := range chat.revisions {
				chat.revisions[i].fields["containers[vllm].args[--max-num-seqs]"] = "64"
			}
			chat.traffic = []shift{{from: -50 * time.Minute, factor: 2}}
		}),
	}
}

// benchCache: long prompts do not fit into the KV cache; requests are preempted.
func benchCache() Incident {
	w := kvThrash()
	w.engineAlerts = false // only the objective's alert tells
	return Incident{Name: "kv-thrash", Cause: "kv|cache|preempt", Right: []string{"kube.scale"}, Outcome: "resolved", Bad: 8, world: w}
}

// benchComing: three times the traffic, and somebody has scaled a minute ago.
func benchComing() Incident {
	return Incident{
		Name: "replicas-coming", Cause: "replicas on their way|loading", Outcome: "cleared", Bad: 4,
		world: chatWorld(33, 5*time.Minute, func(chat *serviceSpec) {
			chat.loading = 2 * time.Minute
			chat.traffic = []shift{{from: -5 * time.Minute, factor: 3}}
			chat.scaled = []scaling{{-40 * time.Second, 8}}
		}),
	}
}

// benchClears: the alert resolves by itself while the approval waits.
func benchClears() Incident {
	return Incident{
		Name: "clears-meanwhile", Outcome: "cleared", Bad: 3, Over: 2 * time.Minute, Approvals: 12 * time.Minute,
		world: chatWorld(34, 5*time.Minute, func(chat *serviceSpec) {
			chat.traffic = []shift{{from: -5 * time.Minute, factor: 3}, {from: 2 * time.Minute, factor: 1}}
		}),
	}
}

// benchAway: Prometheus is away for 20 s while the run looks, and during the proof.
func benchAway() Incident {
	w := trafficBurst()
	w.away = []span{{0, 20 * time.Second}, {3 * time.Minute, 200 * time.Second}}
	return Incident{Name: "prometheus-away", Cause: "saturated|traffic", Right: []string{"kube.scale"}, Outcome: "resolved", Bad: 7, world: w}
}

// benchStuck: one replica of four takes requests and no step; their clients try
// again, which is too much for the others.
func benchStuck() Incident {
	return Incident{
		Name: "stuck-replica", Cause: "no step|stuck", Right: []string{"pod.evict"}, Outcome: "resolved", Bad: 10,
		world: chatWorld(35, 8*time.Minute, func(chat *serviceSpec) {
			chat.load.Rate = 11.8
			chat.sick = []sickness{{from: -8 * time.Minute, pod: 1, stuck: true}}
		}),
	}
}

// benchAllStuck: every replica takes requests and no step. No histogram shows it.
func benchAllStuck() Incident {
	w := chatWorld(36, 8*time.Minute, func(chat *serviceSpec) {
		chat.sick = []sickness{{from: -8 * time.Minute, pod: -1, stuck: true}}
	})
	w.rules = append(rules(), rule{
		alert: "InferenceStalled", slo: "inference-progress", what: "progress",
		whole: "sum by (namespace, service, model_name) (rate(vllm:iteration_tokens_total_count[5m])) == 0 and sum by (namespace, service, model_name) (vllm:num_requests_running + vllm:num_requests_waiting) > 0",
	})
	return Incident{Name: "all-stuck", Cause: "no step|stuck|progress", Outcome: "escalated", Bad: 45, Red: true, world: w}
}

// benchHangs: three times the traffic, and one request in six never finishes: more
// replicas do not make that well.
func benchHangs() Incident {
	return Incident{
		Name: "one-in-six-hangs", Cause: "never finish|hang|unfinished", Right: []string{"kube.scale"}, Outcome: "escalated", Bad: 45, Red: true,
		world: chatWorld(37, 5*time.Minute, func(chat *serviceSpec) {
			chat.sick = []sickness{{from: -20 * time.Minute, pod: -1, hangs: 1.0 / 6}}
			chat.traffic = []shift{{from: -5 * time.Minute, factor: 3.5}}
		}),
	}
}

// benchSlowReplica: one replica of four is slow, and no GPU shows why.
func benchSlowReplica() Incident {
	return Incident{
		Name: "slow-replica", Cause: "one replica|slow replica|inference-chat-[a-z0-9]+-[a-z0-9]+", Right: []string{"pod.evict"}, Outcome: "resolved", Bad: 8,
		world: chatWorld(38, 40*time.Minute, func(chat *serviceSpec) {
			chat.sick = []sickness{{from: -40 * time.Minute, pod: 2, slow: 10}}
		}),
	}
}

// benchGPU: one GPU fails.
func benchGPU() Incident {
	return Incident{Name: "gpu-fault", Cause: "GPU 3 on node|ECC", Right: []string{"node.drain"}, May: []string{"gpu.reset_request"}, Outcome: "resolved", Bad: 4, world: gpuFault()}
}

// benchGPUAndBurst: one GPU fails, and the traffic is three times the usual.
func benchGPUAndBurst() Incident {
	w := gpuFault()
	w.services[0].traffic = []shift{{from: -6 * time.Minute, factor: 3}}
	return Incident{
		Name: "gpu-and-burst", Cause: "GPU 3 on node|ECC", Right: []string{"node.drain", "kube.scale"}, May: []string{"gpu.reset_request"}, Outcome: "resolved", Bad: 15,
		world: w,
	}
}

// benchSlowSuccessor: the pod that replaces the drained one loads for eight minutes.
func benchSlowSuccessor() Incident {
	w := gpuFault()
	w.services[0].loading, w.services[0].service.LoadTime = 8*time.Minute, 10*time.Minute
	return Incident{Name: "slow-successor", Cause: "GPU 3 on node|ECC", Right: []string{"node.drain"}, May: []string{"gpu.reset_request"}, Outcome: "resolved", Bad: 4, world: w}
}

// benchHot: one GPU is too hot.
func benchHot() Incident {
	return Incident{Name: "hot-node", Cause: "too hot|thermal", Right: []string{"node.drain"}, Outcome: "resolved", Bad: 4, world: thermalEmergency()}
}
