// Package gpu holds the check gpu.health, and the sources that it reads: node
// agents first, and dcgm-exporter for nodes without an agent. An agent that is
// there and does not answer is evidence of its own, and dcgm-exporter is not asked
// in its place. What the readings mean is decided in internal/gpu/judge.
package gpu
