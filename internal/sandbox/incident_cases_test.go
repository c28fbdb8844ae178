package sandbox

import (
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
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
		Name: "traffic-burst", Cause: "saturated|traffic", Right: []string{"kube.scale"}, Outcome: "resolved", Bad: 6, Gap: "harm runs minutes",
		world: trafficBurst(),
	}
}

// benchBlip: a burst of a minute, of which a rule over a minute tells at once.
func benchBlip() Incident {
	w := chatWorld(21, 0, func(chat *serviceSpec) {
		chat.traffic = []shift{{from: 0, factor: 3.5}, {from: time.Minute, factor: 1}}
	})
	w.rules = []rule{{"InferenceTTFTFastBurn", "inference-ttft", "TTFT", "vllm:time_to_first_token_seconds", "", "0.5", "1m", "1m", "13.44", "2%"}}
	return Incident{Name: "blip", Outcome: "no-action", Bad: 2, Over: time.Minute, Gap: "lever harm outcome", world: w}
}

// benchHarmlessRelease: traffic is 2.4 times normal, and ten minutes ago the log
// level was changed.
func benchHarmlessRelease() Incident {
	return Incident{
		Name: "harmless-release", Cause: "saturated|traffic", Right: []string{"kube.scale"}, Outcome: "resolved", Bad: 6, Gap: "harm runs",
		world: chatWorld(22, 6*time.Minute, func(chat *serviceSpec) {
			chat.replicas, chat.rate = 3, 5.4
			chat.traffic = []shift{{from: -6 * time.Minute, factor: 2.4}}
			chat.revisions = append(chat.revisions, revisionSpec{
				age: 10 * time.Minute, cause: "quieter logs",
				fields: chatTemplate(map[string]string{"containers[vllm].args[--uvicorn-log-level]": "warning"}),
				engine: healthyEngine(),
			})
		}),
	}
}

// benchHotRoom: the cooling of a room with five services fails.
func benchHotRoom() Incident {
	w := scenario{seed: 23, age: 7 * time.Minute, nodes: gpuNodes(), gpuAlerts: true}
	for i := range 5 {
		s := chatService()
		name := fmt.Sprintf("inference-%c", 'a'+i)
		s.service.Name, s.service.Workload.Name = "serving/"+name, name
		s.service.Endpoint = fmt.Sprintf("http://%s.serving.sandbox:8000", name)
		s.service.Selector = fmt.Sprintf(`namespace="serving",service=%q,model_name="llama-70b"`, name)
		s.service.Autonomy, s.replicas, s.rate = playbook.Suggest, 3, 4.3
		w.services = append(w.services, s)
	}
	for i := range w.nodes {
		for slot := range w.nodes[i].slots {
			w.nodes[i].ailments = append(w.nodes[i].ailments, ailment{gpu: slot*gpusPerSlot + i%gpusPerSlot, from: -w.age, kind: hot, drag: 7})
		}
	}
	return Incident{
		Name: "hot-room", Cause: "room|cooling", Outcome: "escalated", Bad: 5 * 45, Red: true, Gap: "runs",
		world: w,
	}
}
