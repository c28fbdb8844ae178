package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/app/cluster"
	"github.com/inference-responder/responder/internal/cli/series"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/setting"
)

// seriesFlags name the Prometheus that a playbook's series are looked up in.
type seriesFlags struct {
	config     string
	prometheus config.Prometheus
}

func (f *seriesFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.prometheus.URL, "prometheus", "", "URL of a Prometheus to look series, labels and buckets up in")
	cmd.Flags().StringVar(&f.prometheus.TokenFile, "prometheus-token-file", "", "with --prometheus: file with a bearer token")
	cmd.Flags().StringVar(&f.prometheus.CAFile, "prometheus-ca-file", "", "with --prometheus: PEM certificates that vouch for it")
	cmd.Flags().StringVar(&f.config, "config", "", "look them up in the Prometheus of this configuration")
	cmd.MarkFlagsMutuallyExclusive("config", "prometheus")
}

// source returns the Prometheus that the flags name; nil: none.
func (f *seriesFlags) source() (series.Source, error) {
	p := f.prometheus
	switch {
	case f.config != "":
		c, err := config.Load(f.config)
		if err != nil {
			return nil, err
		}
		if p = c.Prometheus; p.URL == "" {
			return nil, fmt.Errorf("%s names no Prometheus: set prometheus.url, or leave --config out", f.config)
		}
	case p.URL == "" && (p.TokenFile != "" || p.CAFile != ""):
		return nil, errors.New("--prometheus-token-file and --prometheus-ca-file need --prometheus URL")
	case p.URL == "":
		return nil, nil
	case p.TokenFile != "" && setting.InTheClear(p.URL):
		return nil, errors.New("--prometheus is plain http: whoever is on the way to it could read the token; give it as https://, or set prometheus.plaintext in a configuration and use --config")
	}
	return cluster.Prometheus(p)
}
