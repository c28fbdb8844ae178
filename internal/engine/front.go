package engine

import "slices"

// A server in front of an engine has few flags of its own, which set what it
// serves and where it belongs. A run changes none of them. All other flags
// belong to the engine behind it.
const (
	dynamoSource = "Dynamo v1.4, vLLM and runtime configuration: a worker takes its engine's flags besides its own"
	kserveSource = "KServe, python/huggingfaceserver/huggingfaceserver/__main__.py at 00397f1e8: it takes vLLM's flags besides its own"
)

func dynamoFixed() []Flag {
	return fixed(Layout, "namespace", "endpoint", "disaggregation-mode", "headless", "enable-local-indexer")
}

func kserveFixed() []Flag {
	return slices.Concat(
		fixed(Served,
			"model-name", "model-dir", "model-id", "model-revision", "backend", "max-length", "disable-lower-case", "disable-special-tokens",
			"tensor-input-names", "return-token-type-ids", "return-probabilities"),
		fixed(Sight, "configure-logging"),
	)
}
