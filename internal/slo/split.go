package slo

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Splits returns for each of the labels how many requests ended over every span, by
// the label's value. Series without the label are left out. note says why the values
// are not known; empty: they are.
func Splits(ctx context.Context, q Asker, service string, all []Progress, labels []string, at time.Time, spans ...Span) (values map[string]map[string][]float64, note string, err error) {
	var terms []string
	var finished []string
	for _, p := range all {
		finished = append(finished, p.Finished)
	}
	for i, label := range labels {
		for k, span := range spans {
			events := firstOf(finished, func(n string) string {
				return fmt.Sprintf("increase(%s%s)", selector(n, service, label+`!=""`), span)
			})
			terms = append(terms, key{-6, i, k, label}.ask("sum by ("+label+") ("+events+")"))
		}
	}
	got, err := read(ctx, q, strings.Join(terms, " or "), at)
	if err != nil {
		return nil, "", err
	}
	if got.partial != "" {
		return nil, mayBePartial + got.partial, nil
	}
	out := map[string]map[string][]float64{}
	for k, samples := range got.parts {
		for _, s := range samples {
			values := out[k.part]
			if values == nil {
				values = map[string][]float64{}
				out[k.part] = values
			}
			value := s.Labels[k.part]
			if values[value] == nil {
				values[value] = make([]float64, len(spans))
			}
			values[value][k.span] = s.Value
		}
	}
	return out, "", nil
}
