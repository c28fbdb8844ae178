package cli

import (
	"context"
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
