package podresources

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	kubelet "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/inference-responder/responder/internal/gpu"
)

// Limits of requests. The kubelet answers for the whole node at once, with about
// 200 bytes per container.
const (
	defaultEvery   = 10 * time.Second
	defaultTimeout = 2 * time.Second
	maxAnswer      = 8 << 20 // bytes
)

// Options configure how the kubelet is asked.
type Options struct {
	Socket  string        // absolute path of the kubelet's pod-resources socket
	Every   time.Duration // between two answers; 0: 10 s
	Timeout time.Duration // for one answer; 0: 2 s
	Log     *slog.Logger
}

// Pods holds the kubelet's last answer. Its methods are safe for concurrent use
// and never wait for the kubelet.
type Pods struct {
	o Options

	mu   sync.Mutex // guards last; never held while the kubelet is asked
	last answer
}

// answer is an answer of the kubelet, or why there is none.
type answer struct {
	at     time.Time
	held   holdings
	why    gpu.Absence // empty: held counts
	detail string
}

// Start asks repeatedly until ctx is done. It returns at once; an error means that
// the options can never work.
func Start(ctx context.Context, o Options) (*Pods, error) {
	if !filepath.IsAbs(o.Socket) {
		return nil, fmt.Errorf("pod resources: the kubelet's socket %q is not an absolute path, such as /var/lib/kubelet/pod-resources/kubelet.sock", o.Socket)
	}
	if o.Every == 0 {
		o.Every = defaultEvery
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	// Retry soon after the socket went away: the kubelet creates a new one when it
	// starts.
	pace := backoff.Config{BaseDelay: o.Every / 10, Multiplier: 2, MaxDelay: o.Every / 2}
	conn, err := grpc.NewClient("unix://"+o.Socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // it is a file of this host
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pace, MinConnectTimeout: o.Timeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
	)
	if err != nil {
		return nil, fmt.Errorf("pod resources: %w", err)
	}
	p := &Pods{o: o, last: answer{at: time.Now(), why: gpu.NotRead, detail: "the kubelet has not answered yet"}}
	go p.keep(ctx, conn)
	return p, nil
}

// keep asks repeatedly, and logs when it begins to fail and when it works again.
func (p *Pods) keep(ctx context.Context, conn *grpc.ClientConn) {
	defer conn.Close()
	client := kubelet.NewPodResourcesListerClient(conn)
	every := time.NewTicker(p.o.Every)
	defer every.Stop()
	for told := "none"; ; {
		a := p.ask(ctx, client)
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		p.last = a
		p.mu.Unlock()
		switch {
		case a.detail == told:
		case a.why == "":
			p.o.Log.Info("the kubelet reports which pods hold gpus", "socket", p.o.Socket)
		default:
			p.o.Log.Warn("the pods that hold gpus are unknown", "err", a.detail)
		}
		told = a.detail
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// ask asks once.
func (p *Pods) ask(ctx context.Context, client kubelet.PodResourcesListerClient) answer {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeout)
	defer cancel()
	list, err := client.List(ctx, &kubelet.ListPodResourcesRequest{})
	a := answer{at: time.Now()}
	if err == nil {
		if a.held, err = holdingsOf(list); err == nil {
			return a
		}
		a.why = gpu.Implausible
	} else {
		a.why = absence(err)
	}
	a.detail = p.detail(err)
	return a
}

// absence returns why a call has no answer.
func absence(err error) gpu.Absence {
	switch s := status.Convert(err); {
	case s.Code() == codes.DeadlineExceeded:
		return gpu.Timeout
	case s.Code() == codes.PermissionDenied || strings.Contains(s.Message(), "permission denied"):
		return gpu.Denied
	default:
		return gpu.Failed
	}
}

// detail returns what happened and what to do, as text for a snapshot.
func (p *Pods) detail(err error) string {
	s := status.Convert(err)
	text := fmt.Sprintf("the kubelet at %s: %s", p.o.Socket, s.Message())
	switch absence(err) {
	case gpu.Timeout:
		text = fmt.Sprintf("the kubelet at %s did not answer within %s", p.o.Socket, p.o.Timeout)
	case gpu.Denied:
		text += "; the socket is root's: the agent has to run as user 0, without any capability"
	}
	return printable(text)
}

// Into adds the pods to a snapshot's GPUs.
func (p *Pods) Into(s *gpu.Snapshot) {
	p.mu.Lock()
	a := p.last
	p.mu.Unlock()
	if age := time.Since(a.at); a.why == "" && age > 3*p.o.Every+p.o.Timeout {
		a.why, a.detail = gpu.Stale, fmt.Sprintf("the kubelet's last answer is %s old", age.Round(time.Second))
	}
	if a.why == "" {
		if err := a.held.into(s); err != nil {
			a.why, a.detail = gpu.Implausible, printable(err.Error())
		}
	}
	if a.why == "" {
		return
	}
	for i := range s.GPUs {
		s.GPUs[i].Pods = gpu.Unknown[[]gpu.Pod](a.why)
	}
	s.Errors = append(s.Errors, gpu.ReadError{What: gpu.WhatPods, Why: a.why, Detail: a.detail})
}

// printable returns text from outside without control characters, and shortened.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), 300)]
}

var errTooMany = errors.New("more pods hold one GPU than can be")
