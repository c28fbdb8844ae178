package outbound

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Watched is a TLS configuration made of files, for clients and servers. It is
// made again when one of the files changes. Half a rotation must not take a
// server down, so files that cannot be used leave the last good configuration.
// It may be used by many goroutines.
type Watched struct {
	Every time.Duration // how often files are looked at while connections come; one second unless set before use

	load   func() (*tls.Config, error)
	files  []string
	logger *slog.Logger

	mu      sync.Mutex // guards what follows
	checked time.Time
	stamp   string // sizes and times of the files current was made of
	current *tls.Config
}

// Watch makes the configuration once, and fails if load does. An empty file
// name is no file.
func Watch(load func() (*tls.Config, error), logger *slog.Logger, files ...string) (*Watched, error) {
	w := &Watched{Every: time.Second, load: load, files: files, logger: logger}
	w.stamp, w.checked = w.stat(), time.Now() // before loading: what changes meanwhile is loaded again
	config, err := load()
	if err != nil {
		return nil, err
	}
	w.current = config
	return w, nil
}

// Listener returns the configuration for a listener: each connection gets the fresh one.
func (w *Watched) Listener() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return w.Fresh(), nil },
	}
}

// Fresh returns the current configuration, which nobody may change.
func (w *Watched) Fresh() *tls.Config {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if now.Sub(w.checked) < w.Every {
		return w.current
	}
	w.checked = now
	stamp := w.stat()
	if stamp == w.stamp {
		return w.current
	}
	w.stamp = stamp
	config, err := w.load()
	if err != nil {
		w.logger.Error("tls files cannot be used: the last good ones stay", "err", err)
		return w.current
	}
	w.current = config
	return config
}

func (w *Watched) stat() (stamp string) {
	for _, name := range w.files {
		if info, err := os.Stat(name); err == nil {
			stamp += fmt.Sprintf("%d %d;", info.Size(), info.ModTime().UnixNano())
		}
	}
	return stamp
}
