package main

import (
	"os"
	"sync"
)

// temporary makes the directories that are gone when the process is, also when
// it is not let to end in order. It is safe for concurrent use.
type temporary struct {
	mu   sync.Mutex // guards dirs, and keeps new ones from being made while all are removed
	dirs map[string]bool
}

// dir makes a directory in the system's temporary one. remove takes it away; a
// second call does nothing.
func (t *temporary) dir(pattern string) (name string, remove func() error, err error) {
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

// removeAll takes away what is left, for a process that ends now. Nobody may
// make another one afterwards.
func (t *temporary) removeAll() {
	t.mu.Lock() // for good
	for name := range t.dirs {
		for range 3 { // somebody may still write into it
			if os.RemoveAll(name) == nil {
				break
			}
		}
	}
}
