package alertmanager

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/inference-responder/responder/internal/outbound/endpoint"
)

// Status is what an Alertmanager tells about itself.
type Status struct {
	Version string
	Config  string // as YAML, without secrets
}

// ReadStatus asks an Alertmanager about itself. The error is a [*fault.Error], or tells
// what is wrong with the settings.
func ReadStatus(ctx context.Context, c Config) (Status, error) {
	e, err := endpoint.New("Alertmanager", c.AlertmanagerURL, c.CAFile, 0)
	if err != nil {
		return Status{}, err
	}
	s := &Silences{endpoint: e, tokenFile: c.TokenFile}
	body, err := s.ask(ctx, endpoint.Request{Method: http.MethodGet, Path: "api/v2/status", MaxAnswer: maxStatus})
	if err != nil {
		return Status{}, err
	}
	var status struct {
		Config      struct{ Original string }
		VersionInfo struct{ Version string }
	}
	if err := json.Unmarshal(body, &status); err != nil || status.Config.Original == "" {
		return Status{}, s.strange(err)
	}
	return Status{Version: status.VersionInfo.Version, Config: status.Config.Original}, nil
}
