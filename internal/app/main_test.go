package app

import (
	"os"
	"testing"

	"github.com/inference-responder/responder/internal/audit/audittest"
)

func TestMain(m *testing.M) { os.Exit(audittest.Main(m)) }

// rollbackPlaybook is a small playbook with one lever.
const rollbackPlaybook = "../../cmd/responder/testdata/fixtures/rollback.yaml"
