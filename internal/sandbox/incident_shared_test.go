package sandbox

import (
	"fmt"

	"github.com/inference-responder/responder/internal/playbook"
)

// manyServices returns copies of the chat service, by their letters.
func manyServices(n int) []serviceSpec {
	var out []serviceSpec
	for i := range n {
		s := chatService()
		name := fmt.Sprintf("inference-%c", 'a'+i)
		s.service.Name, s.service.Workload.Name = "serving/"+name, name
		s.service.Endpoint = fmt.Sprintf("http://%s.serving.sandbox:8000", name)
		s.service.Selector = fmt.Sprintf(`namespace="serving",service=%q,model_name="llama-70b"`, name)
		s.service.Autonomy, s.replicas, s.load.Rate = playbook.Suggest, 3, 4.3
		out = append(out, s)
	}
	return out
}

// benchSharedRelease: one bad image reached three of five services.
func benchSharedRelease() Incident {
	w := scenario{seed: 41, age: rolloutAge, nodes: gpuNodes(), services: manyServices(5)}
	for i := range 3 {
		w.services[i].revisions = append(w.services[i].revisions, revisionSpec{
			age: rolloutAge, cause: "platform image 2026.47",
			fields: chatTemplate(map[string]string{"containers[vllm].image": "vllm/vllm-openai:v0.11.1"}),
			image:  lateImage(),
		})
	}
	return Incident{
		Name: "shared-release", Cause: "image vllm/vllm-openai:v0.11.1", Outcome: "watching", Notices: 1, Bad: 3 * 45, Red: true, Gap: "runs",
		world: w,
	}
}
