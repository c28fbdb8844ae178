package command

import (
	"os"
	"sync"
)

// Temporary makes the directories that are gone when the process is, also when
// it is not let to end in order. It is safe for concurrent use.
type Temporary struct {
	mu   sync.Mutex // guards dirs, and keeps new ones from being made while all are removed
	dirs map[string]bool
}

// Dir makes a directory in the system's temporary one. remove takes it away; a
// second call does nothing.
func (t *Temporary) Dir(pattern string) (name string, remove func() error, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if name, err = os.MkdirTemp("", pattern); err != nil {
		return "", nil, err
	}
	if t.dirs == nil {
		t.dirs = map[string]bool{}
	}
	t.dirs[name] = true
	return name, func() error {
		t.mu.Lock()
		defer t.mu.Unlock()
		if !t.dirs[name] {
			return nil
		}
		delete(t.dirs, name)
		return os.RemoveAll(name)
	}, nil
}

// RemoveAll takes away what is left, for a process that ends now. Nobody may
// make another one afterwards.
func (t *Temporary) RemoveAll() {
	t.mu.Lock() // for good
	for name := range t.dirs {
		for range 3 { // somebody may still write into it
			if os.RemoveAll(name) == nil {
				break
			}
		}
	}
}

// AwaitSignals asks for an orderly end at the first signal, and returns at the second
// one: the shutdown hangs, or takes longer than somebody wants to wait.
func AwaitSignals(signals <-chan os.Signal, cancel func()) {
	<-signals
	cancel()
	<-signals
}
