package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/gitops"
)

// endless is a tree whose calculations end with the test.
type endless chan struct{}

func (e endless) places(context.Context, string, ...gitops.Variable) ([]gitops.Place, error) {
	<-e
	return nil, nil
}

func (e endless) propose(context.Context, gitops.Assignment) (gitops.Proposal, error) {
	<-e
	return gitops.Proposal{}, nil
}

// An interrupt ends a command whose calculation takes long.
func TestInterruptEndsCalculation(t *testing.T) {
	work := make(endless)
	defer close(work)
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := prompt{work}.places(ctx, "", gitops.Variable{Replicas: true})
		ended <- err
		_, err = prompt{work}.propose(ctx, gitops.Assignment{})
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Fatalf("ended before the interrupt: %v", err)
	default:
		interrupt()
	}
	for range 2 {
		if err := <-ended; err == nil || err.Error() != "interrupted; nothing was changed" {
			t.Errorf("ended with %v", err)
		}
	}
}

// What is not known before an edit is printed as unknown, and what was not rendered is
// named.
func TestUnknownsArePrinted(t *testing.T) {
	const why = "the runtime rt is not in this repository"
	var located, set strings.Builder
	v := gitops.Variable{Flag: "max-num-seqs"}
	if err := writePlaces(&located, []placeView{viewOf(v, gitops.Place{File: "a.yaml", Line: 3, Missing: true, Unknown: why})}); err != nil {
		t.Fatal(err)
	}
	if got := located.String(); !strings.Contains(got, "--max-num-seqs is unknown: "+why) || strings.Contains(got, "is not set") {
		t.Errorf("locate prints\n%s", got)
	}
	p := gitops.Proposal{Touches: []gitops.Touch{{Variable: "--max-num-seqs", File: "a.yaml", Line: 3, To: "64", Unknown: why}}, Unbuilt: "gateway of the kustomization prod"}
	if err := writeProposal(&set, viewOfProposal(p)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--max-num-seqs: (unknown: " + why + ") -> 64", "not rendered: gateway of the kustomization prod"} {
		if !strings.Contains(set.String(), want) {
			t.Errorf("set prints\n%s\nwant %q", set.String(), want)
		}
	}
}
