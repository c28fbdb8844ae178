package demo

import (
	"os"
	"testing"

	"github.com/inference-responder/responder/internal/audit/audittest"
)

func TestMain(m *testing.M) { os.Exit(audittest.Main(m)) }
