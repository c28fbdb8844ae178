// Package grpc_retry retries nothing.
package grpc_retry //nolint:revive // the name of the package it stands in for

import (
	"context"
	"time"

	"google.golang.org/grpc"
)

// CallOption is an option of a retry.
type CallOption struct{ grpc.EmptyCallOption }

// BackoffFunc returns how long to wait.
type BackoffFunc func(attempt uint) time.Duration

// WithMax does nothing.
func WithMax(uint) CallOption { return CallOption{} }

// WithBackoff does nothing.
func WithBackoff(BackoffFunc) CallOption { return CallOption{} }

// BackoffLinear waits equally long every time.
func BackoffLinear(d time.Duration) BackoffFunc { return func(uint) time.Duration { return d } }

// UnaryClientInterceptor calls on.
func UnaryClientInterceptor(...CallOption) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return call(ctx, method, req, reply, cc, opts...)
	}
}

// StreamClientInterceptor calls on.
func StreamClientInterceptor(...CallOption) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		return open(ctx, desc, cc, method, opts...)
	}
}
