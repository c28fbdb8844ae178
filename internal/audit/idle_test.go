package audit

import (
	"context"
	"sync"
	"testing"
)

func TestIdle(t *testing.T) {
	writing, write := make(chan struct{}), make(chan struct{})
	var first sync.Once // and not the checkpoint at the end
	j := openTest(t, Options{Failpoint: func(name string) error {
		if name == "before-commit" {
			first.Do(func() {
				close(writing)
				<-write
			})
		}
		return nil
	}})
	if !j.Idle() {
		t.Error("not idle before anything was appended")
	}
	done := make(chan error, 1)
	go func() {
		_, err := j.Append(context.Background(), one("s", "k", "x"))
		done <- err
	}()
	<-writing
	if j.Idle() {
		t.Error("idle while an append is being written")
	}
	close(write)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !j.Idle() {
		t.Error("not idle after it was answered")
	}
}
