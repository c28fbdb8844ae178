package main

import (
	"context"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/nvml"
	"github.com/inference-responder/responder/internal/gpu/podresources"
)

// source is what is known of the node: what the driver says of its GPUs, and
// what the kubelet says of the pods that hold them.
type source struct {
	*nvml.Collector
	pods *podresources.Pods // nil: the kubelet is not asked
}

// startSource begins to read, until ctx is done. It returns at once.
func startSource(ctx context.Context, o nvml.Options, kubelet string) (*source, error) {
	s := &source{}
	var err error
	if kubelet != "" {
		if s.pods, err = podresources.Start(ctx, podresources.Options{Socket: kubelet, Log: o.Log}); err != nil {
			return nil, err
		}
	}
	if s.Collector, err = nvml.Start(ctx, o); err != nil {
		return nil, err
	}
	return s, nil
}

// Snapshot is what is known now. It waits for nobody.
func (s *source) Snapshot() gpu.Snapshot {
	snapshot := s.Collector.Snapshot()
	if s.pods != nil {
		s.pods.Into(&snapshot)
	}
	return snapshot
}
