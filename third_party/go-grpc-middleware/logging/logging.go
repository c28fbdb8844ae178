// Package grpc_logging logs nothing.
package grpc_logging //nolint:revive // the name of the package it stands in for

import "context"

// ServerPayloadLoggingDecider reports whether a server logs a request.
type ServerPayloadLoggingDecider func(ctx context.Context, fullMethodName string, servingObject any) bool
