package app

import (
	"log/slog"
	"testing"

	"github.com/inference-responder/responder/internal/config"
)

// BenchmarkArming measures what the page of services adds for its 50 rows among 10,000
// services: whether each is armed.
func BenchmarkArming(b *testing.B) {
	c := config.Default()
	c.Journal.Dir, c.Auth.Insecure = b.TempDir(), true
	s, err := New(Options{Config: c, World: waitingWorld(10_000), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	services, err := s.world.Known()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		of := s.arming()
		for _, svc := range services[:50] {
			of(svc)
		}
	}
}
