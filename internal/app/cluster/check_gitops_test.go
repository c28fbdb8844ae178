package cluster

import (
	"errors"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/manifests"
)

// TestRepositoryFix: a refused credential is hinted at where it is configured:
// the repository's and the forge's are two.
func TestRepositoryFix(t *testing.T) {
	for _, tt := range []struct {
		reason fault.Reason
		forge  bool
		want   string
	}{
		{fault.Forbidden, false, "[].auth is a credential"},
		{fault.Forbidden, true, "[].forge.token_file holds a token"},
		{fault.Unreachable, false, "the address in gitops.repositories"},
		{fault.Timeout, true, "[].forge.api is right"},
		{fault.NotFound, false, "the address and the branch"},
		{fault.NotFound, true, "[].forge.repository is right"},
		{fault.Invalid, true, "see the message"},
	} {
		fix := repositoryFix(manifests.Checked{Err: errors.Join(&fault.Error{Reason: tt.reason, Message: "x"}), Forge: tt.forge})
		if !strings.Contains(fix, tt.want) || tt.forge && strings.Contains(fix, "[].auth") {
			t.Errorf("%s, of the forge %t: %q, want ...%s...", tt.reason, tt.forge, fix, tt.want)
		}
	}
}
