package rules

import (
	"strings"
	"sync"
	"text/template/parse" // the parser alone: it keeps no methods in the binary, as text/template does

	"github.com/inference-responder/responder/internal/yamldoc"
)

// templateFunctions are what a template of an alert may call: Go's, and those of
// Prometheus.
var templateFunctions = sync.OnceValue(func() map[string]any {
	out := map[string]any{}
	for name := range strings.FieldsSeq(`and call html index slice js len not or print printf println urlquery eq ge gt le lt ne
		query first label value strvalue args reReplaceAll safeHtml match title toUpper toLower graphLink tableLink sortByLabel
		stripPort stripDomain humanize humanize1024 humanizeDuration humanizePercentage humanizeTimestamp toTime toDuration
		now pathPrefix externalURL parseDuration urlQueryEscape tmpl`) {
		out[name] = true
	}
	return out
})

// templates reports texts of a mapping that are no templates to Prometheus, which
// refuses the whole file for one of them.
func templates(m *yamldoc.Mapping, field string, texts map[string]string) map[string]string {
	const variables = "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}"
	for name, text := range texts {
		if _, err := parse.Parse("", variables+text, "", "", templateFunctions()); err != nil {
			_, why, _ := strings.Cut(strings.TrimPrefix(err.Error(), "template: :"), ": ")
			n := m.Doc.Mapping(m.Get(field), m.At(field)).Get(name)
			m.Doc.Report(n, m.At(field)+"."+name, "not a template: "+why, "Prometheus fills in {{ $labels.service }} and {{ $value }}")
		}
	}
	return texts
}
