package engine

import "slices"

// What stands in front of an engine has few flags of its own, and those say
// what it serves and where it belongs: none is for a run to change. All others
// go to the engine behind.
const (
	dynamoSource = "Dynamo v1.4, vLLM and runtime configuration: a worker takes its engine's flags beside its own"
	kserveSource = "KServe, python/huggingfaceserver/huggingfaceserver/__main__.py at 00397f1e8: it takes vLLM's flags beside its own"
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
