package cli

import (
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/engine"
)

// TestCatalogKnowsTheEngines: a service may name each engine that has a table,
// and no other, since flags are held to the table of the one that it names.
func TestCatalogKnowsTheEngines(t *testing.T) {
	for _, name := range append(engine.Names(), "triton") {
		_, err := config.Parse("services.yaml", []byte("auth: {insecure: true}\nservices: [{namespace: serving, workload: {name: chat}, engine: "+name+"}]"))
		if name == "triton" {
			if err == nil || !strings.Contains(err.Error(), "one of "+strings.Join(engine.Names(), ", ")) {
				t.Errorf("%s: %v, want the engines named that there are", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
