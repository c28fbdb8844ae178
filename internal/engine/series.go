package engine

import (
	"math"
	"slices"
)

// The indicators that a service-level objective may name. No engine exports
// goodput; here it is the share of requests that end without an error within
// the threshold, from the histogram of whole requests and the counter of errors.
const (
	TTFT    = "ttft"    // time to first token, per request, with the time in the queue
	TPOT    = "tpot"    // mean time per output token of a request
	ITL     = "itl"     // time between two tokens
	E2E     = "e2e"     // time of a whole request
	Errors  = "errors"  // requests that end with an error of the server
	Goodput = "goodput" // requests that end without an error within the threshold
)

// Indicators returns the names of all indicators, in their usual order.
func Indicators() []string { return []string{TTFT, TPOT, ITL, E2E, Errors, Goodput} }

// Timed reports whether an indicator compares a duration with a threshold.
func Timed(indicator string) bool { return indicator != Errors }

// Series is where an engine exports an indicator: a histogram of durations, two
// counters, or both. Names are as scraped.
type Series struct {
	Histogram string    // without _bucket and _count; empty: counters only
	Millis    bool      // its bounds are milliseconds
	Bounds    []float64 // of its buckets unless configured otherwise; in seconds, or in milliseconds with Millis
	Requests  string    // counter of requests; set when the histogram observes tokens, of which one request has many

	Failed Counter // bad requests, in addition to the slow ones
	Total  Counter // requests; with a histogram, which counts them itself: what shows that Failed would be there

	Model string // label with the model's name; empty: there is none
	Since string // versions that export it
}

// Counter is a counter, or a part of one.
type Counter struct {
	Name  string
	Match string // label matchers that select the part
	Lazy  bool   // its series appears with the first event: while the total is there, absent means none
}

// Progress is how an engine shows that a replica does something. A replica that
// keeps requests running while its steps stand still is stuck: it answers
// health checks, and no histogram ever sees its requests.
type Progress struct {
	Running  string    // gauge of requests that are computed
	Waiting  string    // gauge of requests in the queue
	Capacity Counter   // gauge of those that wait for capacity alone, not for an adapter or a transfer; empty: Waiting tells no more
	Queues   []string  // gauges of requests in further queues, which not every version has
	Steps    []Counter // counters that grow with every step or token, newest name first
	Finished string    // counter of requests that ended
	Seconds  string    // sum of their durations
	Prompts  string    // counter of the tokens of their prompts

	Cache     []string // gauges of the share of the KV cache in use, newest name first
	Preempted []string // counters of requests that lost their place in it, newest name first

	Work Work
}

// Work is how an engine shows what its requests are made of and where their time
// goes. Lists hold the newest name first; what is empty is not exported.
type Work struct {
	Generated     string   // counter of output tokens
	PrefixHits    []string // counters of prompt tokens that the prefix cache had
	PrefixQueries []string // counters of prompt tokens that it was asked for
	PromptLength  []string // histograms of the prompt tokens of a request
	OutputLength  []string // histograms of its output tokens

	Queue, Prefill, Decode string   // histograms of the seconds that a request spends in each phase
	FirstToken, Whole      string   // histograms of the seconds to the first token, and of a whole request: without Prefill and Decode, these are their differences
	Token                  []string // histograms of the seconds between two tokens

	Failed, Aborted, Refused Part // requests that end with an error of the server, that their clients gave up, that are answered with 4xx

	Corrupted string // counter of requests whose logits were not numbers

	Config   string // series whose labels hold num_gpu_blocks and block_size
	Capacity string // gauge of the tokens that the KV cache holds

	Drafted, Accepted string // counters of tokens that speculative decoding drafted, and of those that were right
	AcceptRate        string // gauge of their share, where there are no counters
	TransfersFailed   string // counter of transfers of KV blocks between engines that failed
}

// Part is a counter, or a part of one.
type Part struct {
	Name  string
	Match string // label matchers that select the part
	Total string // counter: while it is there, an absent part means none; empty: absent is unknown
}

// Bounds of histograms, in seconds: those of the versions that the tables of
// flags were read from.
var (
	vllmTTFT    = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	vllmToken   = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	vllmRequest = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}

	sglangTTFT  = []float64{0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400}
	sglangToken = []float64{0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.06, 0.08, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8}

	dynamoTTFT  = []float64{0.0022, 0.0047, 0.01, 0.022, 0.047, 0.1, 0.22, 0.47, 1, 2.2, 4.7, 10, 22, 48, 100, 220, 480}
	dynamoToken = []float64{0.0019, 0.0035, 0.0067, 0.013, 0.024, 0.045, 0.084, 0.16, 0.3, 0.56, 1.1, 2}
)

// vllmSeries returns where vLLM exports an indicator. A client that gives up
// before the first token leaves no sample at all.
func vllmSeries(indicator string) []Series {
	hist := func(name string, bounds []float64, since string) Series {
		return Series{Histogram: "vllm:" + name, Bounds: bounds, Model: "model_name", Since: since}
	}
	perToken := func(name, since string) Series {
		s := hist(name, vllmToken, since)
		s.Requests = "vllm:time_to_first_token_seconds_count"
		return s
	}
	// request_success_total counts all ends, errors among them. HTTP statuses
	// also show what fails before the engine; their series lack the model.
	failed := Counter{Name: "vllm:request_success_total", Match: `finished_reason="error"`}
	responses := Counter{Name: "http_requests_total", Match: `handler=~"/v1/.*"`}
	serverErrors := Counter{Name: responses.Name, Match: responses.Match + `,status=~"5.."`, Lazy: true}
	switch indicator {
	case TTFT:
		return []Series{hist("time_to_first_token_seconds", vllmTTFT, "")}
	case TPOT:
		return []Series{
			hist("request_time_per_output_token_seconds", vllmToken, "v0.11"),
			perToken("inter_token_latency_seconds", "v0.10"),
			perToken("time_per_output_token_seconds", "before v0.15"),
		}
	case ITL:
		return []Series{perToken("inter_token_latency_seconds", "v0.10"), perToken("time_per_output_token_seconds", "before v0.15")}
	case E2E:
		return []Series{hist("e2e_request_latency_seconds", vllmRequest, "")}
	case Errors:
		return []Series{
			{Failed: failed, Total: Counter{Name: failed.Name}, Model: "model_name", Since: "with finished_reason error"},
			{Failed: serverErrors, Total: responses, Since: "with the HTTP metrics of the API server"},
		}
	case Goodput:
		byEngine, byStatus := hist("e2e_request_latency_seconds", vllmRequest, ""), hist("e2e_request_latency_seconds", vllmRequest, "")
		byEngine.Failed, byStatus.Failed, byStatus.Total = failed, serverErrors, responses
		return []Series{byEngine, byStatus}
	}
	return nil
}

// sglangSeries returns where SGLang exports an indicator. Its server exports
// nothing without --enable-metrics. It has no histogram of a request's mean time
// per token today: TPOT is judged by the time between tokens.
func sglangSeries(indicator string) []Series {
	hist := func(name string, bounds []float64) Series {
		return Series{Histogram: "sglang:" + name, Bounds: bounds, Model: "model_name"}
	}
	perToken := func(name, since string) Series {
		s := hist(name, sglangToken)
		s.Requests, s.Since = "sglang:time_to_first_token_seconds_count", since
		return s
	}
	responses := Counter{Name: "sglang:http_responses_total", Match: `endpoint=~"/v1/.*|/generate"`}
	serverErrors := Counter{Name: responses.Name, Match: responses.Match + `,status_code=~"5.."`, Lazy: true}
	aborted := Counter{Name: "sglang:num_aborted_requests_total", Lazy: true} // clients that leave are among them
	switch indicator {
	case TTFT:
		return []Series{hist("time_to_first_token_seconds", sglangTTFT)}
	case TPOT, ITL:
		return []Series{perToken("inter_token_latency_seconds", ""), perToken("time_per_output_token_seconds", "older")}
	case E2E:
		return []Series{hist("e2e_request_latency_seconds", nil)}
	case Errors:
		return []Series{
			{Failed: serverErrors, Total: responses},
			{Failed: aborted, Total: Counter{Name: "sglang:num_requests_total"}, Model: "model_name"},
		}
	case Goodput:
		byStatus, byAbort := hist("e2e_request_latency_seconds", nil), hist("e2e_request_latency_seconds", nil)
		byStatus.Failed, byStatus.Total = serverErrors, responses
		byAbort.Failed, byAbort.Total = aborted, Counter{Name: "sglang:num_requests_total"}
		return []Series{byStatus, byAbort}
	}
	return nil
}

// dynamoSeries returns where the frontend of Dynamo exports an indicator. The
// prefix of its metrics is the default one. Mistakes of clients and requests
// that they cancel are no errors of the server. Versions without error_type
// count them as such.
func dynamoSeries(indicator string) []Series {
	hist := func(name string, bounds []float64) Series {
		return Series{Histogram: "dynamo_frontend_" + name, Bounds: bounds, Model: "model"}
	}
	total := Counter{Name: "dynamo_frontend_requests_total"}
	failed := Counter{Name: total.Name, Match: `status="error",error_type!~"validation|not_found|cancelled|not_implemented"`, Lazy: true}
	switch indicator {
	case TTFT:
		return []Series{hist("time_to_first_token_seconds", dynamoTTFT)}
	case TPOT, ITL:
		s := hist("inter_token_latency_seconds", dynamoToken)
		s.Requests = "dynamo_frontend_time_to_first_token_seconds_count"
		return []Series{s}
	case E2E:
		return []Series{hist("request_duration_seconds", nil)}
	case Errors:
		return []Series{{Failed: failed, Total: total, Model: "model"}}
	case Goodput:
		s := hist("request_duration_seconds", nil)
		s.Failed, s.Total = failed, total
		return []Series{s}
	}
	return nil
}

// kserveSeries returns what KServe adds to vLLM's own series: the queue proxy of
// Knative, for serverless inference services. It measures whole requests.
func kserveSeries(indicator string) []Series {
	total := Counter{Name: "revision_request_count"}
	failed := Counter{Name: total.Name, Match: `response_code_class="5xx"`, Lazy: true}
	latencies := Series{Histogram: "revision_request_latencies", Millis: true, Since: "serverless mode"}
	switch indicator {
	case E2E:
		return []Series{latencies}
	case Errors:
		return []Series{{Failed: failed, Total: total, Since: "serverless mode"}}
	case Goodput:
		latencies.Failed, latencies.Total = failed, total
		return []Series{latencies}
	}
	return nil
}

// Series returns where the engine exports an indicator, in the order in which
// the names are tried: the server in front first, then its programs, newest
// name first. Empty: no such indicator.
func (e Engine) Series(indicator string) []Series {
	t := table()
	var out []Series
	for _, from := range []struct {
		program *Program
		series  func(string) []Series
	}{{t.dynamo, dynamoSeries}, {t.vllm, vllmSeries}, {t.sglang, sglangSeries}, {t.kserve, kserveSeries}} {
		if slices.Contains(e.programs, from.program) {
			out = append(out, from.series(indicator)...)
		}
	}
	return out
}

// Fronted reports whether requests may queue in a server before the engine, where the
// engine's gauges do not show them: in Dynamo's router.
func (e Engine) Fronted() bool { return slices.Contains(e.programs, table().dynamo) }

// Progress returns how replicas of the engine show that they work. The frontend
// of Dynamo shows it for no replica; its workers pass their engine's series on.
func (e Engine) Progress() []Progress {
	t := table()
	var out []Progress
	if slices.Contains(e.programs, t.vllm) {
		out = append(out, Progress{
			Running: "vllm:num_requests_running", Waiting: "vllm:num_requests_waiting",
			Capacity: Counter{Name: "vllm:num_requests_waiting_by_reason", Match: `reason="capacity"`},
			Steps:    []Counter{{Name: "vllm:iteration_tokens_total_count"}, {Name: "vllm:generation_tokens_total"}},
			Finished: "vllm:e2e_request_latency_seconds_count", Seconds: "vllm:e2e_request_latency_seconds_sum", Prompts: "vllm:prompt_tokens_total",
			Cache: []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"}, Preempted: []string{"vllm:num_preemptions_total"},
			Work: vllmWork(),
		})
	}
	if slices.Contains(e.programs, t.sglang) {
		out = append(out, Progress{
			Running: "sglang:num_running_reqs", Waiting: "sglang:num_queue_reqs",
			Queues: []string{
				"sglang:num_grammar_queue_reqs", "sglang:num_paused_reqs", "sglang:num_prefill_bootstrap_queue_reqs", "sglang:num_prefill_inflight_queue_reqs",
				"sglang:num_decode_prealloc_queue_reqs", "sglang:num_decode_transfer_queue_reqs",
			},
			// generation_tokens_total of SGLang grows only when a request ends.
			Steps:    []Counter{{Name: "sglang:realtime_tokens_total"}},
			Finished: "sglang:e2e_request_latency_seconds_count", Seconds: "sglang:e2e_request_latency_seconds_sum", Prompts: "sglang:prompt_tokens_total",
			Cache: []string{"sglang:token_usage"}, Preempted: []string{"sglang:num_retracted_requests_total"},
			Work: sglangWork(),
		})
	}
	return out
}

// vllmWork returns how vLLM shows its work. Phases are recorded when a request ends.
func vllmWork() Work {
	return Work{
		Generated:     "vllm:generation_tokens_total",
		PrefixHits:    []string{"vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"},
		PrefixQueries: []string{"vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"},
		PromptLength:  []string{"vllm:request_prompt_tokens"},
		OutputLength:  []string{"vllm:request_generation_tokens"},
		Queue:         "vllm:request_queue_time_seconds",
		Prefill:       "vllm:request_prefill_time_seconds",
		Decode:        "vllm:request_decode_time_seconds",
		Token:         []string{"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"},
		Failed:        Part{Name: "vllm:request_success_total", Match: `finished_reason="error"`},
		Aborted:       Part{Name: "vllm:request_success_total", Match: `finished_reason="abort"`},
		Refused:       Part{Name: "http_requests_total", Match: `handler=~"/v1/.*",status=~"4.."`, Total: "http_requests_total"},
		Corrupted:     "vllm:corrupted_requests_total",
		Config:        "vllm:cache_config_info",
		Drafted:       "vllm:spec_decode_num_draft_tokens_total", Accepted: "vllm:spec_decode_num_accepted_tokens_total",
		TransfersFailed: "vllm:nixl_num_failed_transfers_total",
	}
}

// sglangWork returns how SGLang shows its work. Its histograms of lengths need
// --collect-tokens-histogram. It has none of prefill and decode: prefill is what the
// first token takes beyond the queue, decode the rest of the request.
func sglangWork() Work {
	return Work{
		Generated:     "sglang:generation_tokens_total",
		PrefixHits:    []string{"sglang:cached_tokens_total"},
		PrefixQueries: []string{"sglang:prompt_tokens_total"},
		PromptLength:  []string{"sglang:prompt_tokens_histogram"},
		OutputLength:  []string{"sglang:generation_tokens_histogram"},
		Queue:         "sglang:queue_time_seconds",
		FirstToken:    "sglang:time_to_first_token_seconds",
		Whole:         "sglang:e2e_request_latency_seconds",
		Token:         []string{"sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"},
		Failed: Part{
			Name: "sglang:http_responses_total", Match: `endpoint=~"/v1/.*|/generate",status_code=~"5.."`,
			Total: `sglang:http_responses_total`,
		},
		Refused: Part{
			Name: "sglang:http_responses_total", Match: `endpoint=~"/v1/.*|/generate",status_code=~"4.."`,
			Total: `sglang:http_responses_total`,
		},
		Aborted:  Part{Name: "sglang:num_aborted_requests_total", Total: "sglang:num_requests_total"},
		Capacity: "sglang:max_total_num_tokens", AcceptRate: "sglang:spec_accept_rate", TransfersFailed: "sglang:num_transfer_failed_reqs_total",
	}
}

// Bounds returns the bounds in seconds that the buckets of an indicator have
// unless an operator configured others, of the series that is tried first; nil
// if they are not known. Engines that run one of several programs have them too.
func (e Engine) Bounds(indicator string) []float64 {
	all := e.Series(indicator)
	if e.Name == "" || len(all) == 0 || all[0].Millis {
		return nil
	}
	return all[0].Bounds
}

// Around returns the bounds next to a threshold, NaN where there is none. Both are
// the threshold itself if a bucket ends there.
func Around(bounds []float64, threshold float64) (below, above float64) {
	below, above = math.NaN(), math.NaN()
	for _, b := range bounds {
		if b <= threshold*(1+1e-9) {
			below = b
		}
		if b >= threshold*(1-1e-9) && math.IsNaN(above) {
			above = b
		}
	}
	return below, above
}
