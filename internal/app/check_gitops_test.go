package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/manifests"
)

// TestRepositoryFix: a refused credential is hinted at where it is configured:
// the repository's and the forge's are two.
func TestRepositoryFix(t *testing.T) {
	for _, tt := range []struct {
		reason gitops.Reason
		forge  bool
		want   string
	}{
		{gitops.Forbidden, false, "[].auth is a credential"},
		{gitops.Forbidden, true, "[].forge.token_file holds a token"},
		{gitops.Unreachable, false, "the address in gitops.repositories"},
		{gitops.Timeout, true, "[].forge.api is right"},
		{gitops.NotFound, false, "the address and the branch"},
		{gitops.NotFound, true, "[].forge.repository is right"},
		{gitops.Invalid, true, "see the message"},
	} {
		fix := repositoryFix(manifests.Checked{Err: errors.Join(&gitops.Error{Reason: tt.reason, Message: "x"}), Forge: tt.forge})
		if !strings.Contains(fix, tt.want) || tt.forge && strings.Contains(fix, "[].auth") {
			t.Errorf("%s, of the forge %t: %q, want ...%s...", tt.reason, tt.forge, fix, tt.want)
		}
	}
}
