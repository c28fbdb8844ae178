// Package grpc_middleware chains interceptors.
package grpc_middleware //nolint:revive // the name of the package it stands in for

import "google.golang.org/grpc"

// ChainUnaryClient returns the first of the interceptors.
func ChainUnaryClient(interceptors ...grpc.UnaryClientInterceptor) grpc.UnaryClientInterceptor {
	return interceptors[0]
}
