//go:build e2e

// Package e2e runs the responder against real servers: see package rig.
package e2e

import (
	"os"
	"testing"

	"github.com/inference-responder/responder/test/e2e/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }
