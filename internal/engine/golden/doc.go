// Package golden asks engines for completions of golden prompts and compares them
// with what an operator recorded. It speaks OpenAI's API, as vLLM, SGLang, Dynamo
// and KServe serve it, and SGLang's own /generate, always streamed.
//
// What it asks costs the engine tokens, so [Probes] holds a budget for each service
// in memory, over all runs of the process: tokens per hour, a least time between two
// probes of one target, and never two at once.
//
// Neither prompts nor completions leave it: errors name prompts and lines of the
// file, a [Completion] prints as nothing but its length, and what a server says of an
// error is not repeated, because servers repeat what they were asked.
package golden
