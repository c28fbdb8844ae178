package config

import (
	"strings"
	"testing"
)

func TestReportsConfiguration(t *testing.T) {
	const file = `auth: {insecure: true}
channels:
  - {name: platform, default: true, webhook: {url: "http://h"}}
  - {name: oncall, pagerduty: {routing_key_file: k}}
services: [{namespace: serving, workload: {kind: Deployment, name: chat}, engine: vllm}]
reports:
  - `
	for in, want := range map[string]string{
		"{name: weekly, to: [platform]}": "",
		"{name: daily, every: day, at: 08:05, zone: Europe/Berlin, to: [platform], services: [serving/chat], skip_empty: true}": "",
		"{name: A b, to: [platform]}":                              `f.yaml:7:12: reports[0].name: "A b" is not a report's name (up to 63 lower-case`,
		"{name: w, to: [platfor]}":                                 `f.yaml:7:20: reports[0].to[0]: no channel is called "platfor" (did you mean "platform"? allowed: platform, oncall)`,
		"{name: w, to: [oncall]}":                                  `f.yaml:7:20: reports[0].to[0]: channel "oncall" would page people for a report`,
		"{name: w}":                                                `f.yaml:7:5: reports[0].to: must name a channel`,
		"{name: w, to: [platform], at: 9am}":                       `f.yaml:7:35: reports[0].at: "9am" is not a time of day (write it like "09:00")`,
		"{name: w, to: [platform], at: 9:00}":                      `"9:00" is not a time of day`,
		"{name: w, to: [platform], at: '24:00'}":                   `"24:00" is not a time of day`,
		"{name: w, to: [platform], zone: Europe/Berln}":            `f.yaml:7:37: reports[0].zone: unknown time zone "Europe/Berln" (write a name such as Europe/Berlin or UTC)`,
		"{name: w, to: [platform], zone: Local}":                   `unknown time zone "Local"`,
		"{name: w, to: [platform], zone: ../passwd}":               `unknown time zone "../passwd"`,
		"{name: w, to: [platform], every: month}":                  `f.yaml:7:38: reports[0].every: `,
		"{name: w, to: [platform], on: mon}":                       `f.yaml:7:35: reports[0].on: `,
		"{name: w, to: [platform], every: day, on: monday}":        `reports[0].on: a daily report is not on one day (leave it out, or set every: week)`,
		"{name: w, to: [platform], services: [serving/chta]}":      `reports[0].services[0]: no service is called "serving/chta": its report would be empty (did you mean "serving/chat"?`,
		"{name: w, to: [platform]}\n  - {name: w, to: [platform]}": `f.yaml:8:12: reports[1].name: "w" is also the name of reports[0] (give each report a name of its own)`,
		"{name: w, to: [platform], chanel: x}":                     `unknown field "chanel"`,
	} {
		_, err := Parse("f.yaml", []byte(file+in+"\n"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s:\n got %v\nwant %s", in, err, want)
		}
	}
}
